"""Checks that your own likelihood, solver, friction or sampler keeps its contract."""
