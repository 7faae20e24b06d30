"""Stop conditions, alone and in a run."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import dims
from cases import first
from dims.mechanics.events import StopCondition


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def bowl() -> dims.Surface:
    return dims.Surface(lambda theta: 0.5 * theta.square().sum())


def test_at_rest_wants_both_to_be_small():
    stop = dims.AtRest(kinetic_energy=1e-2, gradient_norm=1e-1)
    kinetic = numbers(1e-3, 1e-3, 1.0, 1.0, math.nan)
    norm = numbers(1e-2, 1.0, 1e-2, 1.0, 1e-2)
    over = stop(numbers(*[0.0] * 5), numbers(*[0.0] * 5), kinetic, norm)
    assert over.tolist() == [True, False, False, False, False]
    assert isinstance(stop, StopCondition)


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_thresholds_must_be_positive(bad):
    with pytest.raises(ValueError, match="AtRest"):
        dims.AtRest(kinetic_energy=bad)
    with pytest.raises(ValueError, match="AtRest"):
        dims.AtRest(gradient_norm=bad)


@pytest.mark.parametrize("solver", first(["rattle", "dopri5"]))
@pytest.mark.usefixtures("unchecked")
def test_a_row_stops_where_the_condition_first_holds(solver):
    stop = dims.AtRest(1e-3, 3e-2)
    start, velocity = numbers(1.0, -0.5), numbers(0.3, 0.4)
    options = {"dynamics": dims.damped(1.0, 1.0), "solver": solver}
    path = dims.integrate(bowl(), start, velocity, stop=stop, max_time=200.0, **options)
    assert path.status == [dims.Status.AT_REST]
    assert path.status[0].ok
    end = float(path.end_time)
    assert 0 < end < 200
    assert float(path.kinetic_energy) < 1e-3
    assert float(path.gradient_norm) < 3e-2
    # Not met before: the same run without the condition, looked at more often.
    times = torch.linspace(0.0, 0.95 * end, 40, dtype=torch.float64)
    before = dims.integrate(
        bowl(), start, velocity, save_at=times, max_time=float(times[-1]), **options
    )
    met = (before.kinetic_energy < 1e-3) & (before.gradient_norm < 3e-2)
    assert not met.any()
    # A turning point has no kinetic energy, but a gradient.
    assert (before.kinetic_energy < 1e-3).any()


@pytest.mark.parametrize("solver", ["rattle", "dopri5"])
def test_a_condition_of_ones_own(solver):
    """Half a unit of height lost; only one of the rows ever loses it."""

    def low(time: Tensor, loss: Tensor, kinetic_energy: Tensor, gradient_norm: Tensor) -> Tensor:
        return loss < 1.5

    starts = torch.tensor([[2.0, 0.0], [4.0, 0.0]], dtype=torch.float64)
    path = dims.integrate(
        bowl(),
        starts,
        torch.zeros_like(starts),
        dynamics=dims.gravitational(1.0),
        solver=solver,
        max_time=2.0,
        stop=low,
    )
    assert path.status == [dims.Status.AT_REST, dims.Status.FINISHED]
    assert float(path.loss[0, 0]) < 1.5
    assert float(path.loss[0, 1]) > 1.5
    assert float(path.end_time[0]) < 2.0 == float(path.end_time[1])


@pytest.mark.parametrize("solver", ["rattle", "dopri5"])
def test_rest_at_a_minimum_is_seen_at_once(solver):
    path = dims.integrate(
        bowl(), numbers(0.0, 0.0), numbers(0.0, 0.0), solver=solver, stop=dims.AtRest()
    )
    assert path.status == [dims.Status.AT_REST]
    assert int(path.steps) <= 8
    assert torch.equal(path.end, torch.zeros(1, 2, dtype=torch.float64))
