"""A row depends on nothing but itself: not on the batch, hardly on the tolerance, on no other."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import dims
import problems
from cases import first, slow
from dims import Status
from dims.mechanics.motion import Motion

pytestmark = pytest.mark.usefixtures("without_shape_checks")

ROWS = 5


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def network() -> dims.LossSurface:
    """More points than a refresh looks at, so that it chooses some at random."""
    torch.manual_seed(0)
    inputs = torch.linspace(-1, 1, 40, dtype=torch.float64).unsqueeze(-1)
    layers = (torch.nn.Linear(1, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    labels = (inputs.squeeze(-1) > 0.2).long()
    return dims.LossSurface(
        torch.nn.Sequential(*layers).double(), (inputs, labels), "classification"
    )


FEW = dims.MovingMetric(turn=0.2, rank=4, points=6, flat_curvature=0.05, seed=3)
OFTEN = dims.MovingMetric(turn=0.5, flat_curvature=0.1)


def problem(name: str) -> tuple[dims.Surface | dims.LossSurface, Tensor, dims.MovingMetric]:
    if name == "ring":
        return problems.ring(), vector(1.0, 0.0), OFTEN
    if name == "deep linear":
        return problems.deep_linear(), vector(1.0, 1.0, 1.0), replace(OFTEN, rank=2)
    surface = network()
    return surface, surface.initial, FEW


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        ("ring", "rattle"),
        slow("deep linear", "rattle"),
        slow("network", "rattle"),
        ("ring", "dopri5"),
        slow("network", "dopri5"),
    ],
)
def test_a_row_is_the_same_alone_and_in_a_batch(name, solver):
    surface, start, metric = problem(name)
    velocities = 2 * randn(ROWS, len(start))
    how = {"solver": solver, "metric": metric, "max_time": 0.8}
    if solver == "dopri5":
        how["tolerance"] = 1e-5
    whole = dims.integrate(surface, start, velocities, **how)
    assert (whole.refreshes > 1).any()
    for row in (1, 4) if solver == "rattle" else (4,):
        # Of a row alone the number in the run has to be told, for what is random.
        alone = dims.integrate(surface, start, velocities[row], numbers=[row], **how)
        for count in ("refreshes", "steps", "evaluations", "rejections"):
            assert int(getattr(whole, count)[row]) == int(getattr(alone, count)), count
        for field in ("arc_length", "metric_length", "energy_violation", "end_energy"):
            ours, theirs = getattr(whole, field)[row], getattr(alone, field)[0]
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6, msg=field)
        torch.testing.assert_close(whole.end[row], alone.end[0], rtol=1e-6, atol=1e-6)


def test_what_is_random_depends_on_the_seed_and_the_number_of_the_row():
    surface, start, metric = problem("network")
    velocity = 2 * randn(1, len(start)).expand(3, -1)
    how = {"max_time": 1.5, "metric": metric}
    path = dims.integrate(surface, start, velocity, numbers=[7, 8, 7], **how)
    assert (path.refreshes > 1).all()
    torch.testing.assert_close(path.end[0], path.end[2], rtol=0, atol=1e-9)
    assert (path.end[0] - path.end[1]).abs().max() > 1e-4
    other = dims.integrate(
        surface, start, velocity, numbers=[7, 8, 7], **how | {"metric": replace(metric, seed=4)}
    )
    assert (path.end[0] - other.end[0]).abs().max() > 1e-4
    # The first frame is the same for all: rows with one ε start alike.
    torch.testing.assert_close(path.start_kinetic_energy[0], path.start_kinetic_energy[1])


@pytest.mark.parametrize(
    ("tolerances", "max_time"),
    [
        ((1e-2, 1e-3, 3e-4), 0.5),
        slow((1e-2, 1e-4, 3e-5), 0.5),
        slow((1e-2, 1e-4, 1e-5), 0.8),
    ],
)
def test_another_tolerance_hardly_changes_when_rows_refresh(tolerances, max_time, monkeypatch):
    times: list[tuple[int, float]] = []
    refresh = dims.MovingMetric.refresh

    def watched(self, state, *rest):
        after, due = refresh(self, state, *rest)
        times.extend(zip(after.frame.number[due].tolist(), after.time[due].tolist(), strict=True))
        return after, due

    monkeypatch.setattr(dims.MovingMetric, "refresh", watched)

    def refreshed(tolerance: float) -> list[list[float]]:
        times.clear()
        path = dims.integrate(
            problems.ring(),
            vector(1.0, 0.0),
            randn(4, 2),
            tolerance=tolerance,
            metric=OFTEN,
            max_time=max_time,
        )
        assert path.status == [Status.FINISHED] * 4
        return [sorted(when for row, when in times if row == each) for each in range(4)]

    coarse, fine, exact = (refreshed(tolerance) for tolerance in tolerances)
    assert sum(map(len, coarse)) >= 4
    # A row refreshes at the end of a step, of which the coarse run makes a dozen in that time; its
    # last refresh may come after the end.
    for rough, better, best in zip(coarse, fine, exact, strict=True):
        assert abs(len(rough) - len(best)) <= 1
        assert all(abs(a - b) < 0.2 for a, b in zip(rough, best, strict=False))
        assert better == pytest.approx(best, abs=0.03)


def cliff(theta: Tensor) -> Tensor:
    """A narrow bent valley that ends in NaN, the power of a negative number."""
    return bent(theta) + 0.01 * (0.3 - theta[0]).pow(1.5)


def bent(theta: Tensor) -> Tensor:
    return 50 * (theta[1] - theta[0].square()).square() + 0.5 * theta.square().sum()


@pytest.mark.parametrize("solver", first(["rattle", "dopri5"]))
def test_a_poisoned_row_never_touches_others(solver):
    """Rows that run into NaN, and rows that begin with enormous velocities."""
    surface, start = dims.Surface(cliff), vector(0.0, 0.0)
    healthy = torch.stack([vector(-1.0, 0.02), vector(-0.5, -0.04), vector(-2.0, 0.01)])
    poison = torch.stack([vector(3.0, 0.0), vector(1e9, 1e9), vector(2.0, 0.0)])
    how = {"metric": OFTEN, "solver": solver, "max_time": 2.0, "max_evaluations": 2000}
    if solver == "dopri5":
        how["tolerance"] = 1e-5
    alone = dims.integrate(surface, start, healthy, numbers=[0, 2, 4], **how)
    mixed = torch.stack([healthy, poison], dim=1).flatten(0, 1)
    path = dims.integrate(surface, start, mixed, **how)
    assert alone.status == [Status.FINISHED] * 3
    assert (alone.refreshes > 1).any()
    assert path.status[::2] == alone.status
    assert all(not status.ok for status in path.status[1::2])
    torch.testing.assert_close(path.end[::2], alone.end, rtol=1e-8, atol=1e-8)
    for name in ("refreshes", "steps", "evaluations"):
        assert torch.equal(getattr(path, name)[::2], getattr(alone, name)), name
    assert path.end.isfinite().all()


class Uncertain(dims.Surface):
    """Finite losses and gradients, but no curvature beyond a place."""

    place = 0.0

    def grad_and_hvp(self, thetas: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        gradients, products = super().grad_and_hvp(thetas, vectors)
        known = thetas[:, :1] < self.place
        return gradients, products.where(known, torch.nan)


def test_a_curvature_that_is_not_finite_keeps_the_frame(monkeypatch):
    surface, start = Uncertain(bent), vector(0.0, 0.0)
    surface.place = 0.3
    kept: list[tuple[Tensor, Tensor, Tensor]] = []
    refresh = dims.MovingMetric.refresh

    def watched(self, state, *rest):
        basis, softening = state.frame.basis.clone(), state.frame.softening
        after, due = refresh(self, state, *rest)
        lost = due[after.position[due, 0] >= 0.3]
        numbers = after.frame.number
        kept.extend((basis[row], after.frame.basis[row], numbers[row]) for row in lost)
        for row in lost:
            assert torch.equal(softening[row], after.frame.softening[row])
            assert after.frame.turned[row] == 0
        return after, due

    monkeypatch.setattr(dims.MovingMetric, "refresh", watched)
    velocities = torch.stack([vector(-1.0, 0.02), vector(2.5, 0.0), vector(-2.0, 0.01)])
    how = {"metric": replace(OFTEN, turn=0.1), "max_time": 0.6}
    path = dims.integrate(surface, start, velocities, **how)
    assert path.status == [Status.FINISHED] * 3
    assert {int(number) for _, _, number in kept} == {1}
    assert all(torch.equal(before, after) for before, after, _ in kept)
    assert path.energy_violation.max() < 1e-2
    # The others are as if that row had not been there.
    alone = dims.integrate(surface, start, velocities[::2], numbers=[0, 2], **how)
    torch.testing.assert_close(path.end[::2], alone.end, rtol=1e-9, atol=1e-9)
    assert torch.equal(path.refreshes[::2], alone.refreshes)


def test_a_start_without_a_curvature_is_in_the_euclidean_metric():
    surface = Uncertain(bent)
    surface.place = 0.3
    starts = torch.stack([vector(0.0, 0.0), vector(0.5, 0.25)])
    velocity = vector(0.5, 0.2).expand(2, -1)
    path = dims.integrate(surface, starts, velocity, metric=OFTEN, max_time=0.3, save_at=[0.0, 0.3])
    assert path.status == [Status.FINISHED] * 2
    _, slope = surface.value_and_grad(starts)
    plain = 0.5 * (velocity.square().sum(-1) + (slope * velocity).sum(-1).square())
    torch.testing.assert_close(path.kinetic_energy[0, 1], plain[1])
    # In the frame of the other row the stiff part of the same velocity weighs more.
    assert path.kinetic_energy[0, 0] > 1.5 * plain[0]
    torch.testing.assert_close(path.kinetic_energy[0], path.start_kinetic_energy)


def test_a_refresh_evaluates_the_rows_that_need_it_and_no_others(monkeypatch):
    """A gradient each. The solver has none to renew, and a row that has ended asks for nothing."""
    surface, widths = problems.ring(), []
    evaluate, refresh = surface.value_and_grad, Motion.refresh

    def counted(thetas: Tensor) -> tuple[Tensor, Tensor]:
        widths.append(len(thetas))
        return evaluate(thetas)

    def watched(self, state, clock):
        widths.clear()
        due = int((state.refreshing & state.running).sum())
        ended.append(int((state.refreshing & ~state.running).sum()))
        state = refresh(self, state, clock)
        assert widths == [due]
        return state

    ended: list[int] = []
    monkeypatch.setattr(surface, "value_and_grad", counted)
    monkeypatch.setattr(Motion, "refresh", watched)
    velocities = torch.stack([vector(0.03, 0.02), *[vector(0.3, 2.0)] * 9])
    often = dims.MovingMetric(turn=1e-6, flat_curvature=0.1)
    path = dims.integrate(surface, vector(1.0, 0.0), velocities, metric=often, max_time=0.5)
    assert path.refreshes.min() > 1
    assert max(ended) > 0
