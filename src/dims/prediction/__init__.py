"""Predictive distributions of draws, and metrics of their quality."""
