"""Settings of samplers as JSON, for files and manifests, and back again.

Numbers, text and None stay as they are; a tuple becomes a list; an object such as a friction or a
solver becomes {"class": its name, **its fields}.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from dims.mechanics.dynamics import ConstantFriction, SpeedFriction
from dims.mechanics.metric.moving import MovingMetric
from dims.mechanics.solvers.dopri5 import Dopri5
from dims.mechanics.solvers.rattle import Rattle

__all__ = ["decode", "encode"]

KNOWN: tuple[type, ...] = (ConstantFriction, SpeedFriction, Rattle, Dopri5, MovingMetric)


def encode(name: str, value: Any) -> Any:
    """The value of a setting in JSON's types; the name is for the error."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [encode(name, part) for part in value]
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        raise TypeError(
            f"{name}: {value!r} cannot be written to a file; give a number, text, or an object "
            "whose class is a dataclass"
        )
    names = [field.name for field in dataclasses.fields(value) if field.init]
    parts = {key: encode(f"{name}.{key}", getattr(value, key)) for key in names}
    return {"class": type(value).__name__, **parts}


def decode(name: str, value: Any, classes: Iterable[type] = ()) -> Any:
    """The inverse of `encode`; `classes` are those of objects that dims does not define."""
    if isinstance(value, list):
        return tuple(decode(name, part, classes) for part in value)
    if not isinstance(value, Mapping):
        return value
    known = {kind.__name__: kind for kind in (*KNOWN, *classes)}
    kind = known.get(str(value.get("class")))
    if kind is None:
        raise ValueError(
            f"{name}: the class {value.get('class')!r} is unknown; there are "
            f"{', '.join(known)}; give others as classes=(...)"
        )
    return kind(**{k: decode(f"{name}.{k}", v, classes) for k, v in value.items() if k != "class"})
