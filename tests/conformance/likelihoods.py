"""Whether a likelihood of your own keeps the contract: one call in your test."""

from __future__ import annotations

import json
import math

import torch
from torch import Tensor

from dims.model.likelihoods import Likelihood, likelihood_class
from dims.model.likelihoods.base import second_derivative
from dims.prediction.predictive import log_density

__all__ = ["check_likelihood"]

SAMPLES = 4000  # targets per point, where their expectation is estimated
STANDARD_ERRORS = 6.0
CLOSE = {"rtol": 1e-6, "atol": 1e-8}


def check_likelihood(
    likelihood: Likelihood, outputs: Tensor, targets: Tensor, *, density: bool = True
) -> None:
    """Check a likelihood against itself, in float64: loss, density, curvature, predictive, file.

    Args:
        likelihood: An object of the class to be checked.
        outputs: Some outputs that a network could give, (N, C).
        targets: Targets of these N points, as a user would give them.
        density: Whether `negative_log` is meant to be −log p of `distribution`; False where it is
            changed on purpose, as by label smoothing.

    Raises:
        AssertionError: Something does not fit; the message says what.

    Example:
        >>> check_likelihood(Poisson(), torch.randn(6, 1), torch.tensor([0, 1, 0, 2, 5, 1]))
    """
    outputs = outputs.detach().double()
    checked = likelihood.check_targets(outputs, targets)
    _check_loss(likelihood, outputs, checked)
    if density:
        _check_density(likelihood, outputs, checked)
    _check_output_hessian(likelihood, outputs, checked)
    _check_torch_loss(likelihood, outputs, checked)
    _check_noise(likelihood, outputs, checked)
    _check_predictive(likelihood, outputs, targets, checked)
    _check_mixture(likelihood, outputs, targets, checked)
    _check_settings(likelihood, outputs, checked)


def _check_loss(likelihood: Likelihood, outputs: Tensor, targets: Tensor) -> None:
    with torch.enable_grad():
        leaf = outputs.clone().requires_grad_()
        terms = likelihood.negative_log(leaf, targets)
        shape = tuple(outputs.shape[:-1])
        _require(
            terms.shape == shape,
            f"negative_log: one number per point is expected, {shape}, got {tuple(terms.shape)}",
        )
        (slope,) = torch.autograd.grad(terms.sum(), leaf)
    _require(bool(terms.isfinite().all()), "negative_log: it is NaN or infinite at some points")
    _require(bool(slope.isfinite().all()), "negative_log: its gradient is NaN or infinite")
    many = torch.stack([outputs, _moved(outputs), outputs])
    rows = [likelihood.negative_log(row, targets) for row in many]
    together = likelihood.negative_log(many, targets)
    _require_close(
        together, torch.stack(rows), "negative_log: outputs (..., N, C) with leading axes differ"
    )


def _check_density(likelihood: Likelihood, outputs: Tensor, targets: Tensor) -> None:
    def left_out(outputs: Tensor) -> Tensor:
        log_p = log_density(likelihood.distribution(outputs), targets, outputs.ndim)
        return -log_p - likelihood.negative_log(outputs, targets)

    _require_close(
        left_out(_moved(outputs)),
        left_out(outputs),
        "negative_log: it differs from −distribution.log_prob by terms that depend on the outputs",
    )


def _check_output_hessian(likelihood: Likelihood, outputs: Tensor, targets: Tensor) -> None:
    found = likelihood.output_hessian(outputs)
    shape = (*outputs.shape, outputs.shape[-1])
    _require(found.shape == shape, f"output_hessian: expected {shape}, got {tuple(found.shape)}")
    _require_close(found, found.mT, "output_hessian: it is not symmetric")
    lowest = torch.linalg.eigvalsh(found).min()
    _require(bool(lowest >= -1e-8 * found.abs().max()), "output_hessian: not semidefinite")
    expected, error = _fisher(likelihood, outputs, targets.dtype)
    off = (found - expected).abs()
    allowed = STANDARD_ERRORS * error + CLOSE["rtol"] * expected.abs() + CLOSE["atol"]
    _require(
        bool((off <= allowed).all()),
        "output_hessian: it is not the Fisher information E[∂²(−log p)/∂f²] under `distribution`, "
        f"which is {expected.tolist()} (± {error.max().item():.2g}), but {found.tolist()}",
    )


def _fisher(likelihood: Likelihood, outputs: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """E[∂²(−log p)/∂f²] and its standard error: a sum over all targets, or an average of many."""
    distribution = likelihood.distribution(outputs)
    # Several targets of a point: their values are listed one by one, not in all combinations.
    single = distribution.batch_shape == outputs.shape[:-1] or outputs.shape[-1] == 1
    listed = distribution.has_enumerate_support and single
    if listed:
        drawn = distribution.enumerate_support()
        weights = log_density(distribution, drawn, outputs.ndim + 1).exp()
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            drawn = distribution.sample(torch.Size([SAMPLES]))
        weights = torch.full((SAMPLES, len(outputs)), 1 / SAMPLES, dtype=outputs.dtype)
    repeated = outputs.repeat(len(drawn), 1)
    flat = drawn.to(dtype).flatten(0, 1)
    terms = second_derivative(lambda f: likelihood.negative_log(f, flat), repeated)
    terms = terms.unflatten(0, (len(drawn), -1))
    mean = (weights[..., None, None] * terms).sum(dim=0)
    if listed:
        return mean, torch.zeros_like(mean)
    return mean, terms.std(dim=0) / math.sqrt(SAMPLES)


def _check_torch_loss(likelihood: Likelihood, outputs: Tensor, targets: Tensor) -> None:
    known = likelihood.torch_loss()
    if known is None:
        return
    loss, factor = known
    column = targets.ndim == 1 and targets.is_floating_point()
    aims = targets.unsqueeze(-1) if column else targets
    _require_close(
        factor * second_derivative(lambda f: loss(f, aims), outputs),
        likelihood.output_hessian(outputs),
        "torch_loss: its Hessian times the factor is not output_hessian",
    )


def _check_noise(likelihood: Likelihood, outputs: Tensor, targets: Tensor) -> None:
    if likelihood.noise_std is None:
        return
    wider = likelihood.with_noise(2 * likelihood.noise_std)
    width = outputs.shape[-1]
    gain = wider.constant(width) - likelihood.constant(width)
    _require(abs(gain - width * math.log(2)) < 1e-9, "noise_std: constant does not grow by C·log σ")
    for name, arguments in (("negative_log", (outputs, targets)), ("output_hessian", (outputs,))):
        _require_close(
            4 * getattr(wider, name)(*arguments),
            getattr(likelihood, name)(*arguments),
            f"noise_std: {name} does not fall as 1/σ²; set noise_std = None",
        )


def _check_predictive(
    likelihood: Likelihood, outputs: Tensor, targets: Tensor, checked: Tensor
) -> None:
    many = torch.stack([outputs, _moved(outputs), _moved(_moved(outputs))])
    log_p = log_density(likelihood.distribution(many), checked, many.ndim)
    predictive = likelihood.predictive(many.clone())
    samples = predictive.samples
    _require(
        samples.ndim == 3 and samples.shape[:2] == many.shape[:2],
        f"predictive: samples must have shape (S, N, C), got {tuple(samples.shape)}",
    )
    _require_close(predictive.mean, samples.mean(0), "predictive: mean is not that of samples")
    spread = samples.var(dim=0, correction=0)
    _require_close(predictive.epistemic, spread, "predictive: epistemic is not samples' variance")
    _require(bool((predictive.aleatoric >= 0).all()), "predictive: aleatoric is negative or NaN")
    total = predictive.aleatoric + predictive.epistemic
    _require_close(predictive.variance, total, "predictive: variance ≠ aleatoric + epistemic")
    found = predictive.metrics(targets)
    expected = {
        "per_sample": -log_p.mean(),
        "ensemble": -(log_p.logsumexp(0) - math.log(len(many))).mean(),
    }
    for reading, value in expected.items():
        _require_close(
            torch.tensor(found[reading]["nll"]).to(value),
            value,
            f"predictive: {reading!r} of 'nll' is not that of `distribution`",
        )


def _check_mixture(
    likelihood: Likelihood, outputs: Tensor, targets: Tensor, checked: Tensor
) -> None:
    """Weights, log scores and quantiles of three draws against `distribution`."""
    many = torch.stack([outputs, _moved(outputs), _moved(_moved(outputs))])
    weights = torch.tensor([0.5, 0.2, 0.3], dtype=many.dtype)
    distribution = likelihood.distribution(many)
    predictive = likelihood.predictive(many.clone()).with_weights(weights)
    log_p = log_density(distribution, checked, many.ndim)
    _require_close(predictive.log_scores(targets), log_p, "predictive: log_scores ≠ log p")
    nll = -(log_p + weights.log().unsqueeze(-1)).logsumexp(0).mean()
    found = torch.tensor(predictive.metrics(targets)["ensemble"]["nll"]).to(nll)
    _require_close(found, nll, "predictive: 'nll' is not that of weighted draws")
    try:
        quantile = predictive.quantile(0.8)
    except TypeError:  # classes have none
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        drawn = distribution.sample(torch.Size([SAMPLES]))
    drawn = drawn if drawn.ndim == 4 else drawn.unsqueeze(-1)

    def share(inside: Tensor) -> Tensor:
        return torch.einsum("s,msnc->nc", weights, inside.to(weights)) / SAMPLES

    slack = 2 * STANDARD_ERRORS * math.sqrt(0.16 / SAMPLES)  # both may be sampled
    low, high = share(drawn < quantile), share(drawn <= quantile)
    _require(
        bool(((low <= 0.8 + slack) & (high >= 0.8 - slack)).all()),
        f"predictive: quantile(0.8) has a share of {low.tolist()} of the targets below it",
    )


def _check_settings(likelihood: Likelihood, outputs: Tensor, targets: Tensor) -> None:
    kind = type(likelihood)
    _require(
        likelihood_class(likelihood.name) is kind,
        f"name: {likelihood.name!r} belongs to another class; give {kind.__name__} its own",
    )
    try:
        again = kind(**json.loads(json.dumps(likelihood.settings())))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"settings: they do not make the object again ({error})") from error
    _require(again.settings() == likelihood.settings(), "settings: another object comes back")
    _require_close(
        again.negative_log(outputs, targets),
        likelihood.negative_log(outputs, targets),
        "settings: the object that comes back has another negative_log",
    )


def _moved(outputs: Tensor) -> Tensor:
    """Other outputs of the same kind: each point has those of the next, a little smaller."""
    return 0.9 * outputs.roll(1, dims=0)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _require_close(found: Tensor, expected: Tensor, message: str) -> None:
    _require(found.shape == expected.shape, f"{message}: {found.shape} and {expected.shape}")
    off = (found - expected).abs() - CLOSE["rtol"] * expected.abs()
    _require(bool((off <= CLOSE["atol"]).all()), f"{message} (by {off.max().item():.2g})")
