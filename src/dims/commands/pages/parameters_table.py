"""The table of the parameters in which draws differ most, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from dims.commands.pages.parts import column, table
from dims.sampling.draws.names import parameter_name

__all__ = ["parameters_table"]

SHOWN = 30

COLUMNS = [
    column("parameter", "its name in the network, with its place in the tensor"),
    column("θ*", "trained value"),
    column("mean", "of the draws"),
    column("std", "standard deviation of the draws"),
    column("lowest", "of the draws"),
    column("highest", "of the draws"),
]


def parameters_table(
    tensors: Sequence[tuple[str, Sequence[int]]], theta: Tensor, offsets: Tensor
) -> dict[str, Any]:
    """Trained value and spread of some parameters.

    Args:
        tensors: Names and shapes of the sampled tensors, in the order of θ.
        theta: θ*, (K,).
        offsets: θ − θ* of the draws, (S, K).

    Returns:
        A table of a page.
    """
    finite = offsets[offsets.isfinite().all(1)].double()
    if len(finite) < 2:
        return table("parameters", "Parameters", "", COLUMNS, [])
    spread = finite.std(0)
    chosen = spread.argsort(descending=True, stable=True)[:SHOWN]
    values = finite[:, chosen] + theta[chosen].double()
    numbers = (theta[chosen].double(), values.mean(0), spread[chosen], values.amin(0))
    columns = [part.tolist() for part in (*numbers, values.amax(0))]
    names = [parameter_name(tensors, place) for place in chosen.tolist()]
    note = f"The {len(names)} of {len(theta)} parameters in which {len(finite)} draws differ most."
    rows = list(zip(names, *columns, strict=True))
    return table("parameters", "Parameters that vary most", note, COLUMNS, rows)
