"""What a person sees who prints an object: one line, and in notebooks a small table.

Both show the same few facts. Tensors are for programs; their sizes are for people.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["Shown", "counted_names", "shown_text"]


class Shown:
    """An object that is shown by facts; a dataclass needs `repr=False` beside."""

    def _facts(self) -> Mapping[str, Any]:
        """Names and short values, in the order of interest."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={_short(value)}" for name, value in self._facts().items())
        return f"{type(self).__name__}({facts})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name.replace('_', ' '))}</th>"
            f"<td style='text-align:left'>{html.escape(_short(value))}</td></tr>"
            for name, value in self._facts().items()
        )
        return f"<b>{html.escape(type(self).__name__)}</b><table>{rows}</table>"


def shown_text(text: str) -> str:
    """HTML of plain text as it stands."""
    return f"<pre>{html.escape(text)}</pre>"


def counted_names(names: Iterable[str]) -> str:
    """How often each name occurs: "3 FINISHED, 1 STALLED"."""
    return ", ".join(f"{number} {name}" for name, number in Counter(names).most_common())


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
