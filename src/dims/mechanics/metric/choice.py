"""How the frame of a row is chosen: from random directions at first, then from those so far."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dims.mechanics.metric.curvature import Part, choose_points, row_products
from dims.mechanics.metric.frame import Frame
from dims.mechanics.metric.subspace import Product, dense_pairs, sweep
from dims.model.network import prior_curvature
from dims.model.shapes import RowIntegers, RowVectors
from dims.surface.base import BaseSurface
from dims.surface.loss import LossSurface

__all__ = ["Choice"]

COLD_SWEEPS = 8  # at the start, where nothing is known
ROW_BYTES = 2**29  # of one row's directions
RANKS = (20, 100)  # the least and the most that are followed unless asked for
RANK_PER_POINT = 0.1  # more directions take longer than they save where a gradient is cheap
FEWEST_POINTS = 64
CHOSEN_SHARE = 60  # of many points one in so many
WORTH_CHOOSING = 3  # times as many points: below, all cost no more than a choice among them


@dataclass(frozen=True)
class Choice:
    """The settings of `MovingMetric` on one surface."""

    surface: BaseSurface
    rank: int | None
    floor: float
    points: int | None
    flat_curvature: float | None
    sweeps: int
    seed: int

    def first(self, thetas: RowVectors, frame: Frame) -> Frame:
        """From the same random directions for all rows; rows at one position share the work."""
        shared = bool((thetas == thetas[:1]).all())
        places = thetas[:1] if shared else thetas
        rows, size = places.shape
        copies = len(thetas) // rows
        scale = self._prior_scale(places)
        count = self._rank(size, places.element_size())
        none = torch.zeros(rows, dtype=torch.int64)  # the same points for all rows
        part = self._part(places, none, none)
        product = _scaled(row_products(self.surface, places, part), scale)
        if count == size:
            values, basis = dense_pairs(product, rows, size, places)
        else:
            noise = np.random.Generator(np.random.Philox(key=[0, 0])).standard_normal((count, size))
            start = torch.linalg.qr(torch.as_tensor(noise).to(places).mT)[0].mT
            values, basis = sweep(product, start.expand(rows, -1, -1), COLD_SWEEPS)
        # A row whose curvature is not finite starts in the euclidean metric.
        values = values.nan_to_num(1.0)
        softening, level = self._softening(values, places.dtype)
        return replace(
            frame,
            basis=basis.repeat(copies, 1, 1),
            softening=softening.repeat(copies, 1),
            scale=scale.repeat(copies, 1),
            level=level.repeat(copies),
            refreshes=torch.ones_like(frame.refreshes),
        )

    def next(self, thetas: RowVectors, frame: Frame) -> Frame:
        """From the directions so far. A row whose curvature is not finite keeps them."""
        rows, size = thetas.shape
        part = self._part(thetas, frame.number, frame.refreshes)
        product = _scaled(row_products(self.surface, thetas, part), frame.scale)
        if frame.basis.shape[1] == size:
            values, basis = dense_pairs(product, rows, size, thetas)
        else:
            values, basis = sweep(product, frame.basis, self.sweeps)
        good = values.isfinite().all(-1)
        softening, level = self._softening(values, thetas.dtype)
        return replace(
            frame,
            basis=basis.where(good.view(-1, 1, 1), frame.basis),
            softening=softening.where(good.unsqueeze(-1), frame.softening),
            level=level.where(good, frame.level),
            turned=torch.zeros_like(frame.turned),
            refreshes=frame.refreshes + 1,
        )

    def _rank(self, size: int, element: int) -> int:
        wanted = self.rank
        if wanted is None:
            wanted = RANKS[0]
            if isinstance(self.surface, LossSurface):
                wanted = max(RANKS[0], min(RANKS[1], int(RANK_PER_POINT * self.surface.points)))
        return max(1, min(wanted, size, ROW_BYTES // (size * element)))

    def _softening(self, values: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """s and f. The last direction stays as it is: none becomes softer than what is left."""
        flat = self.flat_curvature
        if flat is None:
            flat = prior_curvature(self.surface)
        if flat:
            level = values[:, -1:].clamp(min=self.floor * flat)
        else:  # smaller curvatures are rounding, and softening to them would be to nothing
            resolved = values > torch.finfo(dtype).eps ** 0.5 * values[:, :1]
            level = values.where(resolved, torch.inf).amin(-1, keepdim=True)
        softening = (level / values.clamp(min=1e-300)).sqrt().clamp(max=1.0)
        return softening.to(dtype), level.where(level.isfinite(), 0.0).squeeze(-1)

    def _part(
        self, thetas: RowVectors, numbers: RowIntegers, refreshes: RowIntegers
    ) -> Part | None:
        """The data points of each row, from a stream of (seed, number of the row, refresh)."""
        if not isinstance(self.surface, LossSurface):
            return None
        count, total = self.points, self.surface.points
        if count is None:
            rank = self._rank(thetas.shape[1], thetas.element_size())
            enough = 3 * rank // max(1, self.surface.outputs - 1)
            count = max(FEWEST_POINTS, enough, total // CHOSEN_SHARE)
            if total <= WORTH_CHOOSING * count:
                return None
        if count >= total:
            return None
        noise = np.empty((len(thetas), total))
        for row, number, refresh in zip(noise, numbers.tolist(), refreshes.tolist(), strict=True):
            # Perturbations come from the same key; the last word of the counter keeps them apart.
            stream = np.random.Philox(key=[self.seed, number], counter=[0, 0, 0, refresh + 1])
            row[:] = np.random.Generator(stream).gumbel(size=total)
        return choose_points(
            self.surface, thetas, count, torch.as_tensor(noise, device=thetas.device)
        )

    def _prior_scale(self, thetas: RowVectors) -> Tensor:
        """√(δ/δₖ) where the prior differs between parameters: in R·φ it is the same for all."""
        none = thetas.new_zeros(len(thetas), 0)
        if not isinstance(self.surface, LossSurface):
            return none
        prior = self.surface.prior_precision
        if prior.ndim == 0 or bool((prior == prior[0]).all()) or not bool((prior > 0).all()):
            return none
        return (prior.median() / prior).sqrt().to(thetas).expand(len(thetas), -1)


def _scaled(product: Product, scale: Tensor) -> Product:
    """R·P·R."""
    if scale.shape[1] == 0:
        return product
    factors = scale.unsqueeze(1)
    return lambda vectors: factors * product(factors * vectors)
