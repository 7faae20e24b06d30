"""Markdown tables, for all programs in this folder."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["markdown"]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with one line per row."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
