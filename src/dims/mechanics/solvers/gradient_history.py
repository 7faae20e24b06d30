"""Extrapolated gradients: how far to step, and a first guess of the constraint force.

The last three gradients of a row, at times −a−b, −a and 0, define the parabola

    g̃(x) = g₀ + x·p + x²·q,     p and q combinations of the three.

Only inner products are needed, never g̃ itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dims.mechanics.geometry import dot
from dims.model.shapes import RowIntegers, RowScalars, RowVectors

__all__ = ["GradientHistory", "Parabola"]

CANDIDATES = 16
SHORTEST = 0.1  # the smallest candidate step, as a part of the longest


class Parabola(NamedTuple):
    """How g₀, the gradient before and the one before that combine into p and q."""

    p: tuple[RowScalars, RowScalars, RowScalars]
    q: tuple[RowScalars, RowScalars, RowScalars]

    def along(self, products: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """p and q times any vector, from the three gradients' products with it."""
        u0, u1, u2 = products
        (p0, p1, p2), (q0, q1, q2) = self
        return p0 * u0 + p1 * u1 + p2 * u2, q0 * u0 + q1 * u1 + q2 * u2


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

    def parabola(self) -> Parabola:
        """Through three gradients, a line through two, a constant through one."""
        a, b = self.gap, self.older_gap
        line = (self.count >= 2) / a
        bend = (self.count >= 3) / (a + b)
        q0, q1, q2 = bend / a, -bend * (a + b) / (a * b), bend / b
        return Parabola((line + a * q0, a * q1 - line, a * q2), (q0, q1, q2))

    @property
    def with_newest(self) -> tuple[RowScalars, RowScalars, RowScalars]:
        """The three gradients' products with the newest."""
        return self.gram00, self.gram01, self.gram02

    def longest_step(self, angle: RowScalars, limit: RowScalars) -> RowScalars:
        """The longest step up to `limit` over which the surface normal turns by at most `angle`.

        The normal is (−g, 1)/√(1 + ‖g‖²). Candidates are tried from the shortest up; between the
        last that fits and the first that does not the turn is interpolated.
        """
        curve = self.parabola()
        gp, gq = curve.along(self.with_newest)
        p1, q1 = curve.along((self.gram01, self.gram11, self.gram12))
        p2, q2 = curve.along((self.gram02, self.gram12, self.gram22))
        pp, pq = curve.along((gp, p1, p2))
        _, qq = curve.along((gq, q1, q2))
        parts = torch.logspace(
            0, 1, CANDIDATES, base=1 / SHORTEST, dtype=limit.dtype, device=limit.device
        )
        x = limit.unsqueeze(-1) * (SHORTEST * parts)
        g0, gp, gq, pp, pq, qq = (c.unsqueeze(-1) for c in (self.gram00, gp, gq, pp, pq, qq))
        with_newest = g0 + x * (gp + x * gq)
        square = g0 + x * (2 * gp + x * (2 * gq + pp + x * (2 * pq + x * qq)))
        cosine = (1 + with_newest) / ((1 + g0) * (1 + square.clamp(min=0))).sqrt()
        turned = torch.acos(cosine.clamp(-1, 1))
        allowed = angle.unsqueeze(-1)
        fits = (turned <= allowed).cumprod(-1).sum(-1, keepdim=True)
        low, high = (fits - 1).clamp(min=0), fits.clamp(max=CANDIDATES - 1)
        x0, x1 = x.gather(-1, low), x.gather(-1, high)
        a0, a1 = turned.gather(-1, low), turned.gather(-1, high)
        part = ((allowed - a0) / (a1 - a0)).clamp(0, 1)
        best = torch.where(high > low, x0 + part * (x1 - x0), x0).squeeze(-1)
        return torch.where(self.count >= 2, best, limit)
