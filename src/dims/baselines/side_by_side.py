"""Many networks of one architecture, trained by Adam in one batched program.

    g = ∇( (1/|B|)·Σ_B −log p(y|f_θ(x)) + ½·λ·‖θ‖² ),   θ ← θ − γ·m̂ / (√v̂ + 10⁻⁸)

Each row of θ (S, K) has its own rate γ, weight decay λ and batches B. γ falls to 0 along half a
cosine. Adam acts on every number alone, so the rows do not feel each other. A row that has stopped
leaves the batch.

Reference: D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization", ICLR 2015.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from dims.errors import BatchingWarning
from dims.model.shapes import RowIntegers, RowScalars, RowVectors
from dims.model.torch_support.memory import Chunks
from dims.model.training import seeded
from dims.model.training_data import Inputs, map_inputs, slice_inputs
from dims.surface.loss import LossSurface

__all__ = ["Networks", "Schedule", "Trained", "can_batch", "train_side_by_side"]

MOMENTS = 0.9, 0.999  # β₁, β₂
SMALL = 1e-8


@dataclass(frozen=True)
class Schedule:
    """How long all networks are trained at most, and in which steps."""

    epochs: int
    batch_size: int
    patience: int  # epochs without a better held-out score


@dataclass(frozen=True)
class Networks:
    """First weights of S networks, and what is special to each."""

    thetas: RowVectors
    rates: RowScalars
    decays: RowScalars
    seeds: list[int]  # of the order of the data

    def select(self, rows: slice) -> Networks:
        return Networks(self.thetas[rows], self.rates[rows], self.decays[rows], self.seeds[rows])


@dataclass(frozen=True)
class Trained:
    """The weights that are kept of each network: those of its best epoch."""

    thetas: RowVectors
    epochs: RowIntegers
    scores: RowScalars  # mean −log p of the held-out points there; infinite without any

    @staticmethod
    def join(parts: list[Trained]) -> Trained:
        columns = zip(*((part.thetas, part.epochs, part.scores) for part in parts), strict=True)
        return Trained(*(torch.cat(column) for column in columns))


def train_side_by_side(
    surface: LossSurface,
    networks: Networks,
    schedule: Schedule,
    until: LossSurface | RowIntegers,
    batched: bool,
    report: Callable[[float], None],
) -> Trained:
    """Train all networks, as many at once as suit the memory.

    Args:
        surface: Network, training data and likelihood.
        networks: The rows.
        schedule: How long and in which steps.
        until: The held-out data, whose score chooses the epoch of each row, or those epochs.
        batched: All rows at once; otherwise they take each step one after the other.
        report: Called with the part that is done after each epoch.
    """
    # A batch of points is not cut, so it counts as one.
    batch = surface.bytes_per_point * min(schedule.batch_size, surface.points)
    chunks = Chunks.on(surface.vector.device, surface.memory_budget, batch)
    groups = chunks.rows(len(networks.thetas), 1)
    parts = []
    for number, rows in enumerate(groups):
        # Dropout draws from the global generators.
        with seeded(networks.seeds[rows][0]):
            run = _Run(
                surface,
                networks.select(rows),
                schedule,
                until if isinstance(until, LossSurface) else until[rows],
                batched,
            )
            for epoch in range(1, schedule.epochs + 1):
                if not run.train_epoch(epoch):
                    break
                report((number + epoch / schedule.epochs) / len(groups))
        parts.append(run.kept)
    report(1.0)
    return Trained.join(parts)


class _Run:
    """The rows that are trained together: their state, and what is kept of each."""

    def __init__(
        self,
        surface: LossSurface,
        networks: Networks,
        schedule: Schedule,
        until: LossSurface | RowIntegers,
        batched: bool,
    ) -> None:
        self.surface, self.schedule, self.until = surface, schedule, until
        self.losses = _loss_function(surface, batched)
        count, device = len(networks.thetas), networks.thetas.device
        self.alive = torch.arange(count, device=device)
        self.theta = networks.thetas.clone()
        self.first, self.second = torch.zeros_like(self.theta), torch.zeros_like(self.theta)
        self.rates, self.decays = (
            column.to(self.theta).unsqueeze(-1) for column in (networks.rates, networks.decays)
        )
        self.generators = [torch.Generator().manual_seed(seed) for seed in networks.seeds]
        self.steps = 0
        self.kept = Trained(
            self.theta.clone(),
            torch.zeros(count, dtype=torch.int64, device=device),
            torch.full((count,), math.inf, dtype=torch.float64, device=device),
        )

    def train_epoch(self, epoch: int) -> bool:
        """One pass through the data, in the order of each row; whether any row goes on."""
        points, size = self.surface.points, self.schedule.batch_size
        if size < points:
            own = [self.generators[row] for row in self.alive.tolist()]
            orders = [torch.randperm(points, generator=generator) for generator in own]
            order = torch.stack(orders).to(self.theta.device)
        else:
            order = torch.arange(points, device=self.theta.device).expand(len(self.alive), -1)
        batches = order.split(size, dim=1)
        for number, batch in enumerate(batches):
            done = epoch - 1 + number / len(batches)
            self._step(batch, 0.5 * (1 + math.cos(math.pi * done / self.schedule.epochs)))
        stopped = self._keep(epoch)
        if stopped.any():
            going = ~stopped
            self.alive, self.theta = self.alive[going], self.theta[going]
            self.first, self.second = self.first[going], self.second[going]
            self.rates, self.decays = self.rates[going], self.decays[going]
        return len(self.alive) > 0

    def _step(self, batch: Tensor, slowing: float) -> None:
        leaf = self.theta.detach().requires_grad_()
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            inputs = slice_inputs(self.surface.data.inputs, batch)
            total = self.losses(leaf, inputs, self.surface.data.targets[batch]).sum()
            (gradient,) = torch.autograd.grad(total, leaf)
        gradient = gradient.addcmul(self.decays, self.theta)
        self.steps += 1
        for moment, decay, value in zip(
            (self.first, self.second), MOMENTS, (gradient, gradient.square()), strict=True
        ):
            moment.lerp_(value, 1 - decay)
        corrections = [1 - decay**self.steps for decay in MOMENTS]
        size = self.second.sqrt().div_(math.sqrt(corrections[1])).add_(SMALL)
        self.theta = self.theta - (slowing / corrections[0]) * self.rates * self.first / size

    def _keep(self, epoch: int) -> Tensor:
        """Keep the rows that are better than before; which rows have stopped."""
        kept, alive = self.kept, self.alive
        if isinstance(self.until, LossSurface):
            scores = self.until.value(self.theta) / self.until.points
            chosen = scores < kept.scores[alive]
        else:
            scores = torch.full_like(kept.scores[alive], math.inf)
            chosen = self.until[alive] == epoch
        better = alive[chosen]
        kept.thetas[better] = self.theta[chosen]
        kept.epochs[better], kept.scores[better] = epoch, scores[chosen]
        if not isinstance(self.until, LossSurface):
            return self.until[alive] <= epoch
        waited = epoch - kept.epochs[alive]
        return (waited >= self.schedule.patience) | ~scores.isfinite()


def _loss_function(surface: LossSurface, batched: bool) -> Callable[[Tensor, Any, Tensor], Tensor]:
    """The mean −log p of each row on its own points: rows (S, K), points (S, B, …), losses (S,)."""
    # Dropout acts in training; the running statistics of frozen BatchNorm layers stay.
    module = copy.deepcopy(surface.module).train()
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.eval()

    def one(theta: Tensor, inputs: Inputs, targets: Tensor) -> Tensor:
        outputs = surface.network(surface.vector.unflatten(theta), inputs, module)
        return surface.likelihood.training_loss(outputs, targets).mean()

    def one_by_one(thetas: Tensor, inputs: Inputs, targets: Tensor) -> Tensor:
        losses = [
            one(theta, map_inputs(itemgetter(row), inputs), targets[row])
            for row, theta in enumerate(thetas)
        ]
        return torch.stack(losses)

    return torch.vmap(one, randomness="different") if batched else one_by_one


def can_batch(surface: LossSurface, thetas: RowVectors) -> bool:
    """Whether the network takes other weights and other points in every row at once.

    Some networks take many weights on the same points and not this: one that looks at the values
    of its inputs, for instance.
    """
    points = torch.arange(2, device=thetas.device).remainder(surface.points).expand(2, -1)
    few = surface.data.part(points)
    leaf = thetas[[0, -1]].detach().requires_grad_()
    try:
        with seeded(0), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            torch.autograd.grad(_loss_function(surface, batched=True)(leaf, *few).sum(), leaf)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        warnings.warn(
            "network: it cannot be trained for several sets of weights in one batched program "
            f"({reason}), so members are trained one after the other",
            BatchingWarning,
            stacklevel=4,
        )
        return False
    return True
