"""Many rows or points in one call where torch can, one after another where it cannot."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

import torch

from dims.errors import BatchingWarning

__all__ = ["Batching"]

Result = TypeVar("Result")


class Batching:
    """What torch cannot batch of a network, found out at the first attempt.

    A branch on a value (`if h.mean() > 0`), `.item()` and operations without a batching rule stop
    `torch.vmap`. All surfaces that share a network share this object, so that each kind is tried
    once, and the user is warned once.
    """

    def __init__(self) -> None:
        self._impossible: set[str] = set()

    def attempt(
        self, what: str, together: Callable[[], Result], one_by_one: Callable[[], Result]
    ) -> Result:
        """The result of `together`, or of `one_by_one` where torch cannot batch `what`."""
        if what in self._impossible:
            return one_by_one()
        try:
            return together()
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
            result = one_by_one()  # raises what is wrong with the network itself
            if not self._impossible:
                _warn(error)
            self._impossible.add(what)
            return result


def _warn(error: Exception) -> None:
    reason = str(error).split(". ")[0].partition("\n")[0] or type(error).__name__
    warnings.warn(
        f"model: torch cannot compute it for many draws or points at once ({reason}); they are "
        "computed one after another, so that n of them cost n times as much as one. Branches on "
        "values, .item() and packed sequences are common causes; torch.where and masks can be "
        "batched",
        BatchingWarning,
        stacklevel=3,
    )
