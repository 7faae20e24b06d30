"""Solvers: one file each, and the batch driver they share."""
