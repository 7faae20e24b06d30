"""What must hold for any predictive: invariances, ranges and inequalities."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from metrics_problems import (
    counted_auroc,
    random_classification,
    random_regression,
)

from cases import examples
from dims import metrics

quick = settings(max_examples=examples(40), deadline=None)
seeds = st.integers(0, 10_000)
scales = st.sampled_from([0.1, 1.0, 5.0, 100.0])


@quick
@given(seed=seeds, classes=st.integers(2, 6), scale=scales)
def test_the_order_of_inputs_does_not_matter(seed: int, classes: int, scale: float) -> None:
    log_p, labels = random_classification(3, 25, classes, seed=seed, scale=scale)
    order = torch.randperm(25, generator=torch.Generator().manual_seed(seed))
    result = metrics.classification_metrics(log_p, labels)
    moved = metrics.classification_metrics(log_p[:, order], labels[order])
    for reading, values in result.items():
        assert moved[reading] == pytest.approx(values, abs=1e-9), reading


@quick
@given(seed=seeds, classes=st.integers(2, 6), scale=st.sampled_from([0.1, 1.0, 5.0]))
def test_the_order_of_classes_and_draws_does_not_matter(
    seed: int, classes: int, scale: float
) -> None:
    # Scales without saturation: saturated draws that disagree tie, and argmax breaks ties.
    log_p, labels = random_classification(3, 25, classes, seed=seed, scale=scale)
    generator = torch.Generator().manual_seed(seed)
    names, draws = torch.randperm(classes, generator=generator), torch.tensor([2, 0, 1])
    result = metrics.classification_metrics(log_p, labels)
    moved = metrics.classification_metrics(log_p[draws][..., names], names.argsort()[labels])
    for reading, values in result.items():
        assert moved[reading] == pytest.approx(values, abs=1e-9), reading


@quick
@given(seed=seeds, classes=st.integers(2, 6), scale=scales, bins=st.integers(1, 20))
def test_ranges_and_inequalities(seed: int, classes: int, scale: float, bins: int) -> None:
    log_p, labels = random_classification(4, 25, classes, seed=seed, scale=scale)
    result = metrics.classification_metrics(log_p, labels, bins)
    one, all_ = result["per_sample"], result["ensemble"]
    upper = {"nll": math.inf, "brier_sum": 2.0, "brier_mean": 2.0 / classes}
    for name, value in [*one.items(), *all_.items()]:
        assert 0 <= value <= upper.get(name, 1.0) + 1e-12, name
    # Jensen: proper scores are convex in p, so averaging cannot hurt.
    assert all_["nll"] <= one["nll"] + 1e-9
    assert all_["brier_sum"] <= one["brier_sum"] + 1e-9
    confidence = metrics.maximum_probability(metrics.ensemble_log_probabilities(log_p)).mean()
    assert abs(all_["accuracy"] - confidence.item()) <= all_["ece"] + 1e-9
    assert all_["ece"] <= all_["mce"] + 1e-9
    information = metrics.mutual_information(log_p)
    assert information.min() >= 0
    assert information.max() <= math.log(min(4, classes)) + 1e-9


@quick
@given(seed=seeds, factor=st.floats(0.01, 100.0), shift=st.floats(-10, 10), noise=st.floats(0.1, 3))
def test_regression_scales_with_its_units(
    seed: int, factor: float, shift: float, noise: float
) -> None:
    means, targets = random_regression(4, 12, seed=seed)
    result = metrics.regression_metrics(means, targets, noise)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(seed))
    other = metrics.regression_metrics(
        factor * means[:, order] + shift, factor * targets[order] + shift, factor * noise
    )
    for reading in ("per_sample", "ensemble"):
        a, b = result[reading], other[reading]
        assert b["rmse"] == pytest.approx(factor * a["rmse"], rel=1e-9)
        assert b["crps"] == pytest.approx(factor * a["crps"], rel=1e-9)
        assert b["nll"] == pytest.approx(a["nll"] + math.log(factor), rel=1e-9, abs=1e-9)
        assert 0 <= a["coverage"] <= 1
        assert a["crps"] >= 0
    for name in ("nll", "rmse", "crps"):
        assert result["ensemble"][name] <= result["per_sample"][name] + 1e-9


@quick
@given(
    low=st.lists(st.integers(0, 5), min_size=1, max_size=15),
    high=st.lists(st.integers(0, 5), min_size=1, max_size=15),
)
def test_auroc_is_a_count_of_pairs(low: list[int], high: list[int]) -> None:
    expected = counted_auroc(np.array(low), np.array(high))
    a, b = torch.tensor(low).double(), torch.tensor(high).double()
    assert metrics.ood_auroc(a, b).item() == pytest.approx(expected, abs=1e-12)
    assert metrics.ood_auroc(-a, -b).item() == pytest.approx(1 - expected, abs=1e-12)
