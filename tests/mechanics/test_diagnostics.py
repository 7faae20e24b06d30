"""The theorems on trajectories, and on numbers made up to break them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import dims
import problems
from cases import diagonal
from dims.mechanics.diagnostics import theorem_bounds


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def short_path(friction: float = 0.3, rows: int = 4) -> dims.Trajectories:
    return dims.integrate(
        problems.sphere(),
        torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64),
        2 * randn(rows, 3),
        dynamics=dims.dissipative(1.0, friction),
        max_time=3.0,
    )


SURFACES = {
    "sphere": (problems.sphere, [1.0, 0.0, 0.0]),
    "two basins": (problems.two_basins, [-1.0, 0.0]),
}


@pytest.mark.parametrize(
    ("name", "friction", "time"), diagonal(list(SURFACES), [0.1, 1.0], [0.2, 5.0])
)
@pytest.mark.usefixtures("unchecked")
def test_the_bounds_hold_on_trajectories(name, friction, time):
    build, start = SURFACES[name]
    path = dims.integrate(
        build(),
        torch.tensor(start, dtype=torch.float64),
        3 * randn(6, len(start)),
        dynamics=dims.dissipative(1.0, friction),
        max_time=time,
    )
    bounds = theorem_bounds(path)
    assert bounds.slows_down.all()
    assert bounds.explores.all()
    assert bounds.explores_sharply.all()
    # ln(1/x) ≥ 1 − x: the sharper bound is the higher one, and both say something.
    assert (bounds.sharp_arc_length_limit >= bounds.arc_length_limit).all()
    assert (bounds.arc_length_limit > 0).all()


@pytest.mark.parametrize(("balance", "end"), [(0.0, 2.0), (-0.3, 2.0), (0.5, 2.5)])
def test_the_bounds_by_hand(balance, end):
    """E₀ = 10, E = 2 above a lowest loss of 1 with κ = 3, η₀ = 0.5, t = 4.

    Energy that friction did not take says nothing of the way: it counts as still there.
    """
    path = replace(
        short_path(rows=1),
        dynamics=dims.dissipative(3.0, 0.5),
        start_energy=torch.tensor([13.0], dtype=torch.float64),
        end_energy=torch.tensor([5.0], dtype=torch.float64),
        lowest_loss=torch.tensor([1.0], dtype=torch.float64),
        end_time=torch.tensor([4.0], dtype=torch.float64),
        energy_balance=torch.tensor([balance], dtype=torch.float64),
    )
    bounds = theorem_bounds(path)
    # t = E₀/(2η₀ε^{3/2}) solved for ε
    epsilon = float(bounds.kinetic_energy_limit)
    assert 10 / (2 * 0.5 * epsilon**1.5) == pytest.approx(4.0)
    assert float(bounds.arc_length_limit) == pytest.approx((10 - end) / (math.sqrt(2) * 5))
    assert float(bounds.sharp_arc_length_limit) == pytest.approx(
        math.log(10 / end) / (math.sqrt(2) * 0.5)
    )


def test_free_flight_meets_the_sharp_bound_exactly():
    """On a plane without gravity ‖q'‖ = √(2T) and E = T: the inequality is an equality."""
    tilt = torch.tensor([3.0, -1.0], dtype=torch.float64)
    path = dims.integrate(
        dims.Surface(lambda theta: theta @ tilt),
        torch.zeros(2, dtype=torch.float64),
        torch.tensor([1.0, 2.0], dtype=torch.float64),
        dynamics=dims.dissipative(0.0, 0.5),
        tolerance=1e-4,
        max_time=3.0,
    )
    bounds = theorem_bounds(path)
    assert float(bounds.arc_length) == pytest.approx(float(bounds.sharp_arc_length_limit), rel=1e-3)


def test_made_up_violations_are_seen():
    path = short_path()
    good = theorem_bounds(path)
    assert good.slows_down.all()
    assert good.explores.all()
    assert good.explores_sharply.all()

    fast = path.lowest_kinetic_energy.clone()
    fast[1] = 1.01 * good.kinetic_energy_limit[1]
    flags = theorem_bounds(replace(path, lowest_kinetic_energy=fast)).slows_down
    assert flags.tolist() == [True, False, True, True]

    between = path.metric_length.clone()
    between[2] = 0.5 * (good.arc_length_limit + good.sharp_arc_length_limit)[2]
    found = theorem_bounds(replace(path, metric_length=between))
    assert found.explores.all()
    assert found.explores_sharply.tolist() == [True, True, False, True]

    short = path.metric_length.clone()
    short[0] = 0.99 * good.arc_length_limit[0]
    found = theorem_bounds(replace(path, metric_length=short))
    assert found.explores.tolist() == [False, True, True, True]
    assert not found.explores_sharply[0]


def test_a_particle_without_energy_breaks_no_bound():
    start = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    path = dims.integrate(problems.sphere(), start, torch.zeros_like(start), max_time=1.0)
    bounds = theorem_bounds(path)
    assert bounds.slows_down.all()
    assert bounds.explores.all()
    assert bounds.explores_sharply.all()


@pytest.mark.parametrize(
    "dynamics",
    [dims.geodesic(), dims.gravitational(), dims.damped(1.0, 0.1), dims.dissipative(1.0, 0.0)],
)
def test_other_frictions_are_refused(dynamics):
    with pytest.raises(ValueError, match=r"path: .*dims\.dissipative"):
        theorem_bounds(replace(short_path(rows=1), dynamics=dynamics))
