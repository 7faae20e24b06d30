"""Adam on many small networks at once, each with its own batches, learning rate and decay.

On a GPU the step is compiled and captured as a CUDA graph, because networks of this size are
mostly launches; where either fails, a line says why, and the step runs without.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from dims.model.parameters import ParameterVector
from dims.model.torch_support.convolution import use_matrices
from dims.model.training import seeded

DECAYS, SMALL = (0.9, 0.999), 1e-8


class RowsTrainer:
    """So many networks of one kind on one set of images."""

    def __init__(
        self,
        fresh: Callable[[], nn.Module],
        inputs: Tensor,
        labels: Tensor,
        rows: int,
        batch_size: int = 128,
        compiled: bool = True,
    ) -> None:
        self.fresh, self.inputs, self.labels = fresh, inputs, labels
        self.device = inputs.device
        self.module = fresh().to(self.device)
        use_matrices(self.module)
        self.vector = ParameterVector(self.module)
        self.count = min(batch_size, len(labels))
        zeros = torch.zeros(rows, self.vector.size, device=self.device)
        self.theta, self.first, self.second = zeros.clone(), zeros.clone(), zeros.clone()
        self.choice = torch.zeros(rows, self.count, dtype=torch.int64, device=self.device)
        self.rates, self.decays = zeros[:, :1].clone(), zeros[:, :1].clone()
        self.now = torch.zeros(3, device=self.device)  # part of the rate, both corrections
        on_gpu = self.device.type == "cuda"
        losses = torch.vmap(self._loss)
        self._plain = losses
        self._losses = torch.compile(losses, dynamic=False) if on_gpu and compiled else losses
        self._step = self._prepared() if on_gpu else self._one_step

    def run(self, seeds: list[int], rates: Tensor, decays: Tensor, epochs: int) -> Tensor:
        """Weights (S, K) after training with cosine decay."""
        starts = []
        for seed in seeds:
            with seeded(seed):
                starts.append(ParameterVector(self.fresh()).initial)
        self.theta.copy_(torch.stack(starts))
        self.first.zero_()
        self.second.zero_()
        self.rates.copy_(rates.view(-1, 1))
        self.decays.copy_(decays.view(-1, 1))
        generator = torch.Generator(self.device).manual_seed(seeds[0])
        steps = len(self.labels) // self.count
        total = epochs * steps
        numbers = [
            (0.5 * (1 + math.cos(math.pi * i / total)), *(1 - d ** (i + 1) for d in DECAYS))
            for i in range(total)
        ]
        settings = torch.tensor(numbers, device=self.device)
        for epoch in range(epochs):
            noise = torch.rand(
                len(seeds), len(self.labels), generator=generator, device=self.device
            )
            order = noise.argsort(1)[:, : steps * self.count].view(len(seeds), steps, self.count)
            for step in range(steps):
                self.choice.copy_(order[:, step])
                self.now.copy_(settings[epoch * steps + step])
                self._step()
        return self.theta.clone()

    def _loss(self, theta: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        outputs = functional_call(self.module, self.vector.unflatten(theta), (images,))
        return cross_entropy(outputs, labels)

    def _one_step(self) -> None:
        slowing, *corrections = self.now.unbind()
        leaf = self.theta.detach().requires_grad_()
        total = self._losses(leaf, self.inputs[self.choice], self.labels[self.choice]).sum()
        (gradient,) = torch.autograd.grad(total, leaf)
        with torch.no_grad():
            gradient = gradient + self.decays * self.theta
            self.first.lerp_(gradient, 1 - DECAYS[0])
            self.second.lerp_(gradient.square(), 1 - DECAYS[1])
            size = (self.second / corrections[1]).sqrt() + SMALL
            self.theta.sub_(slowing * self.rates * (self.first / corrections[0]) / size)

    def _prepared(self) -> Callable[[], None]:
        began = time.perf_counter()
        self.now.fill_(1.0)
        try:
            self._one_step()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            print(f"LeNet's training step is not compiled: {error!s:.200}", flush=True)
            self._losses = self._plain
            self._one_step()
        try:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self._one_step()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._one_step()
            step: Callable[[], None] = graph.replay
        except Exception as error:
            print(f"LeNet's training step is no CUDA graph: {error!s:.200}", flush=True)
            step = self._one_step
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        print(f"prepared {len(self.theta)} LeNets in {seconds:.0f} s", flush=True)
        return step
