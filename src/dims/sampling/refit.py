"""The held-out rows learnt as well, once they have chosen what they had to choose.

What has been chosen with rows that were held out, as cross-validation does, is then fitted again on
all rows: prior and noise stay, θ* is walked to the minimum with these rows, and the draws start
there. Their weights are those that the rows gave to draws that had not seen them.
"""

from __future__ import annotations

from torch import nn

from dims.curvature.evidence import log_marginal_likelihood
from dims.model.parameters import Selection
from dims.sampling.gauss_newton import FitAt, walk_down
from dims.sampling.posterior import Posterior
from dims.surface.loss import LossSurface

__all__ = ["check_refit", "refitted"]


def check_refit(refit: bool, has_rows: bool, at_minimum: bool) -> None:
    """Refuse what cannot be fitted again."""
    if refit and not has_rows:
        raise ValueError("refit: there are no held-out rows to learn; give validation=(x, y)")
    if refit and not at_minimum:
        raise ValueError(
            "refit: it walks to the minimum with the held-out rows, and θ* is none yet; tune at "
            'minima, as tune="cautious" does, or give refine=True'
        )


def refitted(
    before: Posterior, model: nn.Module, parameters: Selection, fit_at: FitAt
) -> Posterior:
    """The posterior of all rows, with the same prior and noise; each row counts as before.

    Args:
        before: The posterior that has not seen its held-out rows.
        model: The trained network.
        parameters: Which of its parameters are sampled.
        fit_at: The curvature of a surface at a point.
    """
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
        before.refinement,
        before=before,
    )
