"""Settings that would keep a trajectory moving for days end it soon, with a status or an error."""

from __future__ import annotations

import pytest
import torch

import dims
from cases import slow
from dims.mechanics import batch

START = torch.tensor([1.0, 2.0], dtype=torch.float64)


def bowl() -> dims.Surface:
    return dims.Surface(lambda theta: theta.square().sum() + theta[0] * theta[1])


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"dynamics": dims.dissipative(1.0, 1e9)}, id="friction"),
        slow({"dynamics": dims.dissipative(1e12, 1.0)}, id="gravity"),
        slow({"dynamics": dims.gravitational(1.0), "max_time": 1e9}, id="time"),
        pytest.param({"tolerance": 1e-14}, id="tolerance"),
    ],
)
def test_a_row_that_would_need_too_long_is_given_up(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "FIRST_FORECAST", 100)
    monkeypatch.setattr(batch, "MOST_EVALUATIONS", 20_000)
    path = dims.integrate(bowl(), START, -START, **settings)
    assert path.status == [dims.Status.BUDGET_SPENT]
    assert path.evaluations.max() < 300
    assert path.end.isfinite().all()


def test_a_limit_of_the_user_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "FIRST_FORECAST", 10)
    monkeypatch.setattr(batch, "MOST_EVALUATIONS", 1)
    path = dims.integrate(bowl(), START, -START, max_time=0.5, max_evaluations=10_000)
    assert path.status == [dims.Status.FINISHED]


@pytest.mark.parametrize("solver", [dims.Rattle, dims.Dopri5])
def test_tolerances_below_rounding_are_refused(solver: type) -> None:
    with pytest.raises(ValueError, match="tolerance: 1e-30 is finer than float64 resolves"):
        solver(tolerance=1e-30)
    with pytest.raises(TypeError, match="tolerance"):
        solver(tolerance="1e-3")
