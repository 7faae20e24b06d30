"""What draws predict: their outputs in bounded memory, as a predictive with their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from dims.model.training_data import Inputs
from dims.prediction.predictive import Predictive
from dims.sampling.draws.mixture import mixture_predictive

if TYPE_CHECKING:
    from dims.sampling.draws.container import Draws

__all__ = ["predict"]


def predict(
    draws: Draws, inputs: Inputs, batch_size: int | None, weights: Tensor | str | None
) -> Predictive:
    """See `Draws.predict`."""
    if len(draws) == 0:
        raise ValueError("draws: there are none to predict with; select or sample at least one")
    if isinstance(weights, str) and weights != "equal":
        raise ValueError(f"weights: {weights!r} is unknown; give 'equal', a tensor or None")
    if weights is None and draws.mixture is not None:
        return mixture_predictive(draws, inputs, batch_size)
    thetas = draws.parameters.to(draws.surface.vector.device)
    if draws.linearised:
        centre = draws.map_parameters.to(thetas.device)
        outputs = draws.surface.predict_linearised(centre, thetas, inputs, batch_size)
    else:
        outputs = draws.surface.predict(thetas, inputs, batch_size)
    broken = [i for i, draw in enumerate(outputs) if not draw.isfinite().all()]
    if broken:
        raise ValueError(
            f"draws: the outputs of {broken[:10]} are NaN or infinite there; leave those draws "
            "out with draws.select, or look at the inputs for outliers"
        )
    chosen = draws.weights if weights is None else weights
    predictive = draws.surface.likelihood.predictive(outputs)
    return predictive.with_weights(None if isinstance(chosen, str) else chosen)
