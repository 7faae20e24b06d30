"""Extrapolated gradients against the curves they come from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cases import examples
from dims.mechanics.geometry import dot
from dims.mechanics.solvers.gradient_history import GradientHistory

Curve = Callable[[float], list[float]]


def row(*numbers: float) -> Tensor:
    return torch.tensor([numbers], dtype=torch.float64)


def scalar(number: float) -> Tensor:
    return torch.tensor([number], dtype=torch.float64)


def history_of(curve: Curve, times: list[float]) -> GradientHistory:
    """The gradients of a curve at increasing times, the last of which is now."""
    history = GradientHistory.begin(row(*curve(times[0])))
    for before, now in itertools.pairwise(times):
        new = row(*curve(now))
        history = history.push(
            new,
            dot(new, new),
            dot(new, history.newest),
            dot(new, history.previous),
            scalar(now - before),
        )
    return history


def turned(curve: Curve, now: float, later: float) -> float:
    """The angle between the surface normals (−g, 1) at two times."""
    a, b = (np.array([*(-g for g in curve(t)), 1.0]) for t in (now, later))
    cross = np.linalg.norm(np.outer(a, b) - np.outer(b, a)) / math.sqrt(2)
    return math.atan2(cross, float(a @ b))


@settings(deadline=None, max_examples=examples(60))
@given(
    count=st.integers(1, 3),
    coefficients=st.lists(st.floats(-3, 3), min_size=6, max_size=6),
    gaps=st.tuples(st.floats(0.05, 2), st.floats(0.05, 2)),
    ahead=st.floats(0, 3),
)
def test_extrapolation_is_exact_for_polynomials(count, coefficients, gaps, ahead):
    """One gradient gives constants, two give lines, three give parabolas."""
    powers = np.array(coefficients).reshape(2, 3)[:, :count]

    def curve(t: float) -> list[float]:
        return [float(np.polynomial.polynomial.polyval(t, p)) for p in powers]

    times = [-gaps[0] - gaps[1], -gaps[0], 0.0][3 - count :]
    history = history_of(curve, times)
    gradients = (history.newest, history.previous, history.oldest)
    parabola = history.parabola()
    axes = torch.eye(2, dtype=torch.float64)
    for axis, expected in zip(axes, curve(ahead), strict=True):
        products = tuple(dot(g, axis.unsqueeze(0)) for g in gradients)
        p, q = parabola.along(products)
        ours = products[0] + ahead * (p + ahead * q)
        assert float(ours) == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_more_than_three_gradients_leave_the_newest_three():
    history = history_of(lambda t: [t, t * t], [-5.0, -3.0, -2.0, -0.5, 0.0])
    assert int(history.count) == 3
    assert torch.equal(history.oldest, row(-2.0, 4.0))
    assert torch.equal(history.previous, row(-0.5, 0.25))
    assert float(history.gap) == 0.5
    assert float(history.older_gap) == 1.5
    vectors = (history.newest, history.previous, history.oldest)
    grams = ["00", "01", "02", "11", "12", "22"]
    for name in grams:
        first, second = (vectors[int(i)] for i in name)
        expected = dot(first, second)
        torch.testing.assert_close(getattr(history, "gram" + name), expected)


def straight(t: float) -> list[float]:
    return [t]


def bent(t: float) -> list[float]:
    return [0.5 + t, 2 * t * t]


def steep(t: float) -> list[float]:
    return [30 + 50 * t, 20 - 40 * t - 300 * t * t]


@pytest.mark.parametrize("curve", [straight, bent, steep])
@pytest.mark.parametrize("angle", [0.05, 0.2, 0.35])
def test_the_normal_turns_by_the_asked_angle(curve, angle):
    """The curves are parabolas, so the extrapolation is exact and only the search is tested."""
    history = history_of(curve, [-0.02, -0.01, 0.0])
    fine = np.linspace(0, 10, 200_001)
    first = next((x for x in fine if turned(curve, 0.0, x) > angle), math.inf)
    for limit in (2.0 * first, 8.0 * first):  # within the candidates' reach of a tenth
        step = float(history.longest_step(scalar(angle), scalar(limit)))
        assert step == pytest.approx(first, rel=0.02)


def test_in_one_dimension_the_step_is_a_tangent():
    """On L = x²/2 at speed 1 from 0, g = t and the normal has turned by arctan t."""
    history = history_of(straight, [-0.2, -0.1, 0.0])
    step = float(history.longest_step(scalar(0.3), scalar(1.0)))
    assert step == pytest.approx(math.tan(0.3), rel=2e-3)


def test_a_normal_that_turns_back_does_not_tempt_the_search_further():
    """g = 3t(1 − t) is level again at t = 1, after a turn of far more than the angle."""

    def hump(t: float) -> list[float]:
        return [3 * t * (1 - t)]

    history = history_of(hump, [-0.2, -0.1, 0.0])
    assert turned(hump, 0.0, 1.0) == 0
    step = float(history.longest_step(scalar(0.3), scalar(1.0)))
    assert turned(hump, 0.0, step) == pytest.approx(0.3, rel=0.05)
    assert step < 0.2


def test_limits_of_the_search():
    level = history_of(lambda t: [3.0, -1.0], [-0.2, -0.1, 0.0])
    assert float(level.longest_step(scalar(0.1), scalar(0.7))) == pytest.approx(0.7)
    wild = history_of(lambda t: [1e6 * t], [-0.2, -0.1, 0.0])
    assert float(wild.longest_step(scalar(0.1), scalar(0.7))) == pytest.approx(0.07)
    unknown = GradientHistory.begin(row(1e6))
    assert float(unknown.longest_step(scalar(0.1), scalar(0.7))) == 0.7


def test_rows_search_for_themselves():
    curves = [straight, steep]
    alone = [history_of(curve, [-0.02, -0.01, 0.0]) for curve in curves]
    expected = [
        float(alone[0].longest_step(scalar(0.2), scalar(0.5))),
        float(alone[1].longest_step(scalar(0.1), scalar(0.02))),
    ]
    widened = history_of(lambda t: [t, 0.0], [-0.02, -0.01, 0.0])
    names = list(GradientHistory.__dataclass_fields__)
    both = GradientHistory(
        **{name: torch.cat([getattr(widened, name), getattr(alone[1], name)]) for name in names}
    )
    limits = torch.tensor([0.5, 0.02], dtype=torch.float64)
    angles = torch.tensor([0.2, 0.1], dtype=torch.float64)
    assert both.longest_step(angles, limits).tolist() == pytest.approx(expected, rel=1e-12)
