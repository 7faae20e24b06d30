"""Training members with several settings side by side, and the choice among them.

A setting is a learning rate and a weight decay. Rows of the batch are setting after setting, and
within each member after member.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from dims.baselines.ensemble import residual_std
from dims.baselines.held_out import check_fraction, collect_unseen, member_nll, mixture_nll, split
from dims.baselines.side_by_side import Networks, Schedule, Trained, can_batch, train_side_by_side
from dims.errors import DivergedError
from dims.model.likelihoods import Likelihood, leaves_noise_open, with_noise
from dims.model.shapes import RowVectors
from dims.model.training_data import TrainingData, collect
from dims.surface.loss import LossSurface
from dims.surface.members import flatten_member

__all__ = ["Chosen", "Problem", "Setting"]

Setting = tuple[float, float]  # learning rate and weight decay


@dataclass(frozen=True)
class Chosen:
    thetas: RowVectors
    epochs: list[int]
    setting: Setting
    noise_std: float | None  # where it was left open
    tried: list[dict[str, float | None]]
    held_out: int


class Problem:
    """Untrained members and the data: what training runs on."""

    def __init__(
        self,
        fresh: list[nn.Module],
        data: Any,
        likelihood: str | Likelihood,
        noise_std: float | None,
        orders: list[int],
    ) -> None:
        self.fresh, self.orders = fresh, orders
        self.likelihood = with_noise(likelihood, noise_std)
        self.open_noise = leaves_noise_open(likelihood, noise_std)
        parameter = next(fresh[0].parameters())
        self.data = collect(data, parameter.device, parameter.dtype)
        self.surface = self.surface_of(self.data)
        rows = [flatten_member(m, i, self.surface) for i, m in enumerate(fresh[1:], start=1)]
        self.starts = torch.stack([self.surface.initial, *rows])
        if len(self.starts.unique(dim=0)) < len(self.starts):
            raise ValueError(
                "network: two members start from the same weights; make a new network with random "
                "weights of torch's global generator in every call"
            )
        self.batched = can_batch(self.surface, self.starts)

    def surface_of(self, data: TrainingData) -> LossSurface:
        return LossSurface(self.fresh[0], data, self.likelihood, 0.0)

    def train(
        self,
        validation: Any,
        settings: list[Setting],
        schedule: Schedule,
        seed: int,
        report: Callable[[float], None],
    ) -> Chosen:
        """Choose on the held-out rows, if there are any, and train."""
        if isinstance(validation, str):
            return self._train_without(validation, settings, schedule, report)
        again = isinstance(validation, Real)
        if again:
            count = check_fraction(validation, len(self.data.targets))
            kept, unseen = split(self.data, count, seed)
            surface = self.surface_of(kept)
        else:
            surface, unseen = self.surface, collect_unseen(validation, self.surface)
        held = self.surface_of(unseen)
        # The training on all rows is that of one setting more.
        share = len(settings) / (len(settings) + again)
        trained = self._run(surface, settings, schedule, held, lambda part: report(share * part))
        best, noise_std, tried = self._choose(trained, settings, held)
        members = len(self.starts)
        rows = slice(best * members, (best + 1) * members)
        thetas, lengths = trained.thetas[rows], trained.epochs[rows]
        if again:
            one = [settings[best]]
            once_more = self._run(
                self.surface, one, schedule, lengths, lambda p: report(share + (1 - share) * p)
            )
            thetas = _check_finite(once_more.thetas, one)
        return Chosen(thetas, lengths.tolist(), settings[best], noise_std, tried, held.points)

    def _train_without(
        self,
        word: str,
        settings: list[Setting],
        schedule: Schedule,
        report: Callable[[float], None],
    ) -> Chosen:
        """All epochs: nothing is held out, so nothing is chosen."""
        if word != "none":
            raise ValueError(
                f'validation: expected a fraction, rows (x, y) or "none", got {word!r}'
            )
        if len(settings) > 1:
            raise ValueError(
                "learning_rate, weight_decay: several are given, and no held-out rows to choose "
                "by; give one of each, or validation=0.1"
            )
        members = len(self.starts)
        lengths = torch.full((members,), schedule.epochs, device=self.starts.device)
        trained = self._run(self.surface, settings, schedule, lengths, report)
        thetas = _check_finite(trained.thetas, settings)
        noise_std = residual_std(self.surface, thetas) if self.open_noise else None
        return Chosen(thetas, lengths.tolist(), settings[0], noise_std, [], 0)

    def _run(
        self,
        surface: LossSurface,
        settings: list[Setting],
        schedule: Schedule,
        until: LossSurface | Tensor,
        report: Callable[[float], None],
    ) -> Trained:
        """Every member with every setting; the rows are setting after setting."""
        members = len(self.starts)
        columns = torch.tensor(settings, dtype=torch.float64).repeat_interleave(members, dim=0)
        networks = Networks(
            self.starts.repeat(len(settings), 1),
            columns[:, 0],
            columns[:, 1],
            self.orders * len(settings),
        )
        return train_side_by_side(surface, networks, schedule, until, self.batched, report)

    def _choose(
        self, trained: Trained, settings: list[Setting], held: LossSurface
    ) -> tuple[int, float | None, list[dict[str, float | None]]]:
        """The setting of the best ensemble, its noise if that is open, and all scores."""
        members = len(self.starts)
        scores: list[tuple[float, float | None]] = []
        pairs = zip(trained.thetas.split(members), trained.scores.split(members), strict=True)
        for thetas, own in pairs:
            scores.append(self._score(thetas, held) if own.isfinite().all() else (math.inf, None))
        nll = [score for score, _ in scores]
        best = min(range(len(settings)), key=nll.__getitem__)
        if not math.isfinite(nll[best]):
            raise _diverged(settings)
        tried: list[dict[str, float | None]] = [
            {"learning_rate": r, "weight_decay": d, "nll": n if math.isfinite(n) else None}
            for (r, d), n in zip(settings, nll, strict=True)
        ]
        return best, scores[best][1], tried

    def _score(self, thetas: RowVectors, held: LossSurface) -> tuple[float, float | None]:
        """−log of the mean density of the members, a held-out point; the noise it was taken at."""
        noise_std = residual_std(held, thetas) if self.open_noise else None
        likelihood = held.likelihood if noise_std is None else held.likelihood.with_noise(noise_std)
        outputs = held.predict(thetas, held.data.inputs)
        score = mixture_nll(member_nll(likelihood, outputs, held.data.targets)).mean()
        return float(score), noise_std


def _check_finite(thetas: RowVectors, settings: list[Setting]) -> RowVectors:
    if not thetas.isfinite().all():
        raise _diverged(settings)
    return thetas


def _diverged(settings: list[Setting]) -> DivergedError:
    rates = ", ".join(f"{rate:g}" for rate in dict.fromkeys(rate for rate, _ in settings))
    return DivergedError(f"learning_rate: training diverged at {rates}; give smaller ones")
