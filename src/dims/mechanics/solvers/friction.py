"""Friction over a half of a step, alone or together with the pull of gravity along the path.

A split step lets friction act on the speed that the particle has at the step's ends. In a long
fall gravity and friction balance: between the ends of a step of length h the split motion speeds up
and is slowed again by a part ηh of its speed, and falls too fast by (ηh)²/8. The pull along the
path is known, −κw/|v|. It joins the friction here, in `parts` smaller steps, and is taken out again
for the conservative part to add: a steady fall is then exact but for (ηh)²/(32·parts²), and a
particle that friction alone slows is as exact as before.
"""

from __future__ import annotations

import torch

from dims.mechanics.dynamics import Dynamics
from dims.model.shapes import RowScalars

__all__ = ["friction_factor"]

MOST_PULL = 0.5  # of the speed, over the time: at a turning point there is no friction to speak of


def friction_factor(
    dynamics: Dynamics,
    kinetic: RowScalars,
    climb: RowScalars,
    time: RowScalars,
    parts: int,
    *,
    before: bool,
) -> RowScalars:
    """The factor on the velocity, `before` the conservative part of a step or after it.

    Args:
        dynamics: The forces.
        kinetic: T where the factor is applied.
        climb: w there.
        time: Half the step.
        parts: How many pieces of friction gravity separates; 0 is friction alone.
        before: Whether the conservative part is still to come.
    """
    if parts == 0 or dynamics.friction is None:
        return dynamics.decay(kinetic, time)
    start = (2 * kinetic).sqrt()
    most = MOST_PULL * start
    gain = torch.clamp(-dynamics.potential(climb) * time / start, -most, most)
    gain = torch.where(start > 0, gain, 0.0)
    speed = start if before else start - gain
    piece, whole, half = time / parts, gain / parts, gain / (2 * parts)
    for part in range(parts):
        speed = speed + (half if part == 0 else whole)
        speed = speed * dynamics.decay(0.5 * speed.square(), piece)
    speed = speed + half
    speed = speed - gain if before else speed
    return torch.where(start > 0, speed / start, 1.0)
