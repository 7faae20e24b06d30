"""Markdown tables and pages, for all programs in this folder."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["filled", "markdown"]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with one line per row."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def filled(text: str, place: str, content: str) -> str:
    """A page with other content between `<!-- begin: PLACE -->` and `<!-- end: PLACE -->`."""
    begin, end = f"<!-- begin: {place} -->", f"<!-- end: {place} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    return pattern.sub(lambda _: f"{begin}\n{content}\n{end}", text)
