"""The held-out rows learnt as well, once they have chosen what they had to choose.

What has been chosen with rows that were held out, as cross-validation does, is then fitted again on
all rows: prior and noise stay, θ* is walked to the minimum with these rows, and the draws start
there. Their weights are those that the rows gave to draws that had not seen them.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from dims.curvature.evidence import log_marginal_likelihood
from dims.model.augmentation import passes_of
from dims.model.parameters import Selection
from dims.model.training_data import TrainingData
from dims.sampling.draws.unseen import checked_unseen
from dims.sampling.evidence_minimum import EvidencePath
from dims.sampling.gauss_newton import FitAt, walk_down
from dims.sampling.posterior import Posterior
from dims.sampling.starts import at_minimum_of
from dims.surface.loss import LossSurface

__all__ = ["held_out_rows", "refitted"]


def held_out_rows(
    validation: Any, surface: LossSurface, refit: bool, data: Any
) -> TrainingData | None:
    """Rows that a network has not seen, as its surface takes them.

    Raises:
        ValueError: They do not suit the surface, or are to be learnt and cannot be.
    """
    if refit and validation is None:
        raise ValueError("refit: there are no held-out rows to learn; give validation=(x, y)")
    if refit and passes_of(data) > 1:
        raise ValueError(
            "refit: the training data hold several augmented passes over their points and the "
            "held-out rows one, so that they would count for less; give one pass or no refit"
        )
    return None if validation is None else checked_unseen(validation, surface)


def refitted(
    before: Posterior, model: nn.Module, parameters: Selection, fit_at: FitAt
) -> Posterior:
    """The posterior of all rows, with the same prior and noise; each row counts as before.

    Args:
        before: The posterior that has not seen its held-out rows.
        model: The trained network.
        parameters: Which of its parameters are sampled.
        fit_at: The curvature of a surface at a point.

    Raises:
        ValueError: θ* is not a minimum.
    """
    if not isinstance(before.evidence, EvidencePath) and before.refinement is None:
        raise ValueError(
            "refit: it walks to the minimum with the held-out rows, and θ* is none yet; leave "
            'prior or noise to tune="cautious", or give refine=True'
        )
    old, rows = before.surface, before.validation
    assert rows is not None
    data = old.data.with_rows(rows)
    surface = LossSurface(
        model,
        data,
        old.likelihood,
        old.prior_precision,
        effective_points=old.effective_points * len(data.targets) / old.points,
        loss_scale=old.loss_scale,
        parameters=parameters,
        memory_budget=old.memory_budget,
    )
    walk = walk_down(surface, before.map_parameters, fit_at)
    _, gradient = surface.value_and_grad(walk.theta.unsqueeze(0))
    value = log_marginal_likelihood(surface, walk.theta, walk.curvature.absolute())
    return Posterior(
        surface,
        walk.theta,
        walk.curvature,
        gradient[0],
        value,
        before.evidence,
        before=before,
        others=tuple(
            at_minimum_of(surface, other.network, other.map_parameters, fit_at)
            for other in before.others
        ),
    )
