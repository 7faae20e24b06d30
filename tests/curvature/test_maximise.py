"""Projected BFGS on a curved valley, at a bound, between hills and beside a domain's edge."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dims.curvature.maximise import best_of_grid, climb


def test_climb_finds_corners_valleys_and_the_better_of_two_hills() -> None:
    def rosenbrock(x: Tensor) -> Tensor:
        return -((1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)

    box = torch.tensor([[-3.0, 3.0], [-3.0, 5.0]], dtype=torch.float64)
    search = climb(rosenbrock, torch.tensor([-1.5, 3.0]).double(), box, 300)
    assert search.converged
    torch.testing.assert_close(search.point, torch.ones(2).double(), rtol=1e-4, atol=1e-4)
    low = torch.tensor([[-3.0, 0.5], [-3.0, 5.0]], dtype=torch.float64)
    search = climb(rosenbrock, torch.tensor([-1.5, 3.0]).double(), low, 300)
    assert search.converged
    torch.testing.assert_close(
        search.point, torch.tensor([0.5, 0.25]).double(), rtol=1e-4, atol=1e-4
    )

    def hills(x: Tensor) -> Tensor:
        return (torch.exp(-((x - 2) ** 2)) + 2 * torch.exp(-((x + 7) ** 2))).sum()

    line = torch.tensor([[-10.0, 10.0]], dtype=torch.float64)
    search = climb(hills, best_of_grid(hills, line), line, 300)
    assert float(search.point) == pytest.approx(-7, abs=1e-4)


def test_climb_steps_back_from_places_without_a_value() -> None:
    def half_line(x: Tensor) -> Tensor:
        return (x.log() - 5 * x).sum()  # NaN for x < 0, maximum at 0.2

    box = torch.tensor([[-4.0, 4.0]], dtype=torch.float64)
    search = climb(half_line, torch.tensor([3.0]).double(), box, 300)
    assert search.converged
    assert float(search.point) == pytest.approx(0.2, abs=1e-4)
