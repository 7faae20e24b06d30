"""A network that looks untrained is warned about once; data frames are read without a warning."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import dims


def data() -> tuple[Tensor, Tensor]:
    x = torch.linspace(-2, 2, 40, dtype=torch.float64).unsqueeze(-1)
    return x, x + 3


def line(slope: float, shift: float) -> nn.Module:
    model = nn.Linear(1, 1).double()
    nn.init.constant_(model.weight, slope)
    nn.init.constant_(model.bias, shift)
    return model.eval()


def said(model: nn.Module, y: Tensor, likelihood: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dims.fit(model, (data()[0], y), likelihood, tune=False, prior_precision=1.0, progress=False)
    return [str(w.message) for w in caught if w.category is dims.ModelWarning]


def test_a_network_worse_than_the_mean_is_warned_about() -> None:
    _, y = data()
    (text,) = said(line(0.1, 0.0), y, "regression")
    spread = float(y.var(correction=0))
    times = float((y - 0.1 * (y - 3)).square().mean()) / spread
    assert text.startswith("model: it looks untrained: on its own training rows it predicts worse")
    assert f"loss {times:.3g} times as large" in text
    for slope, shift in ((1.0, 3.0), (0.2, 3.0), (0.0, 3.0)):  # the last one answers the mean
        assert said(line(slope, shift), y, "regression") == []
    assert said(line(0.1, 0.0), y, dims.GaussianPerOutput([0.5]))
    assert not said(line(0.1, 0.0), y, dims.StudentT(4.0, 1.0))


def test_a_classifier_worse_than_the_frequencies_is_warned_about() -> None:
    x, _ = data()
    labels = (x[:, 0] > 1.5).long()
    (text,) = said(line(-1.0, 0.0), labels, "classification")
    assert "the frequencies of the classes" in text
    assert said(line(2.0, -3.0), labels, "classification") == []
    # Smoothed labels cost a good network more than their frequencies cost a constant.
    assert said(line(6.0, -9.0), labels, dims.Bernoulli(label_smoothing=0.4)) == []
    wide = nn.Linear(1, 3).double()
    nn.init.constant_(wide.weight, 0.0)
    wide.bias.data = torch.tensor([5.0, 0.0, 0.0]).double()
    assert len(said(wide.eval(), torch.arange(40) % 3, "classification")) == 1


def test_numbers_that_may_only_be_read_give_no_warning(unchecked: None) -> None:
    """Frames of pandas 3 give such arrays."""
    x, y = (part.numpy().copy() for part in data())
    x.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", dims.NotAMinimumWarning)
        posterior = dims.fit(line(1.0, 3.0), (x, y), "regression", tune=False, progress=False)
        draws = posterior.sample(2, "la", progress=False)
        np.testing.assert_allclose(draws.predict(x).mean, draws.predict(x.copy()).mean)
