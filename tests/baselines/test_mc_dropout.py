"""MC dropout: closed forms for linear networks, and torch's own dropout in distribution."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from baseline_problems import class_data, network, randn, regression_data, untouched
from torch import Tensor, nn

import dims
from dims.baselines import mc_dropout


def seeded(*layers: nn.Module, seed: int = 0) -> nn.Sequential:
    """The layers in float64 and eval mode, with weights of a seed."""
    model = nn.Sequential(*layers).double().eval()
    for number, parameter in enumerate(model.parameters()):
        parameter.data = 0.5 * randn(*parameter.shape, seed=100 * seed + number)
    return model


def by_torch(model: nn.Module, point: Tensor, count: int) -> Tensor:
    """Outputs of torch's dropout at one point; every copy of it has a mask of its own."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        outputs = model.train()(point.expand(count, *point.shape[1:]))
    model.eval()
    return outputs


def test_a_linear_network_has_the_moments_of_the_closed_form() -> None:
    x, y = regression_data()
    model = seeded(nn.Dropout(0.3), nn.Linear(3, 1))
    draws = mc_dropout(model, (x, y), "regression", 20_000, noise_std=0.5)
    outputs = draws.predict(x).samples[..., 0]
    weight, bias = model[1].weight[0].detach(), model[1].bias.detach()
    mean = x @ weight + bias
    variance = (x * weight).square().sum(1) * 0.3 / 0.7
    assert float(((outputs.mean(0) - mean) / (variance / 20_000).sqrt()).abs().max()) < 5
    # The fourth moment of a mask of three units is below that of a Gaussian times two.
    error = (outputs.var(0) / variance - 1).abs().max()
    assert float(error) < 5 * (2 * 3 / 20_000) ** 0.5


def test_every_mask_comes_as_often_as_its_probability() -> None:
    x, y = regression_data()
    model = seeded(nn.Dropout(0.3), nn.Linear(3, 1))
    draws = mc_dropout(model, (x, y), "regression", 20_000)
    factors = draws.parameters[:, :3] / model[1].weight.detach()
    assert torch.equal(draws.parameters[:, 3:], model[1].bias.detach().expand(20_000, 1))
    for mask in product([0.0, 1.0], repeat=3):
        wanted = torch.tensor(mask, dtype=torch.float64) / 0.7
        share = float(torch.isclose(factors, wanted).all(1).double().mean())
        kept = sum(mask)
        probability = 0.7**kept * 0.3 ** (3 - kept)
        assert abs(share - probability) < 5 * (probability / 20_000) ** 0.5


class Shared(nn.Module):
    """One dropout layer in two places, and a linear layer before it that is followed by tanh."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 6), nn.Linear(6, 6)
        self.out, self.drop = nn.Linear(6, 2), nn.Dropout(0.4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.drop(torch.tanh(self.first(x)))
        return self.out(torch.tanh(self.drop(self.second(hidden))))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Dropout2d(0.3), nn.Conv2d(4, 3, 2), nn.Dropout2d(0.2),
        nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(3, 5), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(5, 2),
    )  # fmt: skip


def flattened() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.Dropout(0.3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2)
    )


@pytest.mark.parametrize("make", [Shared, images, flattened])
def test_outputs_are_distributed_as_those_of_torchs_dropout(make: Any) -> None:
    model = seeded(make())
    shape = (3,) if make is Shared else (1, 6, 6)
    x, y = randn(12, *shape), randn(12, 2, seed=1)
    with untouched(model):
        draws = mc_dropout(model, (x, y), "regression", 4000)
    assert torch.equal(draws.map_parameters, draws.surface.initial)
    found = draws.predict(x[:1]).samples[:, 0]
    expected = by_torch(model, x[:1], 4000)
    for output in range(2):
        ours, theirs = found[:, output].sort().values, expected[:, output].sort().values
        both = torch.cat([ours, theirs])
        steps = [torch.searchsorted(part, both, right=True) / 4000 for part in (ours, theirs)]
        # Kolmogorov and Smirnov: above this with a probability of 1e-6.
        assert float((steps[0] - steps[1]).abs().max()) < 2.7 * (2 / 4000) ** 0.5
    # Outputs covary as torch's do: the masks of a draw belong together.
    spread = expected.std(0)
    ratio = (found / spread).T.cov() - (expected / spread).T.cov()
    assert float(ratio.abs().max()) < 0.2


def test_a_draw_is_the_network_with_its_mask() -> None:
    """Every factor is 0 or 1/(1 − p), and the same for all weights of a unit."""
    model = seeded(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 2))
    x, y = regression_data(2)
    draws = mc_dropout(model, (x, y), "regression", 50)
    tensors = draws.surface.vector.unflatten(draws.parameters)
    factors = (tensors["3.weight"] / model[3].weight.detach())[:, 0]
    near = torch.isclose(factors, torch.tensor(1 / 0.75, dtype=torch.float64))
    assert (near | (factors == 0)).all()
    with torch.no_grad():
        hidden = model[1](model[0](x)) * factors[:, None]
        expected = hidden @ model[3].weight.T + model[3].bias
    torch.testing.assert_close(draws.predict(x).samples, expected)
    rms = (expected - y).square().mean().sqrt()
    assert draws.surface.likelihood.noise_std == pytest.approx(float(rms))
    assert draws.settings == {"dropout": {"2 (0)": 0.25}}


def test_draws_depend_on_seed_and_number_and_are_saved(tmp_path: Path) -> None:
    model = seeded(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    few = mc_dropout(model, class_data(), "classification", 4, seed=2)
    many = mc_dropout(model, class_data(), "classification", 9, seed=2)
    other = mc_dropout(model, class_data(), "classification", 4, seed=3)
    assert torch.equal(few.parameters, many.parameters[:4])
    assert not torch.equal(few.parameters, other.parameters)
    few.save(tmp_path / "masks.safetensors")
    loaded = dims.load(tmp_path / "masks.safetensors", model=model)
    x = randn(5, 3)
    assert torch.equal(loaded.predict(x).samples, few.predict(x).samples)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.drop = nn.Linear(3, 1), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.drop(x).sum(-1, keepdim=True)


def frozen() -> nn.Module:
    model = seeded(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 1))
    model[3].requires_grad_(False)
    return model


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (network(), r"no nn\.Dropout"),
        (seeded(nn.Dropout(0.0), nn.Linear(3, 1)), r"no nn\.Dropout"),
        (Residual().double().eval(), "'drop'.*cannot be written"),
        (frozen(), "'2'.*trainable weights"),
        (seeded(nn.Linear(3, 2), nn.AlphaDropout(0.1), nn.Linear(2, 1)), "AlphaDropout"),
        (seeded(nn.Dropout(0.1), nn.Linear(3, 1)).train(), "eval"),
    ],
)
def test_masks_that_no_weights_can_take_are_refused(model: nn.Module, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        mc_dropout(model, regression_data(), "regression", 3)


def test_masks_of_single_pixels_before_a_convolution_are_refused() -> None:
    model = seeded(nn.Dropout(0.1), nn.Conv2d(1, 1, 6), nn.Flatten())
    with pytest.raises(ValueError, match=r"on \(1, 6, 6\).*nn.Dropout2d"):
        mc_dropout(model, (randn(5, 1, 6, 6), randn(5, 1)), "regression", 3)
