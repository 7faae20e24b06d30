"""Weights of draws: integer weights are repeated draws, and nothing ignores them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dims
from dims import metrics
from dims.prediction.predictive import Predictive
from own_likelihoods import Poisson, StudentT

COUNTS = torch.tensor([3, 1, 0, 2])
WEIGHTS = COUNTS.double() / COUNTS.sum()
REPEATED = torch.repeat_interleave(torch.arange(4), COUNTS)


def outputs_of(width: int, points: int = 30) -> Tensor:
    generator = torch.Generator().manual_seed(width)
    return torch.randn(4, points, width, generator=generator, dtype=torch.float64)


CASES: dict[str, tuple[dims.Likelihood, Tensor, Tensor]] = {
    "gaussian": (dims.Gaussian(0.4), outputs_of(2), outputs_of(2)[0] + 0.3),
    "bernoulli": (dims.Bernoulli(), outputs_of(1), torch.arange(30) % 2),
    "categorical": (dims.Categorical(), outputs_of(3), torch.arange(30) % 3),
    "poisson": (Poisson(), outputs_of(2), torch.arange(60).view(30, 2) % 4),
    "student": (StudentT(4.0, 0.5), outputs_of(2), outputs_of(2)[0] + 0.3),
}


def both(case: str, factor: float = 1.0) -> tuple[Predictive, Predictive, Tensor]:
    """Weighted draws, and the same mixture of equal draws of which some are repeated."""
    likelihood, outputs, targets = CASES[case]
    weighted = likelihood.predictive(factor * outputs).with_weights(WEIGHTS)
    return weighted, likelihood.predictive(factor * outputs[REPEATED]), targets


@pytest.mark.parametrize("case", list(CASES))
def test_integer_weights_are_repeated_draws(case: str) -> None:
    weighted, repeated, targets = both(case)
    names = ["mean", "aleatoric", "epistemic", "variance"]
    if hasattr(weighted, "entropy"):
        names += ["probabilities", "entropy", "mutual_information"]
    for name in names:
        torch.testing.assert_close(getattr(weighted, name), getattr(repeated, name), msg=name)
    found, expected = weighted.metrics(targets), repeated.metrics(targets)
    for reading in ("per_sample", "ensemble"):
        assert found[reading] == pytest.approx(expected[reading], rel=1e-9), reading
        assert found[reading]
    far, far_repeated, _ = both(case, 4.0)
    found, expected = weighted.ood_metrics(far), repeated.ood_metrics(far_repeated)
    for reading in ("per_sample", "ensemble"):
        assert found[reading] == pytest.approx(expected[reading], abs=1e-9), reading


def test_quantiles_of_integer_weights() -> None:
    weighted, repeated, _ = both("gaussian")
    torch.testing.assert_close(weighted.quantile([0.1, 0.8]), repeated.quantile([0.1, 0.8]))


def test_equal_weights_are_the_default() -> None:
    for likelihood, outputs, targets in CASES.values():
        p = likelihood.predictive(outputs.clone())
        given = p.with_weights(torch.full((4,), 0.25))
        torch.testing.assert_close(given.mean, p.mean)
        for reading, values in p.metrics(targets).items():  # the standard error too
            assert given.metrics(targets)[reading] == pytest.approx(values, rel=1e-9)
        assert p.with_weights(None) is p
        assert given.with_weights(None).metrics(targets) == p.metrics(targets)


@pytest.mark.parametrize("case", list(CASES))
def test_all_weight_on_one_draw_is_that_draw(case: str) -> None:
    likelihood, outputs, targets = CASES[case]
    only = likelihood.predictive(outputs.clone()).with_weights(torch.tensor([0.0, 0.0, 1.0, 0.0]))
    alone = likelihood.predictive(outputs[2:3].clone())
    torch.testing.assert_close(only.mean, alone.mean)
    torch.testing.assert_close(only.variance, alone.variance)
    found, expected = only.metrics(targets), alone.metrics(targets)
    assert found["ensemble"] == pytest.approx(expected["ensemble"])
    assert all(np.isnan(v) for v in found["per_sample_error"].values())


@pytest.mark.parametrize("case", list(CASES))
def test_log_scores_average_to_the_nll(case: str) -> None:
    weighted, _, targets = both(case)
    scores = weighted.log_scores(targets)
    assert scores.shape == (4, 30)
    assert scores.dtype == torch.float64
    found = weighted.metrics(targets)
    assert -(WEIGHTS @ scores.mean(dim=1)).item() == pytest.approx(found["per_sample"]["nll"])
    mixture = (WEIGHTS @ scores.exp()).log().mean().item()
    assert -mixture == pytest.approx(found["ensemble"]["nll"])
    with pytest.raises(ValueError, match="targets: "):
        weighted.log_scores(targets[:4])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (torch.ones(3) / 3, r"each of 4 draws, shape \(4,\), got \(3,\)"),
        (torch.tensor([0.5, 0.5, 0.5, -0.5]), "finite and not negative"),
        (torch.tensor([1.0, torch.nan, 0.0, 0.0]), "finite and not negative"),
        (torch.ones(4), "sum to 4, not 1; divide them by their sum"),
        (torch.ones(4, 1) / 4, r"got \(4, 1\)"),
    ],
)
def test_bad_weights_are_named(weights: Tensor, message: str) -> None:
    for likelihood, outputs, _ in CASES.values():
        with pytest.raises(ValueError, match=f"weights: .*{message}"):
            likelihood.predictive(outputs.clone()).with_weights(weights)


def test_ood_metrics_need_the_same_weights() -> None:
    for case in ("gaussian", "categorical"):
        weighted, _, _ = both(case)
        with pytest.raises(ValueError, match="other: it has other weights"):
            weighted.ood_metrics(weighted.with_weights(None))


def test_registered_metrics_of_all_draws_must_know_weights() -> None:
    def widest(means: Tensor, targets: Tensor) -> Tensor:
        return means.std(dim=0).max()

    metrics.register("widest", None, ensemble=widest, task="regression")
    weighted, repeated, targets = both("gaussian")
    assert repeated.metrics(targets)["ensemble"]["widest"] > 0
    with pytest.raises(TypeError, match=r"metric 'widest': the draws have weights.*`weights`"):
        weighted.metrics(targets)

    def widest(means: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:  # type: ignore[no-redef]
        assert weights is not None
        return (weights.view(-1, 1, 1) * means).sum(dim=0).max()

    metrics.register("widest", None, ensemble=widest, task="regression")
    assert weighted.metrics(targets)["ensemble"]["widest"] == weighted.mean.max().item()


def test_a_predictive_class_that_knows_no_weights_says_so() -> None:
    @dataclass(frozen=True)
    class Own(Predictive):
        values: Tensor

        @property
        def samples(self) -> Tensor:
            return self.values

        @property
        def aleatoric(self) -> Tensor:
            return torch.zeros_like(self.mean)

        def metrics(self, targets: Any) -> metrics.Metrics:
            return {}

    own = Own(torch.randn(4, 5, 1))
    assert torch.equal(own.mean, own.values.mean(dim=0))
    assert own.with_weights(None) is own
    with pytest.raises(TypeError, match="weights: Own has none; make it a dataclass"):
        own.with_weights(WEIGHTS)
    with pytest.raises(TypeError, match="quantile: Own has no quantiles"):
        own.interval()
    with pytest.raises(TypeError, match="log_scores: Own"):
        own.log_scores(torch.zeros(5, 1))
