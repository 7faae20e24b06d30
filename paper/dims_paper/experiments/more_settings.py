"""What rows that are ours alone need to know: their numbers, and the problem they belong to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from dims.sampling.posterior import Posterior
from dims_paper.experiments.training import Task

__all__ = ["MoreSettings", "Problem"]

Outputs = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class MoreSettings:
    """Every number of the rows that are ours alone.

    SWAG has the same number of draws as the other rows; its learning rate is the one of 0.003,
    0.01, 0.03 and 0.1 whose draws had the lowest training loss on glass, australian and banana
    together. The recipe is the paper's solver, dopri5 at rtol 1e-7 and atol 1e-6; it is dear, so it
    has fewer draws, seeds and a limit in seconds.
    """

    members: int = 5
    swag_epochs: int = 200
    swag_lr: float = 0.03
    swag_momentum: float = 0.9
    swag_batch_size: int = 64
    swag_rank: int = 20
    recipe_tolerance: float = 1e-7  # relative; dopri5's absolute one is ten times that
    recipe_draws: int = 5
    recipe_seeds: tuple[int, ...] = (0,)
    recipe_limit: float = 1800.0  # of each row

    def quick(self) -> MoreSettings:
        """A minute of it."""
        return replace(self, members=2, swag_epochs=20, recipe_draws=1, recipe_limit=20.0)


@dataclass(frozen=True)
class Problem:
    """One network of an experiment: how it is made, fitted, drawn from and scored."""

    name: str  # of the files of its run
    facts: dict[str, Any]  # by which tables know the run: experiment, dataset, seed, …
    task: Task
    posterior: Callable[[nn.Module], Posterior]
    score: Callable[[Posterior, Outputs], dict[str, Any]]
    draws: int
    seed: int
    rla_time: float
    frictions: tuple[float, ...]
    max_time: float
    compile: bool = False

    def member_seeds(self, count: int) -> list[int]:
        """Seeds that no network of the tables has, others for every seed of the problem."""
        return [1000 * (self.seed + 1) + number for number in range(count)]

    def scores(self, posterior: Posterior, thetas: Tensor) -> dict[str, Any]:
        """Of the networks with these parameters, one a row."""
        return self.score(posterior, lambda x: posterior.surface.predict(thetas, x))
