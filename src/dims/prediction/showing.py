"""What a person sees who prints an object: one line, and in notebooks a small table.

Both show the same few facts. Tensors are for programs; their sizes are for people.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

__all__ = ["Shown", "ShownChanges", "ShownSettings", "counted_names", "four_digits", "shown_text"]


class Shown:
    """An object that is shown by facts; a dataclass needs `repr=False` beside."""

    def _facts(self) -> Mapping[str, Any]:
        """Names and short values, in the order of interest."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={_short(value)}" for name, value in self._facts().items())
        return f"{type(self).__name__}({facts})"

    def _repr_html_(self) -> str:
        return _table(type(self).__name__, self._facts())


class ShownSettings:
    """A dataclass of settings: the line that dataclasses have, and a table in notebooks."""

    def _repr_html_(self) -> str:
        return _table(type(self).__name__, _settings(self))


class ShownChanges(ShownSettings):
    """Many settings: the line names those that are not the defaults; needs `repr=False`."""

    def __repr__(self) -> str:
        usual: dict[str, Any] = {}
        if is_dataclass(self):
            usual = {each.name: each.default for each in fields(self)}
        changed = (
            f"{name}={value!r}"
            for name, value in _settings(self).items()
            if usual[name] is MISSING or value != usual[name]
        )
        return f"{type(self).__name__}({', '.join(changed)})"


def shown_text(text: str) -> str:
    """HTML of plain text as it stands."""
    return f"<pre>{html.escape(text)}</pre>"


def counted_names(names: Iterable[str]) -> str:
    """How often each name occurs: "3 FINISHED, 1 STALLED"."""
    return ", ".join(f"{number} {name}" for name, number in Counter(names).most_common())


def four_digits(value: Any) -> str:
    """Numbers, also in tuples, with four digits; the `repr` of anything else."""
    if isinstance(value, tuple):
        return "(" + ", ".join(map(four_digits, value)) + ("," * (len(value) == 1)) + ")"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def _settings(shown: object) -> dict[str, Any]:
    if not is_dataclass(shown):
        return {}
    return {each.name: getattr(shown, each.name) for each in fields(shown)}


def _table(title: str, facts: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name.replace('_', ' '))}</th>"
        f"<td style='text-align:left'>{html.escape(_short(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<b>{html.escape(title)}</b><table>{rows}</table>"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
