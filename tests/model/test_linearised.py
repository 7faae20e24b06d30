"""The network linearised at θ*, by products, against a dense Jacobian."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dims
from draws_problems import KINDS, draws_of, problem


def dense_linearisation(draws: dims.Draws, x: Tensor) -> Tensor:
    surface, centre = draws.surface, draws.map_parameters

    def outputs(theta: Tensor) -> Tensor:
        return surface.network(surface.vector.unflatten(theta), x)

    jacobian = torch.autograd.functional.jacobian(outputs, centre)
    steps = draws.parameters - centre
    return outputs(centre) + torch.einsum("nck,sk->snc", jacobian, steps)


@pytest.mark.parametrize("kind", KINDS)
def test_the_linearised_network_agrees_with_a_dense_jacobian(kind: str) -> None:
    surface, x = problem(kind)
    draws = draws_of(surface, "linla", scale=3.0)
    expected = surface.likelihood.predictive(dense_linearisation(draws, x))
    p = draws.predict(x)
    torch.testing.assert_close(p.samples, expected.samples, rtol=1e-10, atol=1e-12)
    bent = draws_of(surface, "la", scale=3.0).predict(x)
    assert (bent.samples - p.samples).abs().max() > 1e-2


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x).mean(1))


@pytest.mark.parametrize("network", ["convolution", "attention"])
def test_layers_of_all_kinds_are_linearised(network: str) -> None:
    torch.manual_seed(1)
    if network == "attention":
        model, x = Attention(), torch.randn(6, 3, 4, dtype=torch.float64)
    else:
        model = nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(),
            nn.LayerNorm(8), nn.Linear(8, 2),
        )  # fmt: skip
        x = torch.randn(6, 1, 6, 6, dtype=torch.float64)
    model = model.double().eval()
    surface = dims.LossSurface(model, (x, torch.arange(6) % 2), "classification")
    draws = draws_of(surface, "linla", rows=3)
    expected = dense_linearisation(draws, x).softmax(-1)
    torch.testing.assert_close(draws.predict(x).samples, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("structure", ["full", "kronecker", "diagonal"])
def test_the_predictive_is_the_glm_predictive_of_laplace_torch(structure: str) -> None:
    """Its mean and covariance of f at new inputs are closed forms; ours come from draws."""
    laplace = pytest.importorskip("laplace")
    torch.manual_seed(0)
    inputs = torch.rand(25, 1, dtype=torch.float64) * 4 - 2
    targets = torch.cat([inputs.sin(), inputs.cos()], dim=1)
    model = nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    theirs = laplace.Laplace(
        model,
        "regression",
        subset_of_weights="all",
        hessian_structure={"full": "full", "kronecker": "kron", "diagonal": "diag"}[structure],
        prior_precision=0.5,
        sigma_noise=0.3,
    )
    theirs.fit(DataLoader(TensorDataset(inputs, targets), batch_size=25))
    x = torch.linspace(-3, 3, 7, dtype=torch.float64).unsqueeze(-1)
    mean, covariance = theirs(x)

    with pytest.warns(dims.NotAMinimumWarning):
        posterior = dims.fit(
            model,
            (inputs, targets),
            "regression",
            curvature=structure,
            tune=False,
            prior_precision=0.5,
            noise_std=0.3,
        )
    size = 4000
    samples = posterior.sample(size, method="linla", seed=1, progress=False).predict(x).samples
    spread = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    # Five standard errors of a mean, and of a standard deviation.
    assert ((samples.mean(0) - mean).abs() < 5 * spread / size**0.5).all()
    assert ((samples.std(0) / spread - 1).abs() < 5 / (2 * size) ** 0.5).all()
    between = torch.stack([torch.cov(samples[:, i].T)[0, 1] for i in range(len(x))])
    unit = spread[:, 0] * spread[:, 1]
    assert ((between - covariance[:, 0, 1]).abs() < 5 * unit * (2 / size) ** 0.5).all()
