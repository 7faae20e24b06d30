"""Rows that cannot be saved do not take others along."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import ks_2samp
from test_batch import SOLVERS, bowl, randn, wall_of_infinities
from torch import Tensor

import dims
import problems
from cases import diagonal
from dims import Status
from dims.mechanics.batch import Options, Outcome, run
from dims.mechanics.dynamics import dissipative
from dims.mechanics.integrate import resolve_solver

HEALTHY, K = 6, 2
POISON = {
    "NaN velocity": (0.5, math.nan),
    "infinite velocity": (0.5, math.inf),
    "enormous velocity": (0.5, 1e9),
    "beyond all numbers": (0.5, 1e200),
    "NaN position": (math.nan, 0.1),
}


SURFACES = {
    "bowl": dims.Surface(bowl),
    "sphere": problems.sphere(),
    "wall of infinities": dims.Surface(wall_of_infinities),
}


def go(surface: dims.Surface, position: Tensor, velocity: Tensor, solver: str) -> Outcome:
    return run(
        resolve_solver(solver, None),
        surface,
        dissipative(1.0, 0.5),
        position,
        velocity,
        torch.tensor([1.0], dtype=torch.float64),
        Options(max_evaluations=200),
    )


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("name", "solver"), diagonal(list(SURFACES), SOLVERS))
@pytest.mark.usefixtures("unchecked")
def test_healthy_rows_are_those_of_a_batch_without_poison(name, solver):
    """All poisons at once, between the healthy rows; on surfaces without chaos."""
    surface = SURFACES[name]
    angles = torch.linspace(0, 6, HEALTHY, dtype=torch.float64)
    position = torch.stack([angles.cos(), angles.sin()], dim=-1)
    velocity = 0.3 * randn(HEALTHY, K)
    alone = go(surface, position, velocity, solver)
    assert alone.status.tolist() == [Status.FINISHED.code] * HEALTHY
    places, speeds = zip(*POISON.values(), strict=True)
    bad_position = torch.tensor(places, dtype=torch.float64).unsqueeze(-1).expand(-1, K)
    bad_velocity = torch.tensor(speeds, dtype=torch.float64).unsqueeze(-1).expand(-1, K)
    order = torch.tensor([0, 6, 1, 7, 8, 2, 3, 9, 4, 10, 5])  # six and above: the poison
    mixed = go(
        surface,
        torch.cat([position, bad_position])[order],
        torch.cat([velocity, bad_velocity])[order],
        solver,
    )
    healthy = order < HEALTHY
    for name in ("position", "velocity", "time", "status", "energy_violation"):
        ours, theirs = getattr(mixed, name)[healthy], getattr(alone, name)
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10, msg=name)
    for name in ("steps", "rejections", "evaluations"):
        assert torch.equal(getattr(mixed.ledger, name)[healthy], getattr(alone.ledger, name)), name
    ended = dict(zip(order.tolist(), mixed.status.tolist(), strict=True))
    for number, name in enumerate(POISON, start=HEALTHY):
        if "NaN" in name or "infinite" in name:
            assert ended[number] == Status.NOT_FINITE.code, name
        assert ended[number] != Status.RUNNING.code, name


@pytest.mark.timeout(200)
@pytest.mark.usefixtures("unchecked")
def test_on_a_network_the_distribution_of_healthy_rows_is_the_same():
    """Trajectories of a network may be chaotic; where they end, as a distribution, is not."""
    torch.manual_seed(0)
    inputs = torch.linspace(-1, 1, 12, dtype=torch.float64).unsqueeze(-1)
    model = torch.nn.Sequential(
        torch.nn.Linear(1, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)
    ).double()
    surface = dims.LossSurface(model, (inputs, (3 * inputs).sin()), dims.Gaussian(0.2), 1.0)
    velocity = randn(40, surface.size, seed=1)
    poison = torch.full((6, surface.size), 1e7, dtype=torch.float64)
    how = {
        "dynamics": dissipative(1.0, 0.5),
        "max_time": 1.5,
        "max_evaluations": 300,
    }
    alone = dims.integrate(surface, surface.initial, velocity, **how)
    mixed = dims.integrate(surface, surface.initial, torch.cat([poison, velocity]), **how)
    assert not any(status.ok for status in mixed.status[:6])
    assert mixed.status[6:] == alone.status
    assert ks_2samp(alone.loss[-1], mixed.loss[-1, 6:]).pvalue > 0.05
    assert ks_2samp(alone.arc_length, mixed.arc_length[6:]).pvalue > 0.05
