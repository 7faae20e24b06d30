"""A mixture in a file of draws: two or three tensors, and three or four values in the header."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from dims.errors import DrawsFileError
from dims.prediction.weights import check_weights
from dims.sampling.draws.mixture import Mixture

__all__ = ["are_mixture_fields", "check_mixture", "mixture_fields", "mixture_tensors"]
__all__ += ["read_mixture"]

NETWORK, WEIGHTS = "mixture_network", "mixture_weights"
TANGENTS = "mixture_tangents"  # only where draws are widened


def mixture_fields(mixture: Mixture) -> dict[str, Any]:
    """What the header says; JSON has no NaN."""
    gains = [None if math.isnan(g) else g for g in (mixture.gain, mixture.gain_error)]
    fields = {"held_out": mixture.held_out, "gain": gains[0], "gain_error": gains[1]}
    return {**fields, "refit": True} if mixture.refit else fields


def are_mixture_fields(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) - {"refit"} != {"held_out", "gain", "gain_error"}:
        return False
    if not isinstance(value.get("refit", False), bool):
        return False
    rows, gains = value["held_out"], (value["gain"], value["gain_error"])
    counted = isinstance(rows, int) and not isinstance(rows, bool) and rows >= 0
    return counted and all(g is None or isinstance(g, float) for g in gains)


def mixture_tensors(mixture: Mixture) -> dict[str, Tensor]:
    tensors = {NETWORK: mixture.network, WEIGHTS: mixture.weights}
    return tensors if mixture.tangents is None else {**tensors, TANGENTS: mixture.tangents}


def check_mixture(
    tensors: dict[str, Tensor], fields: dict[str, Any] | None, like: Tensor, times: int
) -> None:
    """The tensors of a mixture as they must be, where the header has one."""
    if fields is None:
        return
    network, weights = tensors.get(NETWORK), tensors.get(WEIGHTS)
    if network is None or weights is None:
        raise DrawsFileError(f"the file has no tensors {NETWORK!r} and {WEIGHTS!r}")
    same = network.shape[-1:] == like.shape and network.dtype == like.dtype
    same = same and network.ndim in (1, 2) and len(network) > 0
    if not same or not network.isfinite().all():
        raise DrawsFileError(f"tensor {NETWORK!r} does not hold parameters of networks")
    tangents = tensors.get(TANGENTS)
    if tangents is not None:
        rows = (len(tensors["parameters"]), tangents.shape[1] if tangents.ndim == 3 else 0)
        fits = tangents.shape == (*rows, len(like)) and tangents.dtype == like.dtype
        if not fits or not tangents.isfinite().all():
            raise DrawsFileError(f"tensor {TANGENTS!r} does not hold tangents of the draws")
    try:
        check_weights(weights, times + 2 + (tangents is not None))
    except ValueError as error:
        raise DrawsFileError(f"tensor {WEIGHTS!r} cannot be used: {error}") from error


def read_mixture(tensors: dict[str, Tensor], fields: dict[str, Any] | None) -> Mixture | None:
    """The mixture of checked tensors."""
    if fields is None:
        return None
    gain, error = (math.nan if fields[n] is None else fields[n] for n in ("gain", "gain_error"))
    network, weights, tangents = tensors[NETWORK], tensors[WEIGHTS], tensors.get(TANGENTS)
    refit = fields.get("refit", False)
    return Mixture(network, weights, fields["held_out"], gain, error, tangents, refit)
