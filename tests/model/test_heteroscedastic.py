"""The heteroscedastic Gaussian: torch's own loss, derivatives, evidence, training and files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor, nn

import dims
from cases import first
from dims.model.likelihoods.base import second_derivative
from dims.model.training import Training, perceptron, train

LIKELIHOOD = dims.HeteroscedasticGaussian(1e-2)


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("width", [1, 3])
def test_the_loss_is_that_of_torch(width: int) -> None:
    outputs, targets = 3 * random(4, 7, 2 * width), random(7, width, seed=1)
    mean, raw = outputs[..., :width], outputs[..., width:]
    std = 1e-2 + (1 + (math.e - 1) * raw.exp()).log()
    loss = nn.GaussianNLLLoss(full=True, eps=1e-300, reduction="none")
    expected = loss(mean, targets.expand(mean.shape), std.square()).sum(-1)
    found = LIKELIHOOD.negative_log(outputs, targets) + LIKELIHOOD.constant(2 * width)
    torch.testing.assert_close(found, expected)
    density = torch.distributions.Normal(mean, std).log_prob(targets).sum(-1)
    torch.testing.assert_close(found, -density)
    torch.testing.assert_close(LIKELIHOOD.predictive(outputs).log_scores(targets), density)


def test_a_factor_multiplies_every_noise() -> None:
    outputs, targets = random(4, 7, 2), random(7, 1, seed=1)
    wider = dims.HeteroscedasticGaussian(1e-2, noise_factor=2.5)
    mean, std = LIKELIHOOD.moments(outputs)
    density = torch.distributions.Normal(mean, 2.5 * std).log_prob(targets).sum(-1)
    torch.testing.assert_close(wider.predictive(outputs).log_scores(targets), density)
    found = wider.negative_log(outputs, targets) + wider.constant(2)
    torch.testing.assert_close(found, -density)
    # E[∂²(−log p)/∂s²] = 2·(∂log σ/∂s)², whatever the factor.
    torch.testing.assert_close(
        wider.output_hessian(outputs)[..., 1, 1], LIKELIHOOD.output_hessian(outputs)[..., 1, 1]
    )
    torch.testing.assert_close(wider.output_hessian(outputs)[..., 0, 0], (2.5 * std[..., 0]) ** -2)


def test_outputs_of_zero_are_a_standard_normal() -> None:
    mean, std = dims.HeteroscedasticGaussian(1e-9).moments(torch.zeros(2, 2).double())
    assert mean.tolist() == [[0.0], [0.0]]
    assert std.view(-1).tolist() == pytest.approx([1.0, 1.0])
    low, high = LIKELIHOOD.moments(torch.tensor([[0.0, -1e4], [0.0, 1e4]]))[1].view(-1).tolist()
    assert low == pytest.approx(1e-2)
    assert high == pytest.approx(1e4, rel=1e-3)  # it grows like its output, not exponentially


def test_derivatives_are_those_of_the_value() -> None:
    outputs, targets = random(5, 4).requires_grad_(), random(5, 2, seed=1)
    assert torch.autograd.gradcheck(lambda f: LIKELIHOOD.negative_log(f, targets), outputs)
    assert torch.autograd.gradgradcheck(lambda f: LIKELIHOOD.negative_log(f, targets), outputs)


def test_the_weight_of_the_ggn_is_positive_where_the_hessian_is_not() -> None:
    """At a target that the mean meets, −log p is concave in s; its expectation is not."""
    outputs = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    at_mean = second_derivative(lambda f: LIKELIHOOD.negative_log(f, f[:, :1].detach()), outputs)
    assert at_mean[0, 1, 1] < 0
    expected = LIKELIHOOD.output_hessian(outputs)
    assert torch.linalg.eigvalsh(expected).min() > 0
    # E[∂²] by Gauss–Hermite quadrature, exact for the two moments that enter.
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    mean, std = LIKELIHOOD.moments(outputs)
    terms = [
        weight / math.sqrt(2 * math.pi) * second_derivative(
            lambda f, y=mean + std * node: LIKELIHOOD.negative_log(f, y), outputs
        )
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True)
    ]  # fmt: skip
    torch.testing.assert_close(expected, sum(terms))


def test_moments_and_intervals_are_those_of_the_mixture() -> None:
    outputs = random(6, 5, 2)
    p = LIKELIHOOD.predictive(outputs)
    mean, std = LIKELIHOOD.moments(outputs)
    assert torch.equal(p.samples, mean)
    torch.testing.assert_close(p.aleatoric, std.square().mean(0))
    torch.testing.assert_close(p.epistemic, mean.var(0, correction=0))
    low, high = p.interval(0.9)
    for end, level in ((low, 0.05), (high, 0.95)):
        shares = scipy.stats.norm.cdf(end.numpy(), mean.numpy(), std.numpy()).mean(axis=0)
        np.testing.assert_allclose(shares, level, atol=1e-12)


def test_wrong_outputs_and_targets_are_named() -> None:
    x = random(6, 2)
    with pytest.raises(ValueError, match=r"two outputs for each target.*the model gives 3"):
        dims.LossSurface(nn.Linear(2, 3).double(), (x, x), LIKELIHOOD)
    with pytest.raises(ValueError, match=r"targets: shape \(6, 2\) does not match"):
        dims.LossSurface(nn.Linear(2, 2).double(), (x, x), LIKELIHOOD)
    with pytest.raises(ValueError, match="min_noise_std: must be positive and finite, got 0"):
        dims.HeteroscedasticGaussian(0.0)
    with pytest.raises(ValueError, match="noise_factor: must be positive and finite, got -1"):
        dims.HeteroscedasticGaussian(noise_factor=-1.0)
    with pytest.raises(ValueError, match="noise_std: 'heteroscedastic_gaussian' has no noise"):
        dims.fit(nn.Linear(2, 2).double(), (x, x[:, 0]), LIKELIHOOD, noise_std=0.1, tune=True)


def two_levels(points: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """x, y and σ(x): 0.1 on the left, 0.8 on the right."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(points, 1, generator=generator, dtype=torch.float64) * 2 - 1
    std = torch.where(x < 0, 0.1, 0.8).double()
    return x, torch.sin(2 * x) + std * torch.randn(points, 1, generator=generator).double(), std


def trained(x: Tensor, y: Tensor, likelihood: dims.Likelihood, outputs: int) -> nn.Module:
    model = perceptron([1, 20, outputs], nn.Tanh, generator=torch.Generator().manual_seed(0))
    return train(
        model,
        x,
        y,
        lambda f, t: likelihood.negative_log(f, t).mean(),
        Training(400, learning_rate=0.02, weight_decay=1e-4),
        seed=0,
    )


def test_training_finds_noise_that_depends_on_the_input() -> None:
    x, y, _ = two_levels(600)
    new_x, new_y, std = two_levels(2000, seed=1)
    likelihood = dims.HeteroscedasticGaussian()
    with torch.no_grad():
        outputs = trained(x, y, likelihood, 2)(new_x).unsqueeze(0)
    found = likelihood.predictive(outputs)
    away = (new_x.abs() > 0.2).view(-1)
    ratio = (found.aleatoric.sqrt() / std)[away].log().abs()
    assert ratio.mean() < 0.15
    # It beats the best noise that is the same everywhere, and covers on both sides.
    alone = dims.Gaussian(float((new_y - torch.sin(2 * new_x)).std()))
    same = alone.predictive(torch.sin(2 * new_x).unsqueeze(0)).metrics(new_y)["ensemble"]["nll"]
    assert found.metrics(new_y)["ensemble"]["nll"] < same - 0.3
    low, high = found.interval(0.9)
    inside = ((low <= new_y) & (new_y <= high)).double()
    for side in (new_x < -0.2, new_x > 0.2):
        assert inside[side].mean().item() == pytest.approx(0.9, abs=0.06)


def test_the_evidence_agrees_with_quadrature() -> None:
    """A network of two numbers, μ and s: ∫ p(y|μ, s) N(μ, s | 0, 1) on a grid."""
    y = 0.5 + 0.7 * random(150, 1)
    model = nn.Linear(1, 2, bias=False).double()
    data = (torch.ones(150, 1, dtype=torch.float64), y)
    posterior = dims.fit(model, data, LIKELIHOOD, tune=False, prior_precision=1.0, refine=True)
    grid = torch.linspace(-3, 3, 1201, dtype=torch.float64)
    mean, raw = torch.meshgrid(grid, grid, indexing="ij")
    outputs = torch.stack([mean, raw], -1)
    std = LIKELIHOOD.moments(outputs)[1].squeeze(-1)
    log_p = -0.5 * (mean.square() + raw.square()) - math.log(2 * math.pi)
    residuals = y.square().sum() - 2 * mean * y.sum() + 150 * mean.square()
    log_p = log_p - 0.5 * residuals / std.square() - 150 * (std.log() + 0.5 * math.log(2 * math.pi))
    exact = log_p.flatten().logsumexp(0).item() + 2 * math.log(6 / 1200)
    assert posterior.log_marginal_likelihood == pytest.approx(exact, abs=0.05)


@pytest.mark.filterwarnings("ignore:θ. is not a minimum")
@pytest.mark.parametrize(
    "structure",
    first(["diagonal", "full", "low_rank", "kronecker"]),
)
def test_it_goes_all_the_way(structure: str, tmp_path: Path) -> None:
    x, y, _ = two_levels(60)
    likelihood = dims.HeteroscedasticGaussian()
    model = trained(x, y, likelihood, 2)
    posterior = dims.fit(model, (x, y), likelihood, curvature=structure, rank=8, tune=True)
    assert posterior.noise_std is None
    assert posterior.evidence is not None
    for method, options in (("la", {}), ("linla", {}), ("dims", {"max_time": 0.5})):
        draws = posterior.sample(3, method, progress=False, **options)
        predictive = draws.predict(x)
        assert predictive.samples.shape == (3, 60, 1)
        scores = predictive.metrics(y)["ensemble"]
        assert set(scores) >= {"nll", "rmse", "coverage", "crps"}
        assert all(math.isfinite(value) for value in scores.values())
    path = tmp_path / "run.safetensors"
    draws.save(path)
    loaded = dims.load(path, model, (x, y))
    assert loaded.surface.likelihood == likelihood
    assert torch.equal(loaded.predict(x).variance, predictive.variance)


def test_the_training_loss_has_the_gradient_of_the_log_density_times_the_noise() -> None:
    """β = ½: each point counts σ times as much, and σ itself is not lowered for that."""
    likelihood = dims.HeteroscedasticGaussian()
    outputs = torch.randn(7, 2, dtype=torch.float64, requires_grad=True)
    targets = torch.randn(7, 1, dtype=torch.float64)
    (of_loss,) = torch.autograd.grad(likelihood.training_loss(outputs, targets).sum(), outputs)
    (of_log,) = torch.autograd.grad(likelihood.negative_log(outputs, targets).sum(), outputs)
    stds = likelihood.moments(outputs.detach())[1]
    torch.testing.assert_close(of_loss, stds * of_log)
