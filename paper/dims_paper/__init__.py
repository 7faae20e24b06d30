"""The paper's experiments, its numbers and ours: the largest user of dims."""
