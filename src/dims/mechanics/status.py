"""How a trajectory ended."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

__all__ = ["CodedStatus", "Status"]

Kind = TypeVar("Kind", bound="CodedStatus")


class CodedStatus(Enum):
    """How a row ended: the integer that tensors hold, and a sentence on what to do."""

    def __init__(self, code: int, advice: str) -> None:
        self.code = code
        self.advice = advice

    def __repr__(self) -> str:
        # A list of a hundred is read for its names; `advice` has the sentence.
        return f"{type(self).__name__}.{self.name}"

    @classmethod
    def from_code(cls: type[Kind], code: int) -> Kind:
        """The status that has this code."""
        return next(status for status in cls if status.code == code)


class Status(CodedStatus):
    """How a trajectory ended, and what to do about it.

    Attributes:
        code: The integer that tensors and files hold.
        advice: A sentence on what happened and what to do.

    Example:
        >>> path = dims.integrate(surface, position, velocity)
        >>> [status.advice for status in path.status if not status.ok]
        []
    """

    RUNNING = (0, "still moving; run it to its end")
    FINISHED = (1, "reached max_time")
    AT_REST = (2, "met the stop condition")
    BUDGET_SPENT = (
        3,
        "used max_evaluations before max_time, or would need a million: raise it, loosen the "
        "tolerance, or use less friction or gravity or a shorter max_time",
    )
    STALLED = (
        4,
        "no step was small enough to be accepted; the surface is not smooth there or too steep "
        "for its precision: use float64, a smooth activation, or scale the loss down",
    )
    NOT_FINITE = (
        5,
        "the loss or its gradient became NaN or infinite; the last good state is kept: "
        "check the model for overflow, use a smaller start velocity, or a shorter fixed step",
    )

    @property
    def ok(self) -> bool:
        """Whether the trajectory ended as asked."""
        return self in (Status.FINISHED, Status.AT_REST)
