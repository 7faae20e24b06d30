"""Stacking: mixture weights of predictives by their log scores on held-out rows.

The weights w of G groups of components maximise the log score of their mixture, with a Dirichlet
prior that counts as a_g further rows of its own for group g:

    J(w) = Σₙ log Σ_g w_g p_g(yₙ) + Σ_g a_g log w_g,    w_g ≥ 0, Σ_g w_g = 1,

a concave problem whose optimum EM finds, uphill at every step. p_g is the average of the
components of a group, such as all draws at one saved time, which share the weight of the group.
Yao, Vehtari, Simpson and Gelman (2018), Using stacking to average Bayesian predictive
distributions.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dims.prediction.showing import Shown

__all__ = ["Gain", "Stacking", "cross_validated_scores", "stack"]

# Nats per row that the weights may miss of the best score.
TOLERANCE = 1e-7
MOST_STEPS = 100_000


class Gain(NamedTuple):
    """A difference of mean log scores in nats per row, and its standard error over the rows."""

    mean: float
    standard_error: float


@dataclass(frozen=True, eq=False, repr=False)
class Stacking(Shown):
    """Weights of components, and how their mixture scores.

    Attributes:
        weights: Of the M components, (M,), with the sum 1; a group shares its weight equally.
        group_weights: The weight of each group.
        log_scores: log p(yₙ) of the weighted mixture, (N,).
        equal_scores: log p(yₙ) where all M components count alike, (N,).
        group_scores: log p(yₙ) of each group alone, (N,) each.
        gap: A bound on what J misses of its maximum, in nats.
    """

    weights: Tensor
    group_weights: dict[Hashable, float]
    log_scores: Tensor
    equal_scores: Tensor
    group_scores: dict[Hashable, Tensor]
    gap: float

    def _facts(self) -> dict[str, object]:
        weights = " ".join(f"{name} {weight:.3g}" for name, weight in self.group_weights.items())
        return {"weights": weights, "rows": len(self.log_scores), "gap": self.gap}

    def gain(self, over: Hashable = None) -> Gain:
        """What the weights gain in mean log score.

        It is measured on the rows that chose the weights, and optimistic by about (G − 1)/N nats;
        `cross_validated_scores` is not.

        Args:
            over: The group to compare with, such as "network"; None: all components alike.

        Returns:
            The mean gain and its standard error; positive is better.

        Raises:
            KeyError: There is no such group.

        Example:
            >>> stacking.gain("network")
            Gain(mean=0.08, standard_error=0.02)
        """
        if over is not None and over not in self.group_scores:
            raise KeyError(f"over: there is no group {over!r}; groups: {[*self.group_scores]}")
        other = self.equal_scores if over is None else self.group_scores[over]
        gains = self.log_scores - other
        error = float(gains.std()) / math.sqrt(len(gains)) if len(gains) > 1 else math.nan
        return Gain(float(gains.mean()), error)


def stack(
    log_scores: Tensor,
    groups: Sequence[Hashable] | None = None,
    *,
    pseudo_count: float | Sequence[float] = 1.0,
) -> Stacking:
    """Find mixture weights of components by their log scores on held-out rows.

    Args:
        log_scores: log p(yₙ) of each component on rows that it was not trained on, (N, M); for a
            predictive `predictive.log_scores(y).T`.
        groups: A label for each component; components of one label share their weight. None: each
            component is a group, labelled 0 … M − 1.
        pseudo_count: a ≥ 0, held-out rows that each group has in advance, one number or one for
            each group in their order. It pulls the weights to equality or to the shares of the
            groups in it, the more the fewer rows there are; 0 leaves it out.

    Returns:
        The weights, the scores of their mixture, and gains over the alternatives.

    Raises:
        ValueError: Shapes do not fit, or a row has no density under any component.

    Example:
        >>> scores = torch.cat([network.log_scores(y), draws.log_scores(y)]).T
        >>> stacking = stack(scores, ["network"] + ["draws"] * 30)
        >>> stacking.weights, stacking.gain("network")
    """
    log_p = _check_scores(log_scores)
    places, labels = _check_groups(groups, log_p.shape[1])
    counts = _check_counts(pseudo_count, len(labels))
    sizes = torch.bincount(places, minlength=len(labels)).double()
    grouped = _grouped(log_p, places, len(labels))
    weights, gap = _maximise(grouped, counts)
    return Stacking(
        weights=(weights / sizes)[places].to(log_scores.device),
        group_weights=dict(zip(labels, weights.tolist(), strict=True)),
        log_scores=(grouped + weights.log()).logsumexp(dim=1),
        equal_scores=log_p.logsumexp(dim=1) - math.log(log_p.shape[1]),
        group_scores=dict(zip(labels, grouped.T, strict=True)),
        gap=gap,
    )


def cross_validated_scores(
    log_scores: Tensor,
    groups: Sequence[Hashable] | None = None,
    *,
    pseudo_count: float | Sequence[float] = 1.0,
    folds: int = 10,
) -> Tensor:
    """Log scores of stacked mixtures on rows that did not choose their weights.

    Row n is scored with the weights of all rows but those of its fold, n mod `folds`.

    Args:
        log_scores: As for `stack`, (N, M).
        groups: As for `stack`.
        pseudo_count: As for `stack`.
        folds: Number of parts, from 2 to N.

    Returns:
        log p(yₙ), (N,).

    Raises:
        ValueError: An argument does not fit.

    Example:
        >>> honest = cross_validated_scores(scores, groups)
        >>> gain = (honest - stacking.group_scores["network"]).mean()
    """
    log_p = _check_scores(log_scores)
    if not 2 <= folds <= len(log_p):
        raise ValueError(f"folds: must lie between 2 and {len(log_p)} rows, got {folds}")
    fold = torch.arange(len(log_p)) % folds
    found = torch.empty(len(log_p), dtype=torch.float64)
    for number in range(folds):
        weights = stack(log_p[fold != number], groups, pseudo_count=pseudo_count).weights
        found[fold == number] = (log_p[fold == number] + weights.log()).logsumexp(dim=1)
    return found


def _check_scores(log_scores: Tensor) -> Tensor:
    log_p = torch.as_tensor(log_scores).detach().cpu().double()
    if log_p.ndim != 2 or 0 in log_p.shape:
        raise ValueError(
            f"log_scores: expected shape (rows, components), got {tuple(log_p.shape)}; give one "
            "row for each held-out target"
        )
    if log_p.isnan().any() or (log_p == math.inf).any():
        raise ValueError("log_scores: contain NaN or +inf; leave out components that failed")
    lost = (log_p == -math.inf).all(dim=1).nonzero().view(-1).tolist()
    if lost:
        raise ValueError(
            f"log_scores: rows {lost[:10]} have no density under any component, so no weights "
            "explain them; look at these targets"
        )
    return log_p


def _check_groups(
    groups: Sequence[Hashable] | None, components: int
) -> tuple[Tensor, list[Hashable]]:
    """The number of the group of each component, and the label of each group."""
    given = list(range(components)) if groups is None else list(groups)
    if len(given) != components:
        raise ValueError(f"groups: {len(given)} labels for {components} components")
    labels = list(dict.fromkeys(given))
    return torch.tensor([labels.index(label) for label in given]), labels


def _check_counts(pseudo_count: float | Sequence[float], groups: int) -> Tensor:
    """The pseudo-count of each group, (G,)."""
    counts = torch.as_tensor(pseudo_count, dtype=torch.float64).cpu()
    if not bool((counts.isfinite() & (counts >= 0)).all()):
        raise ValueError(f"pseudo_count: must be finite and not negative, got {pseudo_count}")
    if counts.ndim and counts.shape != (groups,):
        raise ValueError(
            f"pseudo_count: expected a number or one for each of {groups} groups, got "
            f"{pseudo_count}"
        )
    return counts.expand(groups)


def _grouped(log_p: Tensor, places: Tensor, groups: int) -> Tensor:
    """log of the average density of each group, (N, G)."""
    parts = [log_p[:, places == group] for group in range(groups)]
    return torch.stack([p.logsumexp(dim=1) - math.log(p.shape[1]) for p in parts], dim=1)


def _maximise(log_p: Tensor, counts: Tensor) -> tuple[Tensor, float]:
    """The weights, and a bound on J(best) − J."""
    rows, groups = log_p.shape
    total = rows + float(counts.sum())
    density = (log_p - log_p.amax(dim=1, keepdim=True)).exp()
    weights = log_p.new_full((groups,), 1 / groups)
    gap = math.inf
    for _ in range(MOST_STEPS):
        slope = density.T @ (density @ weights).reciprocal()
        # J is concave, so J(best) − J ≤ max ∇J − w·∇J.
        prior = torch.where(counts > 0, counts / weights, 0.0)
        gap = float((slope + prior).max()) - total
        if gap <= TOLERANCE * rows:
            break
        weights = (weights * slope + counts) / total
    return weights, gap
