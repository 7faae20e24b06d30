"""A report on draws for a person: counts, quantiles, cost, and advice where it is due."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dims.prediction.weights import effective_draws
from dims.sampling.certificate import FLAT_PRIORS, FLAT_SHARE, flat_limit
from dims.sampling.draws.advice import advice_on, counted
from dims.sampling.draws.diversity import measured_diversity
from dims.sampling.draws.fields import ROW_NUMBERS

if TYPE_CHECKING:
    from dims.sampling.draws.container import Draws
    from dims.sampling.draws.mixture import Mixture

__all__ = ["summarise"]


def summarise(draws: Draws) -> str:
    """One paragraph each: what it is, how it ended, where the draws are, cost, advice."""
    seed = "" if draws.seed is None else f", seed {draws.seed}"
    blocks = [
        [f"{counted(len(draws), 'draw')} by {draws.method!r}{seed}", *_model(draws)],
        _weights(draws),
        _endings(draws),
        _diversity(draws),
        _table(draws),
        _saved(draws),
        _cost(draws),
        _advice(draws),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _model(draws: Draws) -> list[str]:
    surface = draws.surface
    prior = surface.prior_precision
    shown = f"{prior.item():.4g}" if prior.ndim == 0 else f"a vector, mean {prior.mean():.4g}"
    scaled = getattr(surface.module, "targets_standardised_by", None)
    unit = " in units of standardised targets" if scaled is not None else ""
    return [
        f"{surface.size} parameters, {surface.points} training points, {surface.likelihood}{unit}",
        f"prior precision {shown}",
    ]


def _weights(draws: Draws) -> list[str]:
    if draws.mixture is not None:
        return _mixture(draws, draws.mixture)
    if draws.weights is None:
        return ["weights: all draws count alike (no held-out rows chose others)"]
    number, largest = effective_draws(draws.weights), float(draws.weights.max())
    return [f"weights: as good as {number:.1f} draws that count alike; the largest {largest:.3g}"]


def _mixture(draws: Draws, mixture: Mixture) -> list[str]:
    named = mixture.named_weights(draws.times.tolist())
    listed = ", ".join(f"{name} {weight:.2f}" for name, weight in named.items() if weight > 0)
    if named.get("widened", 0) > 0:
        listed += " (by a Laplace approximation at each draw)"
    if mixture.held_out == 0:
        return [f"weights: without held-out rows: {listed}"]
    lines = [f"weights: by {counted(mixture.held_out, 'held-out row')}: {listed}"]
    if not math.isnan(mixture.gain):
        gain = f"{mixture.gain:+.3f} ± {mixture.gain_error:.3f}"
        networks = len(mixture.networks)
        which = "the network alone" if networks == 1 else f"the {networks} networks alone"
        if draws.surface.likelihood.noise_std is not None:
            which += " with the same noise"
        lines.append(f"log score against {which}: {gain} nats a row, cross-validated")
    if mixture.refit:
        lines.append("the draws have learnt these rows since; weights and score are from before")
    return lines


def _diversity(draws: Draws) -> list[str]:
    found = measured_diversity(draws)
    if found is None:
        return []
    far = "" if math.isnan(found.far) else f", {found.far:.1%} five standard deviations away"
    return [f"disagreement of draws: {found.on_data:.1%} of the uncertainty on training data{far}"]


def _endings(draws: Draws) -> list[str]:
    lines = []
    statuses = Counter(s.name.lower().replace("_", " ") for s in draws.status if s is not None)
    if statuses:
        lines.append("trajectories: " + _listed(statuses) + _stopped(draws))
    if draws.verdict:
        lines.append("verdicts: " + _listed(Counter(draws.verdict)))
        lines += _meaning_of_minimum(draws, draws.verdict)
    return lines


def _stopped(draws: Draws) -> str:
    """Draws that a time stopped are near minima, which their gradient shows."""
    end, norms = draws.settings.get("max_time"), draws.gradient_norm
    norms = norms[norms.isfinite()]
    settled = bool((draws.displacement.nan_to_num() > 0).any())
    if end is None or settled or not len(norms) or norms.median() <= 1:
        return ""
    return f'; stopped at t = {end:g} near minima, settle="full" goes on to them'


def _meaning_of_minimum(draws: Draws, verdicts: Sequence[str]) -> list[str]:
    """What the verdict does not say, in numbers: ε, and how many such draws bend down within it."""
    rows = [i for i, verdict in enumerate(verdicts) if verdict == "MINIMUM"]
    if not rows:
        return []
    limit = flat_limit(draws.surface)
    span = f"±{limit:.3g} ({FLAT_PRIORS:g} times the prior's)"
    if limit == 0:
        span = f"±{FLAT_SHARE:g} of the largest"
    if draws.parameters.dtype != torch.float64:
        span += ", or what rounding blurs,"
    lowest = draws.smallest_eigenvalue[rows]
    bent = int((lowest < 0).sum())
    depth = f" (lowest {float(lowest[lowest < 0].min()):.3g})" if bent else ""
    after = {
        "stiff": 'settle="stiff" left slopes there, settle="full" walks down them',
        "full": 'settle="full" has walked down the slopes there',
    }.get(str(draws.settings.get("settle")), 'slopes there are left, settle="full" walks down them')
    return [
        f"MINIMUM holds in stiff directions only: curvatures within {span} count as flat.",
        f"Of the {len(rows)}, {bent} bend down in flat directions{depth}; {after}.",
    ]


def _table(draws: Draws) -> list[str]:
    rows = []
    moved = not draws.metric_length.equal(draws.arc_length)
    repeated = ("gradient_equivalents",) if moved else ("gradient_equivalents", "metric_length")
    for name, label in ROW_NUMBERS.items():
        values: Tensor = getattr(draws, name)
        values = values[values.isfinite()]
        if len(values) and name not in repeated:
            levels = torch.tensor([0.0, 0.5, 1.0], dtype=values.dtype, device=values.device)
            numbers = torch.quantile(values, levels).tolist()
            rows.append(f"{label:<26}" + "".join(f"{number:>12.4g}" for number in numbers))
    title = " " * 26 + "".join(f"{word:>12}" for word in ("lowest", "median", "highest"))
    return [title, *rows] if rows else []


def _saved(draws: Draws) -> list[str]:
    lines = []
    for place, time in enumerate(draws.times.tolist() if len(draws) else ()):
        loss = draws.saved_loss[:, place].median()
        norm = draws.saved_gradient_norm[:, place].median()
        lines.append(f"saved at t = {time:g}: median loss {loss:.4g}, gradient norm {norm:.4g}")
    return lines


def _cost(draws: Draws) -> list[str]:
    total = int(draws.evaluations.sum())
    if total == 0:
        return []
    each = f"{total / len(draws):,.0f}"
    cost = f"cost: {total:,} gradients of a network, {each} a draw"
    equivalents = float(draws.gradient_equivalents.nansum())
    if equivalents > total:
        cost += f", as long as {equivalents / len(draws):,.0f} with the work of the moving metric"
    return [cost]


def _advice(draws: Draws) -> list[str]:
    advice = advice_on(draws)
    return ["advice:", *(f"- {line}" for line in advice)] if advice else []


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.most_common())
