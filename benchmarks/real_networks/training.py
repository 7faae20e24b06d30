"""Stochastic gradient descent on flat weights: one captured program serves every network.

    m ← μ·m + g + w·θ + σ·ξ,        θ ← θ − r·(g + w·θ + μ·m)

g is the gradient of the mean loss of a batch of flipped and shifted images, shortened to CLIP where
it is longer, w the weight decay (of kernels and matrices alone), r the learning rate, and
σ zero but for a stochastic-gradient sampler.
On a GPU the step is compiled for bfloat16 and captured as a CUDA graph; where either fails, a line
says why, and the step runs without.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy, log_softmax, pad

from dims.model.parameters import ParameterVector
from dims.model.training import seeded
from real_networks.images import Collection
from real_networks.networks import network

MOMENTUM, BORDER, SIDE = 0.9, 4, 32
CLIP = 5.0  # the longest gradient of the loss
PREDICT_AT_ONCE = 2_500
Schedule = Callable[[float], float]  # of the part that is done


@dataclass(frozen=True)
class Recipe:
    """How a network is trained."""

    epochs: int
    rate: float  # at its peak
    weight_decay: float = 5e-4
    batch_size: int = 512
    warm_up: float = 0.15  # the part of the steps in which the rate rises

    def rate_at(self, part: float) -> float:
        """Linear rise, then half a cosine."""
        if part < self.warm_up:
            return self.rate * part / self.warm_up
        return (
            0.5 * self.rate * (1 + math.cos(math.pi * (part - self.warm_up) / (1 - self.warm_up)))
        )


class Trainer:
    """Trains networks of one kind on one set of images, one after the other."""

    def __init__(
        self,
        name: str,
        images: Collection,
        recipe: Recipe,
        dropout: float = 0.0,
    ) -> None:
        self.name, self.recipe, self.dropout = name, recipe, dropout
        self.device = images.train.pixels.device
        self.module = network(name, dropout).to(self.device).train()
        self.vector = ParameterVector(self.module)
        self.centre, self.scale = images.centre, images.scale
        self.labels = images.train.labels
        wide = pad(images.train.pixels.float(), (BORDER,) * 4, mode="reflect")
        self.padded = wide.to(torch.uint8).permute(0, 2, 3, 1).contiguous()  # (N, 40, 40, 3)
        count = min(recipe.batch_size, len(self.labels))
        zeros = torch.zeros(self.vector.size, device=self.device)
        self.theta, self.momentum = zeros.clone(), zeros.clone()
        self.choice = torch.zeros(count, 4, dtype=torch.int64, device=self.device)
        self.decayed = zeros.clone()  # 1 for kernels and matrices, 0 for norms and biases
        for place, shape in self.vector_shapes():
            self.decayed[place] = float(len(shape) > 1)
        self.now = torch.zeros(3, device=self.device)  # rate, decay, noise
        self.losses = torch.zeros((), device=self.device)
        self.on_gpu = self.device.type == "cuda"
        self._loss = torch.compile(self._loss_of, dynamic=False) if self.on_gpu else self._loss_of
        self._step: Callable[[], None] | None = None
        self.seconds = 0.0  # of compilation and capture

    def vector_shapes(self) -> list[tuple[slice, torch.Size]]:
        """Where each parameter lies in θ, and its shape."""
        places = self.vector.slices()
        return [(places[n], p.shape) for n, p in self.module.named_parameters() if n in places]

    @property
    def steps_an_epoch(self) -> int:
        return len(self.labels) // len(self.choice)

    def fresh(self, seed: int) -> Tensor:
        """The first weights of a seed."""
        with seeded(seed):
            return ParameterVector(network(self.name, self.dropout)).initial.to(self.device)

    def run(
        self,
        start: Tensor,
        epochs: int,
        rate_at: Schedule,
        seed: int,
        *,
        noise_at: Schedule = lambda _: 0.0,
        keep_at: Sequence[float] = (),
    ) -> tuple[Tensor, list[Tensor]]:
        """The weights at the end, and those after the given parts of the way."""
        step_once = self.prepare()
        self.theta.copy_(start)
        self.momentum.zero_()
        self.losses.zero_()
        generator = torch.Generator(self.device).manual_seed(seed)
        torch.manual_seed(seed)  # dropout and noise
        steps = self.steps_an_epoch
        total, kept = epochs * steps, list[Tensor]()
        marks = [max(1, round(part * total)) for part in keep_at]
        for epoch in range(epochs):
            table = self._table(generator)
            numbers = [
                (rate_at(part), self.recipe.weight_decay, noise_at(part))
                for part in ((epoch * steps + step) / total for step in range(steps))
            ]
            settings = torch.tensor(numbers, device=self.device)
            for step in range(steps):
                self.choice.copy_(table[step])
                self.now.copy_(settings[step])
                step_once()
                if epoch * steps + step + 1 in marks:
                    kept.append(self.theta.clone())
            if not self.theta.isfinite().all():
                raise FloatingPointError("training diverged; give a smaller learning rate")
        return self.theta.clone(), kept

    def train(self, seed: int) -> Tensor:
        """A network from new weights by the recipe."""
        return self.run(self.fresh(seed), self.recipe.epochs, self.recipe.rate_at, seed)[0]

    def log_probabilities(self, theta: Tensor, pixels: Tensor, samples: int = 0) -> Tensor:
        """(N, 10); with dropout, the mean over so many masks."""
        tensors = self.vector.unflatten(theta)
        self.module.train(samples > 0)
        found = []
        with torch.no_grad():
            for part in pixels.split(PREDICT_AT_ONCE):
                inputs = standardised(part, self.centre, self.scale)
                looks = [
                    log_softmax(functional_call(self.module, tensors, (inputs,)).double(), -1)
                    for _ in range(max(1, samples))
                ]
                found.append(torch.stack(looks).logsumexp(0) - math.log(len(looks)))
        self.module.train()
        return torch.cat(found)

    def _table(self, generator: torch.Generator) -> Tensor:
        """Row, shift down, shift across and flip of each image, (steps, B, 4)."""
        count, steps = len(self.choice), self.steps_an_epoch
        order = torch.randperm(len(self.labels), generator=generator, device=self.device)
        return by_chance(order[: steps * count], generator).view(steps, count, 4)

    def augmented(self, choice: Tensor) -> Tensor:
        """Images by row, shift down, shift across and flip, (N, 4)."""
        rows, down, across, flip = choice.unbind(1)
        along = torch.arange(SIDE, device=self.device)
        backwards = SIDE - 1 - along
        x = torch.where(flip.bool().unsqueeze(-1), backwards, along) + across.unsqueeze(-1)
        y = along + down.unsqueeze(-1)
        pixels = self.padded[rows.view(-1, 1, 1), y.unsqueeze(-1), x.unsqueeze(1)]
        return standardised(pixels.permute(0, 3, 1, 2), self.centre, self.scale)

    def _loss_of(self, theta: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.on_gpu):
            logits = functional_call(self.module, self.vector.unflatten(theta), (images,))
        return cross_entropy(logits.float(), labels)

    def _plain_step(self) -> None:
        rate, decay, noise = self.now.unbind()
        images, labels = self.augmented(self.choice), self.labels[self.choice[:, 0]]
        leaf = self.theta.detach().requires_grad_()
        loss = self._loss(leaf, images, labels)
        (gradient,) = torch.autograd.grad(loss, leaf)
        with torch.no_grad():
            gradient = gradient * (CLIP / (gradient.norm() + 1e-6)).clamp(max=1.0)
            gradient = gradient + decay * self.decayed * self.theta
            random = noise * torch.randn_like(gradient)
            self.momentum.mul_(MOMENTUM).add_(gradient).add_(random)
            self.theta.sub_(rate * (gradient + random + MOMENTUM * self.momentum))
            self.losses.mul_(0.98).add_(loss.detach(), alpha=0.02)

    def prepare(self) -> Callable[[], None]:
        """The step of training, compiled and captured at the first call."""
        if self._step is None:
            self._step = self._prepared()
        return self._step

    def _prepared(self) -> Callable[[], None]:
        """The step, compiled and captured where there is a GPU."""
        if not self.on_gpu:
            return self._plain_step
        began = time.perf_counter()
        try:
            self._plain_step()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            _tell(f"training step is not compiled: {_first_line(error)}")
            self._loss = self._loss_of
            self._plain_step()
        try:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self._plain_step()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._plain_step()
            step: Callable[[], None] = graph.replay
        except Exception as error:
            _tell(f"training step is no CUDA graph: {_first_line(error)}")
            step = self._plain_step
        torch.cuda.synchronize()
        self.seconds = time.perf_counter() - began
        _tell(f"prepared the training step of {self.name} in {self.seconds:.0f} s")
        return step


def _tell(line: str) -> None:
    print(line, flush=True)


def by_chance(rows: Tensor, generator: torch.Generator) -> Tensor:
    """Each row with a shift down, a shift across and a flip, (N, 4)."""
    shape, device = (len(rows), 2), rows.device
    shift = torch.randint(2 * BORDER + 1, shape, generator=generator, device=device)
    flip = torch.randint(2, (len(rows), 1), generator=generator, device=device)
    return torch.cat([rows.unsqueeze(-1), shift, flip], dim=1)


def standardised(pixels: Tensor, centre: Tensor, scale: Tensor) -> Tensor:
    """Bytes (N, 3, H, W) with mean 0 and deviation 1 in each colour; channels last on a GPU."""
    images = (pixels.float() - centre.view(-1, 1, 1)) / scale.view(-1, 1, 1)
    if images.is_cuda:
        return images.contiguous(memory_format=torch.channels_last)
    return images.contiguous()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
