"""Benchmarks: the same velocities on the same network, by our solvers and by others."""
