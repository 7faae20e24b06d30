"""The metric of the motion: euclidean, or one that moves with each particle."""
