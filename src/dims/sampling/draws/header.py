"""The header of a draws file: written from draws, and read back with every field checked."""

from __future__ import annotations

import json
import math
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import safetensors
import torch

from dims.errors import DrawsFileError
from dims.model.likelihoods import Likelihood, likelihood_class
from dims.sampling.draws.container import Draws
from dims.sampling.draws.mixture_file import are_mixture_fields, mixture_fields
from dims.sampling.draws.signature import ModelEntry, constant_hashes, hash_entries, model_entries

__all__ = ["Header", "parse_header", "write_header"]

POINT = re.compile(r"(float|bool|u?int\d{1,2})\[((?:\d{1,9}(?:,\d{1,9}){0,15})?)\]")
DEEPEST_INPUTS = 16


@dataclass(frozen=True)
class Header:
    """What a file of draws says beside its tensors."""

    method: str
    seed: int | None
    settings: dict[str, Any]
    verdict: list[str] | None
    mixture: dict[str, Any] | None
    likelihood_name: str
    likelihood_settings: dict[str, Any]
    points: int
    effective_points: float
    loss_scale: float
    loss_at_map: float | None
    outputs: int
    input_shapes: Any
    entries: list[ModelEntry]
    constants: dict[str, str]

    @property
    def sampled(self) -> list[str]:
        """The names of the tensors that form θ, in order."""
        return [entry.name for entry in self.entries if entry.role == "sampled"]

    @property
    def likelihood(self) -> Likelihood:
        """The likelihood object; its class must have been imported."""
        name, settings = self.likelihood_name, self.likelihood_settings
        kind = likelihood_class(name)
        if kind is None:
            raise DrawsFileError(
                f"its likelihood {name[:60]!r} is unknown; import the module that defines it first"
            )
        try:
            return kind(**settings)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise DrawsFileError(f"its header has bad 'likelihood_settings': {reason}") from error

    @property
    def likelihood_text(self) -> str:
        """Name and settings of the likelihood, whether its class has been imported or not."""
        inside = ", ".join(f"{name}={value!r}" for name, value in self.likelihood_settings.items())
        return f"{self.likelihood_name}({inside})"


def write_header(draws: Draws, loss_at_map: float | None) -> str:
    from dims import __version__  # the package imports this module

    surface, likelihood = draws.surface, draws.surface.likelihood
    if likelihood_class(likelihood.name) is not type(likelihood):
        raise TypeError(
            f"likelihood: a file cannot hold {type(likelihood).__name__}, because its name "
            f"{likelihood.name!r} belongs to another class; give it a name of its own"
        )
    sampled = surface.vector.names
    entries = model_entries(surface.module, sampled)
    fields = {
        "method": draws.method,
        "seed": draws.seed,
        "settings": dict(draws.settings),
        "mixture": None if draws.mixture is None else mixture_fields(draws.mixture),
        "verdict": None if draws.verdict is None else list(draws.verdict),
        "likelihood": likelihood.name,
        "likelihood_settings": likelihood.settings(),
        "points": surface.points,
        "effective_points": surface.effective_points,
        "loss_scale": surface.loss_scale,
        "loss_at_map": loss_at_map,
        "outputs": surface.outputs,
        "input_shapes": surface.input_shapes,
        "entries": [list(entry) for entry in entries],
        "signature": hash_entries(entries),
        "constants": constant_hashes(surface.module, sampled),
        "versions": {
            "dims": __version__,
            "torch": torch.__version__,
            "safetensors": safetensors.__version__,
            "python": platform.python_version(),
        },
    }
    try:
        return json.dumps(fields)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"likelihood: settings() of {type(likelihood).__name__} holds what a file cannot "
            f"({error}); give text, numbers or lists of them"
        ) from error


def parse_header(text: str) -> Header:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DrawsFileError("its header is not JSON text; make it again") from error
    if not isinstance(fields, dict):
        raise DrawsFileError("its header is not a JSON object; make it again")

    def take(name: str, fits: Callable[[Any], bool]) -> Any:
        value = fields.get(name)
        if not fits(value):
            raise DrawsFileError(f"its header has a bad {name!r}: {str(value)[:60]!r}")
        return value

    entries = [ModelEntry(*entry) for entry in take("entries", _are_entries)]
    if take("signature", _is_text) != hash_entries(entries):
        raise DrawsFileError("its header contradicts itself: the signature is of another model")
    return Header(
        method=take("method", lambda v: _is_text(v) and v != ""),
        seed=take("seed", lambda v: v is None or _is_integer(v)),
        settings=take("settings", lambda v: isinstance(v, dict)),
        verdict=take("verdict", lambda v: v is None or _are_texts(v)),
        mixture=take("mixture", lambda v: v is None or are_mixture_fields(v)),
        likelihood_name=take("likelihood", lambda v: _is_text(v) and v != ""),
        likelihood_settings=take("likelihood_settings", lambda v: isinstance(v, dict)),
        points=take("points", lambda v: _is_integer(v) and v > 0),
        effective_points=float(take("effective_points", _is_positive)),
        loss_scale=float(take("loss_scale", _is_positive)),
        loss_at_map=take("loss_at_map", lambda v: v is None or isinstance(v, float)),
        outputs=take("outputs", lambda v: _is_integer(v) and v > 0),
        input_shapes=take("input_shapes", _are_points),
        entries=entries,
        constants=take("constants", lambda v: isinstance(v, dict) and _are_texts([*v.values()])),
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    # Compared first: an integer may be too long for a float.
    known = _is_integer(value) or isinstance(value, float)
    return known and 0 < value < 1e300 and math.isfinite(value)


def _are_entries(value: Any) -> bool:
    def is_entry(entry: Any) -> bool:
        if not (isinstance(entry, list) and len(entry) == 4 and _are_texts(entry[:3])):
            return False
        shape = entry[3]
        return (
            entry[0] in ("sampled", "constant", "buffer")
            and isinstance(shape, list)
            and all(_is_integer(n) and 0 <= n < 2**63 for n in shape)
        )

    return (
        isinstance(value, list)
        and all(is_entry(entry) for entry in value)
        and any(entry[0] == "sampled" for entry in value)
    )


def _are_points(value: Any, depth: int = 0) -> bool:
    """A description of input points, as `describe_inputs` writes it."""
    if depth > DEEPEST_INPUTS:
        return False
    if isinstance(value, dict):
        return bool(value) and all(_are_points(part, depth + 1) for part in value.values())
    if isinstance(value, list):
        return bool(value) and all(_are_points(part, depth + 1) for part in value)
    return isinstance(value, str) and POINT.fullmatch(value) is not None
