"""Stacking against a convex optimiser, the conditions of optimality and known mixtures."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor

import dims
from dims.prediction.stacking import cross_validated_scores, stack


def random_scores(rows: int, components: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 1.5 * torch.randn(rows, components, generator=generator, dtype=torch.float64)


def objective(log_p: Tensor, weights: Tensor, pseudo_count: float | list[float]) -> float:
    counts = torch.tensor(pseudo_count).double().expand(len(weights))
    prior = torch.special.xlogy(counts, weights).sum()
    return float((log_p.exp() @ weights).log().sum() + prior)


@pytest.mark.parametrize("pseudo_count", [0.0, 0.3, 1.0, 20.0])
@pytest.mark.parametrize("components", [1, 2, 6])
def test_the_optimum_is_that_of_scipy(components: int, pseudo_count: float) -> None:
    log_p = random_scores(40, components, seed=components)
    found = stack(log_p, pseudo_count=pseudo_count)
    best = scipy.optimize.minimize(
        lambda z: -objective(log_p, torch.tensor(z).softmax(0), pseudo_count),
        np.zeros(components),
        tol=1e-12,
    )
    reached = objective(log_p, found.weights, pseudo_count)
    assert reached >= -best.fun - 40e-7
    assert -best.fun <= reached + found.gap + 1e-9  # the bound holds
    assert found.weights.sum().item() == pytest.approx(1)
    expected = torch.tensor(best.x).softmax(0).tolist()
    assert found.weights.tolist() == pytest.approx(expected, abs=3e-3)


@pytest.mark.parametrize("counts", [[3.0, 1.0, 3.0], [0.0, 4.0, 0.5]])
def test_each_group_may_have_a_pseudo_count_of_its_own(counts: list[float]) -> None:
    log_p = random_scores(25, 3, seed=7)
    found = stack(log_p, pseudo_count=counts)
    best = scipy.optimize.minimize(
        lambda z: -objective(log_p, torch.tensor(z).softmax(0), counts), np.zeros(3), tol=1e-12
    )
    reached = objective(log_p, found.weights, counts)
    assert reached >= -best.fun - 25e-7
    assert -best.fun <= reached + found.gap + 1e-9
    assert found.weights.tolist() == pytest.approx(torch.tensor(best.x).softmax(0), abs=3e-3)


def test_rows_that_say_nothing_leave_the_shares_of_the_pseudo_counts() -> None:
    found = stack(torch.zeros(8, 4), ["a", "b", "b", "c"], pseudo_count=[3.0, 1.0, 4.0])
    assert found.group_weights == pytest.approx({"a": 3 / 8, "b": 1 / 8, "c": 4 / 8}, abs=1e-6)


def test_the_conditions_of_optimality_hold() -> None:
    """Σₙ p_g/p̄ = N for groups in use, and no more for those that are not."""
    log_p = random_scores(60, 5)
    log_p[:, 3] -= 4.0  # worse than the others everywhere
    found = stack(log_p, pseudo_count=0.0)
    ratio = (log_p.exp() / (log_p.exp() @ found.weights).unsqueeze(1)).sum(dim=0)
    assert found.weights[3] < 1e-3
    assert ratio[3] < 60
    assert (ratio <= 60 * (1 + 1e-6)).all()
    used = found.weights > 0.05
    assert used.sum() >= 2
    torch.testing.assert_close(ratio[used], torch.full_like(ratio[used], 60), rtol=1e-4, atol=0)


@pytest.mark.parametrize("pseudo_count", [0.0, 1.0])
def test_em_goes_uphill(pseudo_count: float, monkeypatch: pytest.MonkeyPatch) -> None:
    log_p = random_scores(30, 4)
    reached = []
    for steps in range(1, 30):
        monkeypatch.setattr("dims.prediction.stacking.MOST_STEPS", steps)
        weights = stack(log_p, pseudo_count=pseudo_count).weights
        reached.append(objective(log_p, weights, pseudo_count))
    assert all(later >= earlier for earlier, later in pairwise(reached))
    assert reached[-1] > reached[0]


def test_duplicates_share_their_weight() -> None:
    log_p = random_scores(50, 3)
    alone = stack(log_p, pseudo_count=0.0)
    twice = stack(torch.cat([log_p, log_p[:, :1]], dim=1), pseudo_count=0.0)
    assert twice.weights[0] == twice.weights[3]
    assert (twice.weights[0] + twice.weights[3]).item() == pytest.approx(
        alone.weights[0].item(), abs=2e-3
    )
    torch.testing.assert_close(twice.log_scores, alone.log_scores, rtol=0, atol=1e-3)


def test_a_known_mixture_is_recovered() -> None:
    generator = torch.Generator().manual_seed(0)
    true = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    means = torch.tensor([-2.0, 0.0, 3.0], dtype=torch.float64)
    chosen = torch.multinomial(true, 20_000, replacement=True, generator=generator)
    y = means[chosen] + torch.randn(20_000, generator=generator, dtype=torch.float64)
    log_p = torch.distributions.Normal(means, 1.0).log_prob(y.unsqueeze(1))
    found = stack(log_p)
    # Standard errors are at most √(w(1 − w)/N) / (what labels would tell) ≈ 0.005.
    assert found.weights.tolist() == pytest.approx(true.tolist(), abs=0.02)
    gain = found.gain()
    assert gain.mean > 5 * gain.standard_error > 0


def test_groups_share_their_weight() -> None:
    log_p = random_scores(40, 6)
    groups = ["network", 3.0, 3.0, 10.0, 3.0, 10.0]
    found = stack(log_p, groups)
    density = log_p.exp()
    merged = torch.stack(
        [density[:, 0], density[:, [1, 2, 4]].mean(1), density[:, [3, 5]].mean(1)], dim=1
    ).log()
    apart = stack(merged)
    assert [*found.group_weights] == ["network", 3.0, 10.0]
    assert [*found.group_weights.values()] == pytest.approx(apart.weights.tolist(), rel=1e-9)
    each = apart.weights / torch.tensor([1.0, 3.0, 2.0])
    assert found.weights.tolist() == pytest.approx(each[[0, 1, 1, 2, 1, 2]].tolist())
    torch.testing.assert_close(found.log_scores, (density @ found.weights).log())
    torch.testing.assert_close(found.equal_scores, density.mean(1).log())
    torch.testing.assert_close(found.group_scores["network"], log_p[:, 0])


def test_gains_are_means_over_rows() -> None:
    log_p = random_scores(40, 3)
    found = stack(log_p, ["network", "draws", "draws"])
    for over, other in (("network", log_p[:, 0]), (None, log_p.exp().mean(1).log())):
        rows = (log_p.exp() @ found.weights).log() - other
        gain = found.gain(over)
        assert gain.mean == pytest.approx(rows.mean().item())
        assert gain.standard_error == pytest.approx(rows.std().item() / math.sqrt(40))
    with pytest.raises(KeyError, match=r"no group 'swag'.*'network', 'draws'"):
        found.gain("swag")
    assert math.isnan(stack(log_p[:1]).gain().standard_error)


def test_a_pseudo_count_pulls_to_equal_weights() -> None:
    log_p = random_scores(20, 4)
    log_p[:, 0] += 3
    spread = [float(stack(log_p, pseudo_count=a).weights.std()) for a in (0.0, 1.0, 10.0, 1e6)]
    assert sorted(spread, reverse=True) == spread
    assert spread[-1] == pytest.approx(0.0, abs=1e-4)
    # One row per group and one observed row: (1 + 1)/(1 + G) for what explains it alone.
    alone = torch.tensor([[0.0, -math.inf, -math.inf]])
    assert stack(alone).weights.tolist() == pytest.approx([0.5, 0.25, 0.25])


def test_small_densities_do_not_underflow() -> None:
    log_p = random_scores(30, 3)
    far = log_p - 5000 * torch.arange(1, 31).unsqueeze(1)
    torch.testing.assert_close(stack(far).weights, stack(log_p).weights)
    assert stack(far).log_scores.isfinite().all()


def test_cross_validated_scores_are_those_of_other_rows() -> None:
    log_p = random_scores(23, 4)
    groups = ["network", "draws", "draws", "more"]
    honest = cross_validated_scores(log_p, groups, folds=5)
    for row in (0, 7, 22):
        others = [n for n in range(23) if n % 5 != row % 5]
        weights = stack(log_p[others], groups).weights
        assert honest[row].item() == pytest.approx((log_p[row].exp() @ weights).log().item())
    # Where all components are alike but for noise, weights chosen on the same rows look better.
    found = stack(log_p, groups)
    assert honest.mean() < found.log_scores.mean()
    with pytest.raises(ValueError, match="folds: must lie between 2 and 23 rows, got 24"):
        cross_validated_scores(log_p, folds=24)


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        (torch.zeros(5), {}, r"log_scores: expected shape \(rows, components\), got \(5,\)"),
        (torch.zeros(0, 2), {}, "log_scores: expected shape"),
        (torch.tensor([[0.0, torch.nan]]), {}, "log_scores: contain NaN"),
        (torch.tensor([[0.0, 1.0], [-torch.inf, -torch.inf]]), {}, r"rows \[1\] have no density"),
        (torch.zeros(3, 2), {"groups": ["network"]}, "groups: 1 labels for 2 components"),
        (torch.zeros(3, 2), {"pseudo_count": -1.0}, "pseudo_count: must be finite and not neg"),
        (torch.zeros(3, 2), {"pseudo_count": [1.0, 1.0, 1.0]}, "one for each of 2 groups"),
    ],
)
def test_bad_scores_are_named(scores: Tensor, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stack(scores, **options)


def test_weights_of_predictives_improve_their_score() -> None:
    """From predictives to weights and back: the NLL of the weighted mixture is the log score."""
    generator = torch.Generator().manual_seed(2)
    y = torch.randn(200, 1, generator=generator, dtype=torch.float64)
    outputs = torch.randn(6, 1, 1, generator=generator, dtype=torch.float64).expand(6, 200, 1)
    p = dims.Gaussian(0.9).predictive(outputs)
    found = stack(p.log_scores(y).T)
    weighted = p.with_weights(found.weights).metrics(y)["ensemble"]["nll"]
    assert weighted == pytest.approx(-found.log_scores.mean().item())
    assert weighted < p.metrics(y)["ensemble"]["nll"]
    gain = p.metrics(y)["ensemble"]["nll"] - weighted
    assert found.gain().mean == pytest.approx(gain)
