"""Rows of a batch do not know of each other, end for their own reasons, and always end."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import dims
import problems
from cases import diagonal, first, slow
from dims import Status

SOLVERS = ["rattle", "dopri5"]


def rows(*numbers: list[float]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def bowl(theta: Tensor) -> Tensor:
    return theta.square().sum()


class Counted(dims.Surface):
    """Notes how many rows each evaluation had."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.widths: list[int] = []

    def value_and_grad(self, thetas: Tensor) -> tuple[Tensor, Tensor]:
        self.widths.append(len(thetas))
        return super().value_and_grad(thetas)

    def grad_and_hvp(self, thetas: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        self.widths.append(len(thetas))
        return super().grad_and_hvp(thetas, vectors)


NUMBERS = ("end", "loss", "energy", "energy_violation", "energy_balance", "arc_length", "end_time")
COUNTS = ("steps", "rejections", "evaluations")


def assert_row_equals(
    whole: dims.Trajectories, index: int, single: dims.Trajectories, atol: float
) -> None:
    for name in NUMBERS:
        ours, alone = getattr(whole, name), getattr(single, name)
        ours = ours[:, index] if name in ("loss", "energy") else ours[index]
        alone = alone[:, 0] if name in ("loss", "energy") else alone[0]
        torch.testing.assert_close(ours, alone, rtol=atol, atol=atol, msg=lambda m, n=name: n + m)
    for name in COUNTS:
        assert int(getattr(whole, name)[index]) == int(getattr(single, name)[0]), name
    assert whole.status[index] == single.status[0]


PROBLEMS = {
    "sphere": (problems.sphere, [1.0, 0.0, 0.0, 0.0], 2.0),
    "ring": (problems.ring, [1.0, 0.0], 1.0),
    "deep linear": (problems.deep_linear, [1.0, 1.0, 1.0], 1.0),
    "two basins": (problems.two_basins, [-1.0, 0.0], 1.5),
}


@pytest.mark.parametrize(("name", "solver"), diagonal(list(PROBLEMS), SOLVERS))
def test_a_row_is_the_same_alone_and_in_a_batch(name, solver):
    build, start, time = PROBLEMS[name]
    surface = build()
    options = {"solver": solver, "max_time": time}
    if solver == "dopri5":
        options["tolerance"] = 1e-5
    velocities = randn(4, len(start))
    velocities[3] *= 4  # other paces, other numbers of steps
    whole = dims.integrate(surface, rows(start)[0], velocities, **options)
    assert len(set(whole.steps.tolist())) > 1
    for index in (0, 3):
        single = dims.integrate(surface, rows(start)[0], velocities[index], **options)
        assert_row_equals(whole, index, single, atol=1e-9)


@pytest.mark.parametrize("solver", first(SOLVERS))
@pytest.mark.usefixtures("unchecked")
def test_the_same_batch_is_bitwise_identical(solver):
    def once() -> dims.Trajectories:
        return dims.integrate(
            problems.ring(), rows([1.0, 0.0])[0], randn(6, 2), solver=solver, max_time=2.0
        )

    first, second = once(), once()
    for name in NUMBERS + COUNTS:
        assert torch.equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("solver", first(SOLVERS))
@pytest.mark.usefixtures("unchecked")
def test_the_order_of_rows_does_not_matter(solver):
    velocities = randn(4, 2)
    options = {"solver": solver, "max_time": 2.0}
    forward = dims.integrate(problems.sphere(), rows([1.0, 0.0])[0], velocities, **options)
    backward = dims.integrate(problems.sphere(), rows([1.0, 0.0])[0], velocities.flip(0), **options)
    torch.testing.assert_close(forward.end, backward.end.flip(0), rtol=1e-9, atol=1e-9)
    assert forward.steps.tolist() == backward.steps.flip(0).tolist()


@pytest.mark.parametrize("solver", first(SOLVERS))
@pytest.mark.usefixtures("unchecked")
def test_rows_that_are_over_leave_the_batch(solver):
    """Three rows rest at the bottom; the fourth alone pays for its long trajectory."""
    surface = Counted(bowl)
    starts = rows([0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [3.0, 0.0])
    path = dims.integrate(
        surface,
        starts,
        torch.zeros_like(starts),
        dynamics=dims.damped(1.0, 0.8),
        solver=solver,
        stop=dims.AtRest(1e-4, 1e-2),
        max_time=100.0,
    )
    assert path.status == [Status.AT_REST] * 4
    assert surface.widths[0] == 4
    assert surface.widths.count(1) > 0.7 * len(surface.widths)
    assert max(path.evaluations[:3].tolist()) < 0.2 * int(path.evaluations[3])
    assert float(path.end_time[3]) > 5 * float(path.end_time[:3].max())


@pytest.mark.parametrize("solver", first(SOLVERS))
@pytest.mark.usefixtures("unchecked")
def test_a_spent_budget_ends_a_row_with_its_last_good_state(solver):
    surface = problems.sphere()
    velocity = rows([0.0, 2.0], [0.0, 0.0])
    options = {"dynamics": dims.gravitational(1.0), "solver": solver, "max_time": 20.0}
    path = dims.integrate(surface, rows([1.0, 0.0])[0], velocity, max_evaluations=100, **options)
    assert path.status == [Status.BUDGET_SPENT, Status.FINISHED]
    assert not path.status[0].ok
    assert "max_evaluations" in path.status[0].advice
    assert 100 <= int(path.evaluations[0]) <= 100 + 8 * 6  # looked at after eight ticks
    end = float(path.end_time[0])
    assert 0 < end < 20
    longer = dims.integrate(surface, rows([1.0, 0.0])[0], velocity, save_at=[end], **options)
    torch.testing.assert_close(path.end[0], longer.end[0], rtol=0, atol=2e-2)
    assert path.times.isnan().all()  # the rows ended at different times


def wall_of_nan(theta: Tensor) -> Tensor:
    return bowl(theta) + torch.where(theta[0] > 1.5, math.nan, 0.0)


def wall_of_infinities(theta: Tensor) -> Tensor:
    return bowl(theta) + torch.where(theta.norm() > 1.5, math.inf, 0.0)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("function", "solver"),
    [
        (wall_of_nan, "rattle"),
        slow(wall_of_nan, "dopri5"),
        slow(wall_of_infinities, "rattle"),
        slow(wall_of_infinities, "dopri5"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_surface_that_turns_nan_ends_that_row_only(function, solver):
    starts = rows([0.1, 0.0], [1.0, 0.0], [0.0, 0.2])
    velocities = rows([0.1, 0.3], [2.0, 0.0], [0.0, -0.1])
    options = {"solver": solver, "max_time": 3.0}
    path = dims.integrate(dims.Surface(function), starts, velocities, **options)
    assert path.status == [Status.FINISHED, Status.NOT_FINITE, Status.FINISHED]
    assert "last good state" in path.status[1].advice
    assert path.end.isfinite().all()
    assert path.loss.isfinite().all()
    assert float(path.end[1, 0]) == pytest.approx(1.5, abs=1e-3)  # it came up to the wall
    healthy = dims.integrate(dims.Surface(function), starts[::2], velocities[::2], **options)
    for index, alone in ((0, 0), (2, 1)):
        torch.testing.assert_close(path.end[index], healthy.end[alone], rtol=1e-9, atol=1e-9)
        assert int(path.evaluations[index]) == int(healthy.evaluations[alone])
        assert float(path.energy_violation[index]) == pytest.approx(
            float(healthy.energy_violation[alone]), abs=1e-9
        )


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_row_that_starts_where_the_loss_is_nan_stays_there(solver):
    starts = rows([2.0, 0.0], [0.1, 0.0])
    path = dims.integrate(
        dims.Surface(wall_of_nan), starts, torch.ones_like(starts), solver=solver, max_time=0.5
    )
    assert path.status == [Status.NOT_FINITE, Status.FINISHED]
    assert torch.equal(path.end[0], starts[0])
    assert int(path.steps[0]) == 0
    assert float(path.end_time[0]) == 0
    assert path.energy[0, 1].isfinite()


def kink(theta: Tensor) -> Tensor:
    return theta.abs().sum()


def step_up(theta: Tensor) -> Tensor:
    return bowl(theta) + torch.where(theta[0] > 1.2, 5.0, 0.0)


def across(function: Callable[[Tensor], Tensor]) -> dims.Trajectories:
    """Two rows on an edgy surface without gravity; the first meets the edge, the second rests."""
    return dims.integrate(
        dims.Surface(function),
        rows([1.0, 0.5], [1.0, 2.0]),
        rows([2.0, -1.0], [0.0, 0.0]),
        dynamics=dims.dissipative(0.0, 0.1),
        max_time=2.0,
    )


@pytest.mark.timeout(120)
def test_no_step_crosses_a_jump():
    path = across(step_up)
    assert path.status == [Status.STALLED, Status.FINISHED]
    assert "smooth" in path.status[0].advice
    assert 0 < float(path.end_time[0]) < 2
    assert path.end.isfinite().all()


@pytest.mark.timeout(120)
def test_a_kink_is_crossed_with_the_right_energy_or_not_at_all():
    path = across(kink)
    assert path.status[0] in (Status.STALLED, Status.FINISHED)
    assert path.status[1] is Status.FINISHED
    assert float(path.energy_violation[0]) <= 1e-2
    assert abs(float(path.energy_balance[0])) <= 1e-2 * float(path.dissipated[-1, 0])


def rough(theta: Tensor) -> Tensor:
    """Its value jitters by 1e-3, of which its gradient knows nothing."""
    return bowl(theta) + 1e-3 * torch.frac(1e4 * theta.sum().sin()).detach()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("solver", first(SOLVERS))
@pytest.mark.usefixtures("unchecked")
def test_noise_in_the_loss_ends_with_a_status(solver):
    path = dims.integrate(
        dims.Surface(rough),
        rows([1.0, 0.5])[0],
        rows([1.0, -0.3])[0],
        solver=solver,
        max_time=2.0,
        max_evaluations=1000,
    )
    assert path.status[0] in (Status.STALLED, Status.BUDGET_SPENT, Status.FINISHED)
    assert path.end.isfinite().all()


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("function", "solver"), diagonal([bowl, lambda theta: torch.exp(theta.sum())], SOLVERS)
)
@pytest.mark.usefixtures("unchecked")
def test_enormous_velocities_neither_hang_nor_take_others_along(function, solver):
    surface = dims.Surface(function)
    starts, velocities = rows([1.0, 0.0], [0.5, 0.0]), rows([1e8, -3e7], [0.1, 0.3])
    options = {"solver": solver, "max_time": 1.0, "max_evaluations": 500}
    path = dims.integrate(surface, starts, velocities, **options)
    assert path.end.isfinite().all()
    assert path.energy.isfinite().all()
    assert float(path.end_energy[0]) <= float(path.start_energy[0])
    alone = dims.integrate(surface, starts[1], velocities[1], **options)
    assert_row_equals(path, 1, alone, atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_progress_is_reported(solver):
    seen = []
    path = dims.integrate(
        problems.sphere(),
        rows([1.0, 0.0])[0],
        randn(3, 2),
        solver=solver,
        max_time=2.0,
        progress=seen.append,
    )
    assert [s.ok for s in path.status] == [True] * 3
    done = [report.done for report in seen]
    assert done == sorted(done)
    assert done[-1] == 3
    assert all(report.rows == 3 for report in seen)
    times = [report.mean_time for report in seen[:2]]
    assert 0 < times[0] < times[1] <= 2
