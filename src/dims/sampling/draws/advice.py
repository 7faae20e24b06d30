"""What is off with draws, and what to type about it."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from dims.curvature.evidence import PRIOR_BOUNDS
from dims.mechanics.integrate import resolve_solver
from dims.sampling.draws.diversity import measured_diversity
from dims.sampling.draws.mixture import widened_weight
from dims.sampling.refine import STEEP
from dims.sampling.settings import decode
from dims.surface.loss import LossSurface

if TYPE_CHECKING:
    from dims.sampling.draws.container import Draws

__all__ = ["advice_on", "counted"]

# What the default tolerance of the solvers keeps.
ENERGY_VIOLATION = 1e-2

# Below this many draws a spread is known to no better than a quarter: 1/√(2(S − 1)).
FEW_DRAWS = 10


def advice_on(draws: Draws) -> list[str]:
    """One line for everything that is off, with what to do about it."""
    return [*_advice_on_rows(draws), *_advice_on_run(draws)]


def _advice_on_run(draws: Draws) -> list[str]:
    """What concerns all draws alike: the start, the prior, their number."""
    advice = []
    surface = draws.surface
    if isinstance(surface, LossSurface):  # a loaded network alone has no loss
        slope = surface.value_and_grad(draws.map_parameters.to(surface.vector.device)[None])[1]
        norm = float(slope.double().norm())
        if norm > STEEP and widened_weight(draws) == 0:  # those come from a choice at minima
            advice.append(
                f"θ* is not a minimum of the sampled loss (gradient norm {norm:.3g}): "
                'dims.fit(..., tune="cautious") (dims sample --tune-at-minimum) chooses prior and '
                "noise at a minimum and starts there; with a prior of your own, refine=True"
            )
    diversity = measured_diversity(draws)
    if diversity is not None and diversity.collapsed:
        advice.append(
            f"the draws answer as one: disagreement is {diversity.far:.1%} of the uncertainty even "
            "far from the data. Average over earlier times: posterior.sample(30, "
            "dims.DiMS(save_at=(1.0, 3.0, 10.0))).across_times(), or stop earlier with max_time"
        )
    low, high = PRIOR_BOUNDS
    prior = surface.prior_precision.double()
    bound = (prior > 0) & ((prior < low * (1 + 1e-5)) | (prior > high * (1 - 1e-5)))
    if bound.any():
        advice.append(
            f"the prior precision is at a bound of its search ({low:g} to {high:g}): the data do "
            "not determine it; give one, such as dims.fit(..., prior_precision=0.1)"
        )
    if 0 < len(draws) < FEW_DRAWS:
        degrees = 2 * (len(draws) - 1)
        each = (
            f"a spread is uncertain by {degrees**-0.5:.0%}" if degrees else "its spread is unknown"
        )
        advice.append(
            f"only {counted(len(draws), 'draw')}: {each}; for metrics posterior.sample(30, ...) "
            "(dims sample --draws 30)"
        )
    return advice


def _advice_on_rows(draws: Draws) -> list[str]:
    advice = []
    for status, number in Counter(s for s in draws.status if s is not None and not s.ok).items():
        name = status.name.lower().replace("_", " ")
        advice.append(f"{counted(number, 'draw')} {name}: {status.advice}")
    broken = int((~draws.parameters.isfinite().all(dim=1)).sum())
    if broken:
        advice.append(
            f"{counted(broken, 'draw')} with NaN or infinite parameters: leave them out with "
            "draws.select(draws.parameters.isfinite().all(dim=1))"
        )
    violent = int((draws.energy_violation > ENERGY_VIOLATION).sum())
    if violent:
        advice.append(
            f"{counted(violent, 'trajectory', 'trajectories')} broke the energy law by more than "
            f"{ENERGY_VIOLATION:.0%}: {_tighter(draws)}, or use float64"
        )
    # DiMS is the only method whose draws are meant to be minima; widened ones need not be.
    if draws.method == "dims" and widened_weight(draws) == 0:
        advice += _advice_on_rest(draws)
    return advice


def _advice_on_rest(draws: Draws) -> list[str]:
    """A verdict knows the scale of the surface; without one, fixed thresholds must do."""
    longer = _longer(draws)
    if draws.verdict is not None:
        verdicts = Counter(draws.verdict)
        moving, saddles = verdicts["NOT_AT_REST"], verdicts["SADDLE"]
        said = [(moving, "not at rest"), (saddles, "on a saddle, not a minimum yet")]
        return [f"{counted(number, 'draw')} {what}: {longer}" for number, what in said if number]
    advice = []
    steep = int((draws.gradient_norm > STEEP).sum())
    if steep:
        unsettled = draws.settings.get("settle") in (None, "none")
        advice.append(
            f"{counted(steep, 'draw')} with a gradient norm above {STEEP:g} (a slope of 45°), not "
            f"at rest: {_longer(draws, 'stiff') if unsettled else longer}"
        )
    saddles = int((draws.smallest_eigenvalue < 0).sum())
    if saddles:
        advice.append(
            f"{counted(saddles, 'draw')} with negative curvature, not a minimum yet: {longer}"
        )
    return advice


def _longer(draws: Draws, settle: str = "full") -> str:
    """Twice the time, or a better rest, as it is to be typed."""
    given = draws.settings.get("max_time")
    time = 2.0 * given if isinstance(given, (int, float)) and math.isfinite(given) else 100.0
    call, options = f"posterior.sample(..., max_time={time})", f"--max-time {time:g}"
    if draws.settings.get("settle") != settle:
        call += f' or posterior.sample(..., settle="{settle}")'
        options += f" or --settle {settle}"
    return f"{call} (dims sample {options})"


def _tighter(draws: Draws) -> str:
    """A tenth of the tolerance; settings of a file may hold anything."""
    try:
        given = decode("solver", draws.settings["solver"])
        solver = resolve_solver(given, draws.settings["tolerance"])
        tolerance = 0.1 * float(vars(solver)["tolerance"])
    except (KeyError, TypeError, ValueError):
        return "tighten the tolerance"
    if not isinstance(given, str):
        name = type(solver).__name__
        return f"posterior.sample(..., solver=dims.{name}(tolerance={tolerance:g}))"
    return f"posterior.sample(..., tolerance={tolerance:g}) (dims sample --tolerance {tolerance:g})"


def counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
