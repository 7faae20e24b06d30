"""What a moving metric is for: stiff directions cost nothing, also where they turn on the way."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import dims
from cases import first, slow

pytestmark = pytest.mark.usefixtures("without_shape_checks")

SIZE, ROWS = 50, 3
CONDITIONS = (1e2, 1e5, 1e8)
SPECTRA = {
    "evenly spread": lambda condition: torch.logspace(0, math.log10(condition), SIZE),
    "five stiff": lambda condition: torch.tensor([1.0] * (SIZE - 5) + [condition] * 5),
}


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rows(*numbers: list[float]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def quadratic_path(
    spectrum: str, condition: float, floor: float, *, away: bool, metric: str = "moving"
) -> dims.Trajectories:
    """A rotated quadratic from the same φ'(0) at every condition, to t = 8."""
    values = SPECTRA[spectrum](condition).double()
    turn = torch.linalg.qr(randn(SIZE, SIZE))[0]
    matrix = turn @ values.diag() @ turn.T
    frame = turn @ (floor / values).sqrt().clamp(max=1.0).diag() @ turn.T
    moving = dims.MovingMetric(rank=SIZE, floor=floor, flat_curvature=1.0)
    return dims.integrate(
        dims.Surface(lambda theta: 0.5 * theta @ matrix @ theta),
        float(away) * randn(SIZE, seed=2) @ frame,
        randn(ROWS, SIZE, seed=1) @ frame,
        metric=moving if metric == "moving" else metric,
        max_time=8.0 if metric == "moving" else 0.4,
    )


@pytest.mark.parametrize(
    ("spectrum", "away", "floor"),
    [
        pytest.param("evenly spread", False, 1.0, id="softened to δ"),
        slow("evenly spread", False, 10.0, id="softened to 10δ"),
        slow("evenly spread", True, 10.0, id="from a slope"),
        slow("five stiff", True, 10.0, id="five stiff, from a slope"),
    ],
)
def test_rotated_quadratics_of_any_condition_take_as_many_steps(spectrum, away, floor):
    paths = [quadratic_path(spectrum, condition, floor, away=away) for condition in CONDITIONS]
    for path in paths:
        assert path.status == [dims.Status.FINISHED] * ROWS
        assert path.energy_violation.max() < 1e-2
        # One frame is right everywhere on a quadratic, and no turn of the normal is unexplained.
        assert path.refreshes.tolist() == [1] * ROWS
        kinetic, first = path.start_kinetic_energy, paths[0].start_kinetic_energy
        if not away:  # where there is no slope, the same φ'(0) is the same T
            torch.testing.assert_close(kinetic, first)
    steps = torch.stack([path.steps for path in paths]).double()
    assert (steps.amax(0) / steps.amin(0)).max() < 1.2, steps.tolist()
    total = torch.stack([path.evaluations for path in paths]).double().mean(1)
    assert total.max() / total.min() < 1.2, total.tolist()


def test_in_the_euclidean_metric_they_do_not():
    """A twentieth of the time, and still more than twice the steps."""
    moving = quadratic_path("evenly spread", 1e5, 1.0, away=False)
    euclidean = quadratic_path("evenly spread", 1e5, 1.0, away=False, metric="euclidean")
    assert euclidean.steps.double().mean() > 2 * moving.steps.double().mean()


STIFFNESS = 1e4
# A surface, the distance from the floor of its valley, a start on it and velocities along it.
VALLEYS = {
    "ring": (
        dims.Surface(lambda theta: 0.5 * STIFFNESS * (theta.norm() - 1).square()),
        lambda thetas: thetas.norm(dim=-1) - 1,
        rows([1.0, 0.0]),
        rows([0.0, 2.0], [0.02, -3.0], [-0.01, 1.5]),
    ),
    "parabola": (
        dims.Surface(
            lambda theta: (
                0.5 * STIFFNESS * (theta[1] - theta[0].square()).square()
                + 0.5 * theta.square().sum()
            )
        ),
        lambda thetas: thetas[..., 1] - thetas[..., 0].square(),
        rows([0.0, 0.0]),
        rows([2.0, 0.0], [3.0, 0.02], [1.5, -0.01]),
    ),
}


@pytest.mark.parametrize("name", first(list(VALLEYS)))
def test_a_bent_and_narrow_valley_is_followed(name):
    """The stiff direction turns along the way, and one frame would be wrong after a while."""
    surface, away, start, velocity = VALLEYS[name]
    moving = dims.MovingMetric(turn=0.3, flat_curvature=10.0)
    times = torch.linspace(0, 5, 11, dtype=torch.float64)
    path = dims.integrate(surface, start, velocity, max_time=5.0, save_at=times, metric=moving)
    assert path.status == [dims.Status.FINISHED] * 3
    assert (path.refreshes > 1).all()
    # The energy law, over all refreshes.
    assert path.energy_violation.max() < 1e-2
    assert (path.energy_balance.abs() / path.dissipated[-1]).max() < 1e-2
    assert (path.energy.diff(dim=0) < 1e-2 * (path.start_energy - path.lowest_loss)).all()
    # No further from the floor than the energy allows, and ten times as far along it. Softened
    # walls take up more of the energy than steep ones: it is less far than in the euclidean metric.
    width = (2 * path.start_energy / STIFFNESS).sqrt()
    assert (away(path.positions).abs() <= 1.01 * width).all()
    assert width.max() < 0.04
    assert ((path.positions - start).norm(dim=-1).amax(0) > 0.4).all()
    # Twice the gradients carry the euclidean motion to half the time at most.
    most = 2 * int(path.evaluations.max())
    euclidean = dims.integrate(surface, start, velocity, max_time=5.0, max_evaluations=most)
    assert euclidean.status == [dims.Status.BUDGET_SPENT] * 3
    assert euclidean.end_time.max() < 2.5


@pytest.mark.slow
def test_the_particle_goes_round_where_softened_walls_still_turn_it():
    """A wall of curvature f turns a particle of energy T in a bend of radius r if f·r² ≫ T."""
    surface, _, start, velocity = VALLEYS["ring"]
    run = {"max_time": 1.5, "save_at": torch.linspace(0, 1.5, 11, dtype=torch.float64)}
    euclidean = dims.integrate(surface, start, velocity, **run)
    shares, costs = [], []
    for level in (1000.0, 5000.0):
        metric = dims.MovingMetric(turn=0.3, floor=1.0, flat_curvature=level)
        path = dims.integrate(surface, start, velocity, metric=metric, **run)
        assert path.energy_violation.max() < 1e-2
        shares.append((angle(path.positions) / angle(euclidean.positions)).min())
        costs.append(path.evaluations.double().mean() / euclidean.evaluations.double().mean())
    assert shares[0] > 0.3
    assert shares[1] > 0.75
    assert costs[0] < 0.5
    assert costs[1] < 0.9


def angle(positions: torch.Tensor) -> torch.Tensor:
    """How far round the origin each row has gone, in radians."""
    angles = torch.atan2(positions[..., 1], positions[..., 0])
    steps = (angles.diff(dim=0) + math.pi).remainder(2 * math.pi) - math.pi
    return steps.sum(0).abs()
