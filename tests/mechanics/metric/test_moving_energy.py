"""Lemma 1 across refreshes at the default settings: E = T + κL falls by ∫2ηT dt.

T and the lengths are those of the metric of the motion. To t = 10 always, to t = 50 among the long
tests. The toys are those of the euclidean metric.
"""

from __future__ import annotations

import pytest
import torch

import dims
import problems
from cases import first

pytestmark = pytest.mark.usefixtures("without_shape_checks")

VELOCITIES = 20
SURFACES = {
    "sphere": (problems.sphere, [1.0, 0.0, 0.0, 0.0, 0.0]),
    "ring": (problems.ring, [1.0, 0.0]),
    "deep linear": (problems.deep_linear, [1.0, 1.0, 1.0]),
    "two basins": (problems.two_basins, [-1.0, 0.0]),
}
# As it comes; below the number of parameters; often refreshed, and softened below its smallest.
METRICS = {
    "default": dims.MovingMetric(),
    "rank 2": dims.MovingMetric(rank=2, flat_curvature=0.1),
    "refreshed": dims.MovingMetric(turn=1.0, flat_curvature=0.1),
}


def travel(
    name: str, metric: dims.MovingMetric, dtype: torch.dtype, max_time: float
) -> dims.Trajectories:
    build, position = SURFACES[name]
    generator = torch.Generator().manual_seed(0)
    velocities = torch.randn(VELOCITIES, len(position), generator=generator, dtype=torch.float64)
    return dims.integrate(
        build(),
        torch.tensor(position, dtype=dtype),
        velocities.to(dtype),
        dynamics=dims.dissipative(1.0, 0.1),
        save_at=[time for time in (1.0, 2.0, 5.0, 10.0, 20.0, 50.0) if time <= max_time],
        max_time=max_time,
        max_evaluations=40_000,
        metric=metric,
    )


# Each metric and precision at least once.
ALWAYS = [
    ("sphere", "default", torch.float64),
    ("deep linear", "rank 2", torch.float64),
    ("two basins", "refreshed", torch.float32),
]


def cases() -> list:
    """To t = 10; most are among the long tests, with all to t = 50."""
    found = []
    for name in SURFACES:
        for metric in METRICS:
            for dtype in (torch.float64, torch.float32):
                brief = (name, metric, dtype) in ALWAYS
                for time in (10.0, 50.0):
                    known = f"{name}, {metric}, {str(dtype)[6:]} to {time:g}"
                    marks = () if brief and time == 10.0 else pytest.mark.slow
                    found.append(pytest.param(name, metric, dtype, time, id=known, marks=marks))
    return found


@pytest.mark.parametrize(("name", "metric", "dtype", "max_time"), cases())
def test_the_energy_law_across_refreshes(name, metric, dtype, max_time):
    path = travel(name, METRICS[metric], dtype, max_time)
    assert path.status == [dims.Status.FINISHED] * VELOCITIES
    assert path.energy_violation.max() < 1e-2
    energy = torch.cat([path.start_energy.unsqueeze(0), path.energy])
    left = energy - path.lowest_loss
    assert (left.diff(dim=0) / left[:-1]).max() < 1e-2
    assert (path.kinetic_energy > 0).all()
    if metric == "refreshed":
        assert (path.refreshes > 1).any()
    # What is lost is what friction took, over all rows; in float32 a slow row may be off further.
    share = path.energy_balance.abs() / path.dissipated[-1]
    assert share.mean() < 1e-2
    assert share.max() < (2e-2 if dtype == torch.float64 else 5e-2)
    taken = path.dissipated[-1] - path.dissipated[0]
    late = (path.energy[0] - path.energy[-1] - taken).abs() / taken
    assert late.mean() < 1e-2


@pytest.mark.parametrize("name", list(SURFACES))
def test_a_degenerate_minimum_is_a_place_to_start(name):
    """On a plain surface the smallest curvature that is not rounding is the level, not zero."""
    build, position = SURFACES[name]
    surface, theta = build(), torch.tensor(position, dtype=torch.float64)
    values = torch.linalg.eigvalsh(surface.hessian(theta)).abs()
    assert (values.min() < 1e-12) == (name != "two basins")
    path = dims.integrate(
        surface, theta, 0.1 * torch.ones_like(theta), metric="moving", max_time=0.5
    )
    assert path.status == [dims.Status.FINISHED]


def test_on_a_plane_nothing_is_softened():
    """Without any curvature the metric is the euclidean one, and a geodesic is straight."""
    tilt = torch.tensor([3.0, -1.0], dtype=torch.float64)
    surface = dims.Surface(lambda theta: theta @ tilt)
    velocity = torch.tensor([1.0, 2.0], dtype=torch.float64)
    how = {"dynamics": dims.geodesic(), "metric": "moving", "max_time": 3.0}
    path = dims.integrate(surface, torch.zeros(2).double(), velocity, **how)
    torch.testing.assert_close(path.end[0], 3 * velocity)
    torch.testing.assert_close(path.metric_length, path.arc_length)


@pytest.mark.parametrize("dynamics", first([dims.gravitational(1.0), dims.geodesic()]))
def test_without_friction_the_energy_is_conserved_across_refreshes(dynamics):
    surface, position = problems.ring(), torch.tensor([1.0, 0.0]).double()
    velocities = torch.randn(6, 2, generator=torch.Generator().manual_seed(0)).double()
    path = dims.integrate(
        surface,
        position,
        velocities,
        dynamics=dynamics,
        metric=METRICS["refreshed"],
        save_at=[0.0, 1.0, 3.0],
        max_time=3.0,
    )
    assert (path.refreshes > 1).any()
    assert path.energy_violation.max() < 1e-2
    scale = path.energy[0] - dynamics.potential(path.lowest_loss)
    assert ((path.energy - path.energy[0]).abs() / scale).max() < 1e-2
    assert path.dissipated.abs().max() == 0
