"""Solvers, one file each, and what a solver of your own needs (docs/extending/solvers.md)."""

from dims.mechanics.ledger import tangent_moment
from dims.mechanics.rows import merge
from dims.mechanics.solvers.base import RowState, Solver

__all__ = ["RowState", "Solver", "merge", "tangent_moment"]
