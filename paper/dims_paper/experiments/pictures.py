"""The paper's pictures without tables, by the name that the command line has for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dims_paper.experiments import breakdown, curve, sinusoid, sphere, surface_2d

__all__ = ["PICTURES", "Picture"]


@dataclass(frozen=True)
class Picture:
    """Settings at the paper's or our numbers, a minute's version of them, and the run."""

    settings: Any
    quick: Callable[[Any], Any]
    run: Callable[..., dict[str, Any]]


PICTURES = {
    "sphere": Picture(sphere.SphereSettings(), sphere.quick, sphere.run_sphere),
    "sinusoid": Picture(sinusoid.SinusoidSettings(), sinusoid.quick, sinusoid.run_sinusoid),
    "curve": Picture(curve.CurveSettings(), curve.quick, curve.run_curve),
    "surface-2d": Picture(
        surface_2d.Surface2dSettings(), surface_2d.quick, surface_2d.run_surface_2d
    ),
    "breakdown": Picture(breakdown.BreakdownSettings(), breakdown.quick, breakdown.run_breakdown),
}
