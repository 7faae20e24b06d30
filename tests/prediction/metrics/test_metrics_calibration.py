"""Calibration errors against netcal and hand-made bins."""

from __future__ import annotations

import pytest
import torch
from metrics_problems import (
    random_classification,
)
from netcal.metrics import ECE, MCE

from dims import metrics


@pytest.mark.parametrize("bins", [1, 5, 10, 15])
@pytest.mark.parametrize("scale", [0.3, 3.0, 60.0])
def test_calibration_agrees_with_netcal_up_to_saturation(bins: int, scale: float) -> None:
    log_p, labels = random_classification(500, 4, seed=bins, scale=scale)
    confidence = log_p.exp().amax(dim=-1).numpy()
    correct = (log_p.argmax(dim=-1) == labels).numpy().astype(int)
    if scale == 60.0:
        assert (confidence == 1.0).sum() > 50
        assert 0 < correct[confidence == 1.0].mean() < 1
    ece = metrics.expected_calibration_error(log_p, labels, bins).item()
    mce = metrics.maximum_calibration_error(log_p, labels, bins).item()
    assert ece == pytest.approx(ECE(bins).measure(confidence, correct), abs=1e-12)
    assert mce == pytest.approx(MCE(bins).measure(confidence, correct), abs=1e-12)


@pytest.mark.parametrize("bins", [1, 2, 7, 10, 100])
def test_an_edge_belongs_to_the_bin_below_and_zero_to_the_first(bins: int) -> None:
    edges = torch.arange(bins + 1, dtype=torch.float64) / bins
    for confidence in (edges, edges.log().exp()):
        binned = metrics.calibration_bins(confidence, edges > 0.5, bins)
        assert binned.inputs.tolist() == [2] + [1] * (bins - 1)
        expected = edges[1:].clone()
        expected[0] /= 2
        torch.testing.assert_close(binned.confidence, expected)
    above = metrics.calibration_bins((edges + 1e-9).clamp(max=1.0), edges > 0.5, bins)
    assert above.inputs.tolist() == [1] * (bins - 1) + [2]


def test_full_confidence_shares_the_last_bin() -> None:
    # (0.9, 1]: confidences 0.92 and 1, half right: |0.5 − 0.96|. (0.5, 0.6]: 0.6 and right.
    p = torch.tensor([[0.92, 0.08], [1.0, 0.0], [0.4, 0.6]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 1])
    ece = metrics.expected_calibration_error(p.log(), labels)
    mce = metrics.maximum_calibration_error(p.log(), labels)
    assert ece.item() == pytest.approx((2 * 0.46 + 0.4) / 3)
    assert mce.item() == pytest.approx(0.46)
    empty = metrics.calibration_bins(p.amax(dim=-1), torch.tensor([True, False, True])).accuracy
    assert empty.isnan().sum() == 8


def test_rounding_above_one_is_full_confidence() -> None:
    # A float32 log-softmax may exceed 0 by a rounding.
    above = torch.tensor([[6e-8, -30.0], [6e-8, -30.0]])
    ece = metrics.expected_calibration_error(above, torch.tensor([0, 1]))
    assert ece.item() == pytest.approx(0.5, abs=1e-6)


def test_a_histogram_has_the_shares_of_the_bins() -> None:
    confidence = torch.tensor([0.1, 0.95, 1.0, 0.9501, 0.0], dtype=torch.float64)
    found = metrics.confidence_histogram(confidence)
    expected = torch.zeros(20, dtype=torch.float64)
    expected[[0, 1, 18, 19]] = torch.tensor([0.2, 0.2, 0.2, 0.4], dtype=torch.float64)
    torch.testing.assert_close(found, expected)  # 0.1 and 0.95 are the upper edges of their bins
    both = metrics.confidence_histogram(torch.stack([confidence, confidence.flip(0)]), 4)
    assert both.tolist() == [[0.4, 0.0, 0.0, 0.6]] * 2
    with pytest.raises(ValueError, match="is empty"):
        metrics.confidence_histogram(torch.empty(0))
