"""Extrapolated gradients: how far to step, and a first guess of the constraint force.

The last three gradients of a row, at times −a−b, −a and 0, give g̃(x) = Σ wᵢ(x) gᵢ by Lagrange's
formula. Only their inner products are needed, never g̃ itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dims.shapes import RowIntegers, RowScalars, RowVectors

__all__ = ["GradientHistory", "dot"]

CANDIDATES = 16
SHORTEST = 0.1  # the smallest candidate step, as a part of the longest


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner products of rows; the sum itself in the rows' precision, the result in float64."""
    return torch.linalg.vecdot(a, b).double()


@dataclass(frozen=True)
class GradientHistory:
    """Newest gradient first, with their Gram matrix and the times between them."""

    newest: RowVectors
    previous: RowVectors
    oldest: RowVectors
    gram00: RowScalars
    gram01: RowScalars
    gram02: RowScalars
    gram11: RowScalars
    gram12: RowScalars
    gram22: RowScalars
    gap: RowScalars  # a, between newest and previous
    older_gap: RowScalars  # b, between previous and oldest
    count: RowIntegers

    @staticmethod
    def begin(gradient: RowVectors) -> GradientHistory:
        square = dot(gradient, gradient)
        one = torch.ones_like(square)
        return GradientHistory(
            *(gradient,) * 3, *(square,) * 6, one, one, torch.ones_like(one, dtype=torch.int64)
        )

    def push(
        self,
        gradient: RowVectors,
        square: RowScalars,
        with_newest: RowScalars,
        with_previous: RowScalars,
        step: RowScalars,
    ) -> GradientHistory:
        """A new gradient `step` later, given its inner products with itself and the last two."""
        return GradientHistory(
            gradient,
            self.newest,
            self.previous,
            square,
            with_newest,
            with_previous,
            self.gram00,
            self.gram01,
            self.gram11,
            step,
            self.gap,
            (self.count + 1).clamp(max=3),
        )

    def weights(self, ahead: Tensor, most: int = 3) -> tuple[Tensor, Tensor, Tensor]:
        """Lagrange weights at times `ahead`, (rows,) or (rows, candidates), of `most` gradients."""
        shape = (-1,) + (1,) * (ahead.ndim - 1)
        a, b = self.gap.view(shape), self.older_gap.view(shape)
        count = self.count.clamp(max=most).view(shape)
        two, three = count == 2, count >= 3
        zero = torch.zeros_like(ahead)
        w0 = torch.where(
            three,
            (ahead + a) * (ahead + a + b) / (a * (a + b)),
            torch.where(two, 1 + ahead / a, 1 + zero),
        )
        w1 = torch.where(
            three, -ahead * (ahead + a + b) / (a * b), torch.where(two, -ahead / a, zero)
        )
        w2 = torch.where(three, ahead * (ahead + a) / ((a + b) * b), zero)
        return w0, w1, w2

    def longest_step(self, angle: RowScalars, limit: RowScalars, most: int = 3) -> RowScalars:
        """The longest step up to `limit` over which the surface normal turns by at most `angle`.

        The normal is (−g, 1)/√(1 + ‖g‖²). Candidates are tried from the shortest up; the first
        that turns too far ends the search.
        """
        parts = (
            torch.logspace(
                0, 1, CANDIDATES, base=1 / SHORTEST, dtype=limit.dtype, device=limit.device
            )
            * SHORTEST
        )
        ahead = limit.unsqueeze(-1) * parts
        w0, w1, w2 = self.weights(ahead, most)
        g00, g01, g02, g11, g12, g22 = (
            g.unsqueeze(-1)
            for g in (self.gram00, self.gram01, self.gram02, self.gram11, self.gram12, self.gram22)
        )
        with_newest = w0 * g00 + w1 * g01 + w2 * g02
        square = (
            w0 * with_newest
            + w1 * (w0 * g01 + w1 * g11 + w2 * g12)
            + w2 * (w0 * g02 + w1 * g12 + w2 * g22)
        ).clamp(min=0)
        cosine = (1 + with_newest) / ((1 + g00) * (1 + square)).sqrt()
        turned = torch.acos(cosine.clamp(-1, 1))
        allowed = angle.unsqueeze(-1)
        fits = (turned <= allowed).cumprod(-1).sum(-1, keepdim=True)
        low, high = (fits - 1).clamp(min=0), fits.clamp(max=CANDIDATES - 1)
        x0, x1 = ahead.gather(-1, low), ahead.gather(-1, high)
        a0, a1 = turned.gather(-1, low), turned.gather(-1, high)
        part = ((allowed - a0) / (a1 - a0)).clamp(0, 1)
        best = torch.where(high > low, x0 + part * (x1 - x0), x0).squeeze(-1)
        return torch.where(self.count >= 2, best, limit)
