"""SWAG: a Gaussian through the iterates of SGD with a constant learning rate.

    θ = θ̄ + √(½·diag)·z₁ + D·z₂ / √(2(R − 1)),   z₁ ~ N(0, I_K),  z₂ ~ N(0, I_R)

θ̄ and diag are mean and variance of the iterates (one an epoch, and the start), the R columns of
D the last iterates less the running mean at their time.

Reference: W. Maddox, T. Garipov, P. Izmailov, D. Vetrov and A. G. Wilson, "A simple baseline for
Bayesian uncertainty in deep learning", NeurIPS 2019.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dims.baselines.held_out import collect_unseen, member_nll, mixture_nll
from dims.baselines.runaway import check_loss, largest_loss
from dims.errors import DivergedError, renamed_arguments
from dims.model.likelihoods import Likelihood, with_noise
from dims.model.parameters import Selection
from dims.model.shapes import RowVectors, Vector, check_integer, check_positive
from dims.model.training_data import slice_inputs
from dims.sampling.draws import Draws
from dims.sampling.perturbations import standard_noise
from dims.sampling.progress import part_reporter
from dims.surface.loss import LossSurface

__all__ = ["Moments", "Training", "collect_moments", "swag"]


class Training(NamedTuple):
    """How SGD runs, and how much of it is kept."""

    epochs: int
    learning_rate: float
    momentum: float
    batch_size: int
    rank: int


class Moments(NamedTuple):
    """What SWAG keeps of the iterates, in float64."""

    mean: Vector
    variance: Vector
    deviations: RowVectors  # (R, K), Dᵀ


@renamed_arguments(train_data="data", count="draws", lr="learning_rate")
def swag(
    model: nn.Module,
    data: Any,
    likelihood: str | Likelihood,
    draws: int,
    *,
    epochs: int = 40,
    learning_rate: float | Sequence[float] = 0.01,
    momentum: float = 0.0,
    batch_size: int = 128,
    rank: int = 20,
    prior_precision: float | Tensor = 1.0,
    noise_std: float | None = None,
    effective_points: float | None = None,
    loss_scale: float = 1.0,
    parameters: Selection = None,
    validation: Any = None,
    seed: int = 0,
    progress: bool | Callable[[float], None] = True,
) -> Draws:
    """Run SGD from the trained weights and draw from the Gaussian of its iterates.

    Args:
        model: The trained network; its buffers stay as they are.
        data: The training data.
        likelihood: "regression", "classification" or a likelihood object.
        draws: Number of draws.
        epochs: Epochs of SGD; each gives an iterate.
        learning_rate: Step of SGD on L/N, the loss per point; or several to choose from.
        momentum: Momentum of SGD.
        batch_size: Points in a batch.
        rank: How many of the last iterates form the low-rank part, at least 2.
        prior_precision: Precision of the Gaussian prior, a number or (K,).
        noise_std: σ of a Gaussian likelihood; None takes that of the likelihood.
        effective_points: How many points the likelihood counts as; None counts each once.
        loss_scale: A factor on likelihood and prior.
        parameters: Which parameters are sampled; None samples the trainable ones.
        validation: Rows (x, y) that the network has not seen, to choose the learning rate by.
        seed: Of the batches and the draws.
        progress: Show a bar in a terminal, or a function to call with the part that is done.

    Returns:
        The draws.

    Raises:
        ValueError: A number is out of its range.
        DivergedError: SGD or draws ran away: their training loss is far above the network's.

    Example:
        >>> draws = dims.swag(model, (x, y), "regression", 30, learning_rate=0.01)
    """
    check_integer("draws", draws)
    scales: dict[str, Any] = {"effective_points": effective_points, "loss_scale": loss_scale}
    chosen = with_noise(likelihood, noise_std), prior_precision
    surface = LossSurface(model, data, *chosen, **scales, parameters=parameters)
    several = learning_rate if isinstance(learning_rate, Sequence) else [learning_rate]
    trainings = [Training(epochs, rate, momentum, batch_size, rank) for rate in several]
    with part_reporter(progress, "swag") as report:
        return _choose(surface, trainings, validation, draws, seed, report)


def _run(
    surface: LossSurface,
    training: Training,
    draws: int,
    seed: int,
    report: Callable[[float], None],
) -> Draws:
    """Draws with one learning rate."""
    moments = collect_moments(surface, training, seed, report)
    thetas = _draw(moments, draws, seed).to(surface.vector.dtype)
    made = Draws.from_parameters(surface, thetas, "swag")
    check_loss(surface, made.loss, training.learning_rate)
    return replace(made, seed=seed, settings=training._asdict())


def _choose(
    surface: LossSurface,
    trainings: list[Training],
    validation: Any,
    draws: int,
    seed: int,
    report: Callable[[float], None],
) -> Draws:
    """The draws of the learning rate with the best score on unseen rows."""
    if not trainings:
        raise ValueError("learning_rate: there are none; give a number or several")
    if len(trainings) == 1:
        if validation is not None:
            raise ValueError("validation: one learning rate leaves nothing to choose; give several")
        return _run(surface, trainings[0], draws, seed, report)
    unseen = collect_unseen(validation, surface)
    made: list[tuple[float, Draws]] = []
    tried: list[dict[str, float | None]] = []
    for number, training in enumerate(trainings):

        def share(part: float, before: int = number) -> None:
            report((before + part) / len(trainings))

        try:
            drawn = _run(surface, training, draws, seed, share)
        except DivergedError:
            tried.append({"learning_rate": training.learning_rate, "nll": None})
            continue
        outputs = surface.predict(drawn.parameters, unseen.inputs)
        targets = surface.likelihood.check_targets(outputs[0], unseen.targets)
        score = float(mixture_nll(member_nll(surface.likelihood, outputs, targets)).mean())
        tried.append({"learning_rate": training.learning_rate, "nll": score})
        made.append((score, drawn))
    if not made:
        rates = ", ".join(f"{training.learning_rate:g}" for training in trainings)
        raise DivergedError(f"learning_rate: SGD ran away at {rates}; give smaller ones")
    best = min(made, key=lambda pair: pair[0])[1]
    return replace(best, settings={**best.settings, "tried": tried})


def collect_moments(
    surface: LossSurface,
    settings: Training,
    seed: int,
    report: Callable[[float], None] = lambda part: None,
) -> Moments:
    """Mean, variance and last deviations of the iterates, the start being the first of them."""
    epochs, learning_rate, momentum, batch_size, rank = settings
    check_positive("learning_rate", learning_rate)
    check_integer("epochs", epochs)
    check_integer("batch_size", batch_size)
    check_integer("rank", rank, lowest=2)
    check_integer("seed", seed, lowest=0)
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum: must lie in [0, 1), got {momentum}")
    if rank > epochs:
        raise ValueError(
            f"rank: {rank} deviations, but {epochs} epochs give {epochs}; lower rank or raise "
            "epochs"
        )
    generator = torch.Generator().manual_seed(seed)
    limit = largest_loss(surface)
    theta = surface.initial.requires_grad_()
    optimiser = torch.optim.SGD([theta], lr=learning_rate, momentum=momentum)
    mean = surface.initial.double()
    squares = torch.zeros_like(mean)
    deviations: deque[Tensor] = deque(maxlen=rank)
    for epoch in range(1, epochs + 1):
        order = torch.randperm(surface.points, generator=generator).to(theta.device)
        losses = []
        for batch in order.split(batch_size):
            loss = _loss_per_point(surface, theta, batch)
            (theta.grad,) = torch.autograd.grad(loss, theta)
            optimiser.step()
            losses.append(loss.detach())
        iterate = theta.detach().double()
        average = float(torch.stack(losses).double().mean())
        if not torch.isfinite(iterate).all() or not average <= limit / surface.points:
            raise DivergedError(
                f"learning_rate: with {learning_rate} SGD diverged in epoch {epoch}, to a loss of "
                f"{average:.3g} a point; lower it"
            )
        report(epoch / epochs)
        before = iterate - mean
        mean = mean + before / (epoch + 1)
        deviations.append(iterate - mean)
        squares += before * deviations[-1]  # Welford's sum: no cancellation, never negative
    return Moments(mean, squares / (epochs + 1), torch.stack([*deviations]))


@torch.enable_grad()
def _loss_per_point(surface: LossSurface, theta: Tensor, batch: Tensor) -> Tensor:
    """An unbiased estimate of L/N: the terms of the batch count N/|B| times, the prior once."""
    outputs = surface.forward(theta.unsqueeze(0), slice_inputs(surface.data.inputs, batch))
    terms = surface.likelihood.negative_log(outputs, surface.data.targets[batch])
    prior = 0.5 * surface.loss_scale * (surface.prior_precision * theta.square()).sum()
    return surface.likelihood_scale * terms.mean() + prior / surface.points


def _draw(moments: Moments, draws: int, seed: int) -> RowVectors:
    rank, size = moments.deviations.shape
    noise = standard_noise(draws, size + rank, seed, device=moments.mean.device)
    diagonal = noise[:, :size] * (0.5 * moments.variance).sqrt()
    low_rank = noise[:, size:] @ moments.deviations / (2 * (rank - 1)) ** 0.5
    return moments.mean + diagonal + low_rank
