from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dims_paper.datasets.snelson import load_snelson


@pytest.mark.data
def test_whole_set_agrees_with_numpy(data_root: Path) -> None:
    data = load_snelson()
    for name, tensor in (
        ("train_inputs", data.train_inputs),
        ("train_outputs", data.train_targets),
        ("test_inputs", data.test_inputs),
    ):
        expected = np.loadtxt(data_root / "snelson" / f"{name}.txt")
        np.testing.assert_array_equal(tensor.squeeze(1).numpy(), expected)
    assert data.train_inputs.shape == (200, 1)
    assert data.test_inputs.shape == (301, 1)
    assert data.gap_inputs.shape == data.gap_targets.shape == (0, 1)


@pytest.mark.data
def test_gap_moves_52_points_out_of_the_training_set() -> None:
    whole, data = load_snelson(), load_snelson(gap=(1.5, 3.0), dtype=torch.float32)
    assert data.train_inputs.shape == data.train_targets.shape == (148, 1)
    assert data.gap_inputs.shape == data.gap_targets.shape == (52, 1)
    assert ((data.gap_inputs >= 1.5) & (data.gap_inputs <= 3.0)).all()
    assert not ((data.train_inputs >= 1.5) & (data.train_inputs <= 3.0)).any()
    assert data.train_inputs.dtype is torch.float32
    together = torch.cat([data.train_targets, data.gap_targets]).squeeze(1).sort().values
    torch.testing.assert_close(together, whole.train_targets.squeeze(1).float().sort().values)


def test_bad_gap_is_named() -> None:
    with pytest.raises(ValueError, match="gap must be"):
        load_snelson(gap=(3.0, 1.5))
    with pytest.raises(ValueError, match="gap must be"):
        load_snelson(gap=(float("nan"), 1.5))
