"""A metric from outside appears beside the shipped ones, in per-draw and ensemble metrics."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import dims
from dims import metrics
from draws_problems import draws_of, problem, random_inputs
from own_likelihoods import Poisson


def mean_probability(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    index = labels.expand(log_probabilities.shape[:-1]).unsqueeze(-1)
    return log_probabilities.exp().gather(-1, index).squeeze(-1).mean(dim=-1)


def absolute_error(means: Tensor, targets: Tensor) -> Tensor:
    return (targets - means).abs().mean(dim=(-2, -1))


@pytest.mark.parametrize("kind", ["one logit", "four classes"])
def test_a_classification_metric_from_outside(kind: str) -> None:
    metrics.register(
        "probability",
        mean_probability,
        task="classification",
        label="p(label)",
        higher_is_better=True,
    )
    surface, x = problem(kind)
    p, y = draws_of(surface).predict(x), torch.arange(9) % 2
    found = p.metrics(y)
    each = p.samples[:, torch.arange(9), y].mean(dim=1)
    assert found["per_sample"]["probability"] == pytest.approx(each.mean().item())
    assert found["per_sample_error"]["probability"] == pytest.approx(
        each.std().item() / math.sqrt(len(each))
    )
    mean = p.mean[torch.arange(9), y].mean().item()
    assert found["ensemble"]["probability"] == pytest.approx(mean)
    assert list(found["ensemble"])[-1] == "probability"
    assert metrics.labels()["probability"] == "p(label)"
    assert metrics.directions()["probability"] is True


def test_a_regression_metric_from_outside_serves_every_likelihood() -> None:
    metrics.register("mae", absolute_error, task="regression", higher_is_better=False)
    surface, x = problem("three outputs")
    p, y = draws_of(surface).predict(x), random_inputs(9, 3)
    each = (p.samples - y).abs().mean(dim=(1, 2))
    assert p.metrics(y)["per_sample"]["mae"] == pytest.approx(each.mean().item())
    assert p.metrics(y)["ensemble"]["mae"] == pytest.approx((p.mean - y).abs().mean().item())
    counts = Poisson().predictive(random_inputs(24, 2).view(3, 8, 2))
    y = torch.arange(16).view(8, 2) % 3
    found = counts.metrics(y)
    assert set(found["ensemble"]) == {"nll", "rmse", "mae"}
    assert found["ensemble"]["mae"] == pytest.approx((counts.mean - y).abs().mean().item())
    assert metrics.labels()["mae"] == "mae"


def test_noise_and_options_are_passed_by_name() -> None:
    def scaled(means: Tensor, targets: Tensor, noise_std: float | Tensor, level: float) -> Tensor:
        std = torch.as_tensor(noise_std).expand(targets.shape)
        return level * ((targets - means) / std).square().mean(dim=(-2, -1))

    metrics.register("scaled", scaled, task="regression")
    surface, x = problem("one output")
    p, y = draws_of(surface).predict(x), random_inputs(9, 1)
    found = p.metrics(y, level=0.5)
    each = 0.5 * ((y - p.samples) / 0.3).square().mean(dim=(1, 2))
    assert found["per_sample"]["scaled"] == pytest.approx(each.mean().item())
    # The ensemble has the moments of the mixture.
    joint = 0.5 * ((y - p.mean).square() / p.variance).mean()
    assert found["ensemble"]["scaled"] == pytest.approx(joint.item())


def test_ood_scores_from_outside() -> None:
    metrics.register(
        "auroc_aleatoric",
        None,
        ensemble=lambda log_p: -(log_p.exp() * log_p).sum(-1).mean(0),
        task="classification_ood",
    )
    metrics.register(
        "auroc_epistemic", lambda epistemic, aleatoric: epistemic.sum(-1), task="regression_ood"
    )
    surface, x = problem("four classes")
    draws = draws_of(surface)
    found = draws.predict(x).ood_metrics(draws.predict(3 * x))
    assert "auroc_aleatoric" in found["ensemble"]
    assert "auroc_aleatoric" not in found["per_sample"]
    surface, x = problem("three outputs")
    draws = draws_of(surface)
    inside, outside = draws.predict(x), draws.predict(3 * x)
    found = inside.ood_metrics(outside)
    for name, part in (("auroc_variance", "variance"), ("auroc_epistemic", "epistemic")):
        low, high = (getattr(p, part).sum(-1) for p in (inside, outside))
        pairs = (high[:, None] > low).double() + 0.5 * (high[:, None] == low).double()
        assert found["ensemble"][name] == pytest.approx(pairs.mean().item())
    assert found["per_sample"] == found["per_sample_error"] == {}


def test_ood_metrics_of_classes_are_those_of_the_metrics_module() -> None:
    surface, x = problem("four classes")
    draws = draws_of(surface)
    inside, outside = draws.predict(x), draws.predict(3 * x)
    assert isinstance(inside, dims.ClassificationPredictive)
    assert isinstance(outside, dims.ClassificationPredictive)
    expected = metrics.ood_metrics(inside.log_probabilities, outside.log_probabilities)
    assert inside.ood_metrics(outside) == expected
    other = draws_of(problem("one output")[0]).predict(x)
    for one, two in ((inside, other), (other, inside)):
        with pytest.raises(TypeError, match=r"other: expected a \w+Predictive .* same draws"):
            one.ood_metrics(two)


def test_bad_registrations_are_named() -> None:
    with pytest.raises(ValueError, match="task: 'ranking' is unknown; give one of classification"):
        metrics.register("mine", absolute_error, task="ranking")
    with pytest.raises(ValueError, match="function: 'mine' has none"):
        metrics.register("mine", None, task="regression")
    with pytest.raises(ValueError, match="name: there is a regression metric 'rmse' already"):
        metrics.register("rmse", absolute_error, task="regression")
    metrics.register("mae", absolute_error, task="regression")
    metrics.register("mae", absolute_error, task="regression", label="MAE")  # run again
    assert metrics.labels()["mae"] == "MAE"


def test_labels_and_directions_of_the_shipped_metrics() -> None:
    labels = metrics.labels()
    assert [labels[n] for n in ("accuracy", "nll", "brier_sum", "ece", "mce", "auroc")] == [
        "accuracy", "NLL", "Brier", "ECE", "MCE", "AUROC",
    ]  # fmt: skip
    assert (labels["rmse"], labels["crps"]) == ("RMSE", "CRPS")
    higher = {name for name, better in metrics.directions().items() if better}
    assert higher == {"accuracy", "auroc"} | {name for name in labels if name.startswith("auroc_")}
    assert metrics.directions()["coverage"] is None
