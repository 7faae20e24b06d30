"""A report on draws for a person: counts, quantiles, cost, and advice where it is due."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dims.evidence import PRIOR_BOUNDS
from dims.loss_surface import LossSurface
from dims.solvers.rows import Status

if TYPE_CHECKING:
    from dims.draws.container import Draws

__all__ = ["advice_on", "summarise"]

# A gradient of norm 1 is a slope of 45° on the graph of the loss, the scale of the metric I + ggᵀ.
STEEP = 1.0
# What the default tolerance of the solvers keeps.
ENERGY_VIOLATION = 1e-2

# Below this many draws a spread is known to no better than a quarter: 1/√(2(S − 1)).
FEW_DRAWS = 10

LABELS = {
    "loss": "loss",
    "gradient_norm": "gradient norm",
    "smallest_eigenvalue": "smallest eigenvalue",
    "displacement": "displacement by settling",
    "kinetic_energy": "kinetic energy left",
    "energy_violation": "energy violation",
    "energy_balance": "energy balance",
    "arc_length": "arc length",
}


def summarise(draws: Draws) -> str:
    """One paragraph each: what it is, how it ended, where the draws are, cost, advice."""
    seed = "" if draws.seed is None else f", seed {draws.seed}"
    blocks = [
        [f"{_count(len(draws), 'draw')} by {draws.method!r}{seed}", *_model(draws)],
        _endings(draws),
        _table(draws),
        _cost(draws),
        _advice(draws),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _model(draws: Draws) -> list[str]:
    surface = draws.surface
    prior = surface.prior_precision
    shown = f"{prior.item():.4g}" if prior.ndim == 0 else f"a vector, mean {prior.mean():.4g}"
    return [
        f"{surface.size} parameters, {surface.points} training points, {surface.likelihood}",
        f"prior precision {shown}",
    ]


def _endings(draws: Draws) -> list[str]:
    lines = []
    statuses = Counter(s.name.lower().replace("_", " ") for s in draws.status if s is not None)
    if statuses:
        lines.append("trajectories: " + _listed(statuses))
    if draws.verdict:
        lines.append("verdicts: " + _listed(Counter(draws.verdict)))
    return lines


def _table(draws: Draws) -> list[str]:
    rows = []
    for name, label in LABELS.items():
        values: Tensor = getattr(draws, name)
        values = values[values.isfinite()]
        if len(values):
            levels = torch.tensor([0.0, 0.5, 1.0], dtype=values.dtype, device=values.device)
            numbers = torch.quantile(values, levels).tolist()
            rows.append(f"{label:<26}" + "".join(f"{number:>12.4g}" for number in numbers))
    title = " " * 26 + "".join(f"{word:>12}" for word in ("lowest", "median", "highest"))
    return [title, *rows] if rows else []


def _cost(draws: Draws) -> list[str]:
    total = int(draws.evaluations.sum())
    if total == 0:
        return []
    each = f"{total / len(draws):,.0f}"
    return [f"cost: {total:,} gradients of a network, {each} a draw"]


def _advice(draws: Draws) -> list[str]:
    advice = advice_on(draws)
    return ["advice:", *(f"- {line}" for line in advice)] if advice else []


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
        if norm > STEEP:
            advice.append(
                f"θ* is no minimum of the sampled loss (gradient norm {norm:.3g}): fit with "
                "refine=True (--refine), or train longer"
            )
    low, high = PRIOR_BOUNDS
    prior = surface.prior_precision.double()
    bound = (prior > 0) & ((prior < low * (1 + 1e-5)) | (prior > high * (1 - 1e-5)))
    if bound.any():
        advice.append(
            f"the prior precision is at a bound of its search ({low:g} to {high:g}): the data do "
            "not determine it; give fit a prior_precision, say 0.1"
        )
    if 0 < len(draws) < FEW_DRAWS:
        each = "its spread is unknown" if len(draws) == 1 else _few(len(draws))
        advice.append(f"only {_count(len(draws), 'draw')}: {each}; take 30 for metrics")
    return advice


def _few(count: int) -> str:
    return f"a spread is uncertain by {(2 * (count - 1)) ** -0.5:.0%}"


def _advice_on_rows(draws: Draws) -> list[str]:
    advice = []
    for status, number in Counter(s for s in draws.status if s is not None and not s.ok).items():
        name = status.name.lower().replace("_", " ")
        advice.append(f"{_count(number, 'draw')} {name}: {_sentence(status)}")
    broken = int((~draws.parameters.isfinite().all(dim=1)).sum())
    if broken:
        advice.append(
            f"{_count(broken, 'draw')} with NaN or infinite parameters: leave them out with "
            "draws.select(draws.parameters.isfinite().all(dim=1))"
        )
    violent = int((draws.energy_violation > ENERGY_VIOLATION).sum())
    if violent:
        advice.append(
            f"{_count(violent, 'trajectory', 'trajectories')} broke the energy law by more than "
            f"{ENERGY_VIOLATION:.0%}: tighten the tolerance, or use float64"
        )
    if draws.method == "dims":  # the only method whose draws are meant to be minima
        # A verdict knows the scale of the surface; without one, fixed thresholds must do.
        judged = draws.verdict is not None
        verdicts = Counter(draws.verdict or [])
        if verdicts["NOT_AT_REST"]:
            advice.append(
                f"{_count(verdicts['NOT_AT_REST'], 'draw')} not at rest: raise max_time, or use "
                'settle="full"'
            )
        if verdicts["SADDLE"]:
            advice.append(
                f"{_count(verdicts['SADDLE'], 'draw')} on a saddle, no minimum yet: raise "
                'max_time, or use settle="full"'
            )
        steep = 0 if judged else int((draws.gradient_norm > STEEP).sum())
        if steep:
            remedy = "full" if draws.settings.get("settle") == "stiff" else "stiff"
            advice.append(
                f"{_count(steep, 'draw')} with a gradient norm above {STEEP:g} (a slope of 45°), "
                f'not at rest: raise max_time, or use settle="{remedy}"'
            )
        saddles = 0 if judged else int((draws.smallest_eigenvalue < 0).sum())
        if saddles:
            advice.append(
                f"{_count(saddles, 'draw')} with negative curvature, no minimum yet: raise "
                'max_time, or use settle="full"'
            )
    return advice


def _sentence(status: Status) -> str:
    return status.advice if status is not Status.RUNNING else f"{status.advice}; run it to its end"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.most_common())


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
