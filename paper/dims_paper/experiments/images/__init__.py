"""LeNet on MNIST or Fashion-MNIST: the paper's settings, the whole training set, and baselines."""
