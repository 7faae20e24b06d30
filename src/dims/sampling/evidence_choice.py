"""The choice among candidates for prior and noise, by their places in log δ or log δσ²."""

from __future__ import annotations

import math

from dims.sampling.evidence_minimum import Minimum

__all__ = ["STEP", "chosen", "value_of", "vertex"]

STEP = 0.5 * math.log(10)  # of the grid in log δ
NEAR = 0.02  # steps of the grid: a parabola's top this near to a candidate is not worth a walk


def chosen(minima: dict[float, Minimum], score: str, cautious: bool) -> float:
    """The best place, or the strongest that is as good as it within a standard error.

    Leave-one-out scores of point after point tell how sure their difference is: the rule of one
    standard error (Breiman and others, Classification and Regression Trees, 1984), paired.
    """
    best = max(minima, key=lambda place: value_of(minima[place], score))
    points = minima[best].left_out
    if not cautious or points is None:
        return best
    for place in sorted(minima, reverse=True):
        there = minima[place].left_out
        assert there is not None  # as of all candidates
        loss = points - there
        if float(loss.sum()) <= float(loss.std()) * math.sqrt(len(loss)):
            return place
    return best


def value_of(minimum: Minimum, score: str) -> float:
    return float(getattr(minimum.candidate, score))


def vertex(minima: dict[float, Minimum], score: str) -> float | None:
    """The top of the parabola through the best place and its neighbours; None at an end."""
    places = sorted(minima)
    values = {place: value_of(minima[place], score) for place in places}
    middle = max(range(len(places)), key=lambda i: values[places[i]])
    if not 0 < middle < len(places) - 1:
        return None
    (a, b, c) = places[middle - 1 : middle + 2]
    left, right = values[a] - values[b], values[c] - values[b]
    slope_left, slope_right = left / (a - b), right / (c - b)
    bend = (slope_right - slope_left) / (c - a)
    if not bend < 0:
        return None
    top = b - 0.5 * (slope_left - bend * (a - b)) / bend
    closest = min(abs(top - place) for place in places)
    return top if a < top < c and closest > NEAR * STEP else None
