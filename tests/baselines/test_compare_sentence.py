"""Which method `dims.compare` says to take."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dims.baselines.comparison import Comparison, MethodScores, _chance_of_at_most


def scores(method: str, nll: Tensor, seconds: float = 1.0, covered: float = 0.95) -> MethodScores:
    return MethodScores(method, seconds, nll.tolist(), [0.0] * len(nll), covered)


def test_the_sentence_says_which_to_take() -> None:
    rows = torch.randn(200, generator=torch.Generator().manual_seed(0)).double().abs()
    noise = 0.5 * torch.randn(200, generator=torch.Generator().manual_seed(1)).double()
    network_scores, slow = scores("network", rows), scores("dims", rows - 0.3, 50.0)
    assert (
        "Take the network alone"
        in Comparison(
            "regression", [network_scores, scores("swag", rows + noise - noise.mean() - 1e-3)]
        ).recommendation()
    )
    clear = Comparison("regression", [network_scores, slow]).recommendation()
    assert "Take dims: its NLL is lower than the network's by 0.300" in clear
    assert clear.endswith("significantly lower than every other method's.")
    close = scores("swag", rows - 0.3 + noise - noise.mean() + 1e-3, 2.0)
    tied = Comparison("regression", [network_scores, slow, close]).recommendation()
    assert "Not significantly different from it: swag" in tied
    assert "takes 2 s where dims takes 50 s" in tied


def test_a_method_with_a_fault_is_not_offered_in_place_of_the_best() -> None:
    """One row with an NLL of hundreds, or intervals that are refuted, cannot be "as good"."""
    rows = torch.randn(200, generator=torch.Generator().manual_seed(0)).double().abs()
    noise = 0.5 * torch.randn(200, generator=torch.Generator().manual_seed(1)).double()
    near = rows - 0.3 + noise - noise.mean() + 1e-3
    runaway = rows - 0.3
    runaway[7] += 500
    given = [scores("network", rows), scores("dims", rows - 0.3, 50.0)]
    found = Comparison("regression", [*given, scores("swag", runaway)]).recommendation()
    assert found.endswith("swag (but its mean NLL is above the network's).")
    narrow, sound = scores("swag", near, 1.0, covered=0.6), scores("rla", near, 2.0)
    found = Comparison("regression", [*given, narrow, sound]).recommendation()
    assert "swag (but its 95 % intervals hold only 60% of the rows), rla; " in found
    assert "the quickest of them without a fault, rla, takes 2 s" in found


def test_few_rows_choose_no_method() -> None:
    rows = torch.linspace(0, 1, 12).double()
    found = Comparison("regression", [scores("network", rows), scores("dims", rows - 0.3)])
    assert found.recommendation().startswith("12 rows are too few to tell methods apart (dims")
    assert "--cross-validate of a program of dims init" in found.recommendation()


@pytest.mark.parametrize("rows", [20, 5000])
def test_the_chance_of_a_low_coverage_is_that_of_scipy(rows: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    for count in (0, rows // 2, int(0.93 * rows), rows):
        found = _chance_of_at_most(count, rows, 0.95)
        assert found == pytest.approx(stats.binom.cdf(count, rows, 0.95), rel=1e-6, abs=1e-300)
