"""Residual networks on CIFAR-10 and LeNets on MNIST, beside the usual opponents."""
