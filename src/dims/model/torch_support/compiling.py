"""How torch.compile is used here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

__all__ = ["compile_first", "compile_for"]

Function = TypeVar("Function", bound=Callable[..., Any])

# By default the compiler repeats up to this many operations rather than keep their result, error
# functions and exponentials among them; on a core keeping them makes a step a quarter faster.
REPEATED_OPERATIONS = ("realize_opcount_threshold", 3)


def compile_for(device: torch.device, function: Function) -> Function:
    """The function compiled as suits the device, for each number of rows alone.

    Code that fits several numbers would round by which of them came first, and a run that goes on
    where it stopped begins with another than the first.
    """
    name, value = REPEATED_OPERATIONS
    options: dict[str, Any] = {}
    if device.type == "cpu" and name in torch._inductor.list_options():
        options[name] = value
    return torch.compile(function, dynamic=False, options=options or None)  # type: ignore[return-value]


def compile_first(device: torch.device, function: Function, otherwise: Function) -> Function:
    """`function` compiled for the number of rows that comes first, `otherwise` for all others.

    The few rows that are left at the end of a batch are not worth another compilation, which takes
    as long as a hundred steps.
    """
    compiled = compile_for(device, function)
    rows: int | None = None

    def chosen(thetas: Any, *others: Any) -> Any:
        nonlocal rows
        rows = rows or len(thetas)
        return (compiled if len(thetas) == rows else otherwise)(thetas, *others)

    return chosen  # type: ignore[return-value]
