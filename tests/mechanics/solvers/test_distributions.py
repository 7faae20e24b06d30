"""Where trajectories end is a distribution, and it must not depend on the solver."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor, nn

import dims
import problems

ROWS = 60


def ends(path: dims.Trajectories, start: Tensor) -> dict[str, Tensor]:
    return {
        "loss": path.loss[-1],
        "distance": (path.end - start).norm(dim=-1),
        "arc length": path.arc_length,
        "first coordinate": path.end[:, 0],
    }


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("seed", [0, 1], ids=["same velocities", "other velocities"])
def test_rattle_ends_where_a_tight_dopri5_does(seed):
    surface, start = problems.two_basins(), torch.tensor([-1.0, 0.0], dtype=torch.float64)

    def run(solver: dims.Rattle | dims.Dopri5, seed: int) -> dims.Trajectories:
        generator = torch.Generator().manual_seed(seed)
        velocities = 2 * torch.randn(ROWS, 2, generator=generator, dtype=torch.float64)
        return dims.integrate(surface, start, velocities, solver=solver, max_time=10.0)

    ours, theirs = run(dims.Rattle(), seed), run(dims.Dopri5(tolerance=1e-9), 0)
    assert theirs.energy_violation.max() < 1e-4  # tight enough to keep the energy law
    for name, values in ends(ours, start).items():
        p = ks_2samp(values, ends(theirs, start)[name], method="asymp").pvalue
        assert p > 0.01, f"{name}: p = {p:.1e}"


def random_networks() -> tuple[dims.LossSurface, Tensor, Tensor]:
    """Untrained weights of a small regression network, and velocities that know nothing of it."""
    generator = torch.Generator().manual_seed(1)
    inputs = 4 * torch.rand(30, 1, generator=generator, dtype=torch.float64) - 2
    noise = 0.1 * torch.randn(30, 1, generator=generator, dtype=torch.float64)
    widths = (nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    network = nn.Sequential(*widths).double()
    surface = dims.LossSurface(
        network, (inputs, (2 * inputs).sin() + noise), dims.Gaussian(0.3), prior_precision=1.0
    )
    start = 0.5 * torch.randn(2, surface.size, generator=generator, dtype=torch.float64)
    velocity = torch.randn(2, surface.size, generator=generator, dtype=torch.float64)
    return surface, start, velocity


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_a_random_start_reaches_a_minimum():
    surface, start, velocity = random_networks()
    path = dims.integrate(
        surface, start, velocity, dynamics=dims.dissipative(10.0, 0.2), max_time=40.0
    )
    bottom = dims.settle(surface, path.end, "full")
    assert (path.loss[-1] - bottom.loss < 0.05).all()
    assert (surface.value(start) - bottom.loss > 10).all()
    settled = dims.settle(surface, path.end)
    verdicts = dims.certify(surface, settled.positions).verdict
    assert [verdict.name for verdict in verdicts] == ["MINIMUM", "MINIMUM"]
