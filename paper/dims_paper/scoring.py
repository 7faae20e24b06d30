"""One road from draws to a row of a table: `draws.predict(x)`, then `.metrics(y)`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import dims
from dims.commands.pages.trajectories import rounded
from dims_paper.schema import PER_DRAW, Row, Scores

# Published likelihoods of LA look as if probabilities had been kept above this; ours are exact, and
# this metric stands beside them.
SMALLEST_PROBABILITY = 1e-10
CURVES = 30  # kept of each method; mean and spread are over all draws

Predictives = dict[str, Any]  # by part of the data


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Where methods are scored, and what is kept beside the metrics.

    Args:
        parts: Inputs and targets by the name of the part: train, test, gap.
        ood: Inputs of OOD sets; their scores are against the part "test".
        metrics: Scores of a predictive against targets.
        numbers: Further numbers of a row, from draws and the predictives of all parts.
        figure: What figures and pages draw of it, from the same.
    """

    parts: dict[str, tuple[Tensor, Tensor]]
    ood: dict[str, Tensor] = field(default_factory=dict)
    metrics: Callable[[Any, Tensor], Scores] = lambda predictive, targets: predictive.metrics(
        targets
    )
    numbers: Callable[[dims.Draws, Predictives], dict[str, float]] = lambda *_: {}
    figure: Callable[[dims.Draws, Predictives], dict[str, Any]] = lambda *_: {}

    def row(self, method: str, drawn: dims.Draws, **fields: Any) -> Row:
        """The row of these draws; `fields` are those of `Row` that are not scores."""
        device = drawn.parameters.device
        found = {name: drawn.predict(x.to(device)) for name, (x, _) in self.parts.items()}
        scores = {n: self.metrics(p, self.parts[n][1].to(device)) for n, p in found.items()}
        ood: dict[str, Scores] = {}
        for name, inputs in self.ood.items():
            found[name] = drawn.predict(inputs.to(device))
            ood[name] = found["test"].ood_metrics(found[name])
        numbers = {**fields.pop("numbers", {}), **self.numbers(drawn, found)}
        figure = self.figure(drawn, found)
        return Row(method=method, scores=scores, ood=ood, numbers=numbers, figure=figure, **fields)


def draws_of(surface: dims.LossSurface, thetas: Tensor) -> dims.Draws:
    """Parameter vectors as draws; their loss is not computed again."""
    return dims.Draws.from_parameters(surface, thetas, measure=False)


def diagnostics_of(draws: dims.Draws, *more: str) -> dict[str, Any]:
    """How the trajectory of each draw went, and further fields by name."""
    names = ("energy_violation", "evaluations", "loss", *more)
    found: dict[str, Any] = {name: getattr(draws, name).tolist() for name in names}
    return found | {"status": [status.name if status else None for status in draws.status]}


def classification_scores(predictive: Any, targets: Tensor) -> Scores:
    """All metrics, and the NLL with probabilities kept above a smallest one."""
    scores = dict(predictive.metrics(targets))
    log_p = predictive.log_probabilities
    picked = log_p.gather(-1, targets.expand(len(log_p), -1).unsqueeze(-1))
    clipped = -picked.clamp(min=math.log(SMALLEST_PROBABILITY)).mean()
    scores[PER_DRAW] = {**scores[PER_DRAW], "nll_clipped": float(clipped)}
    return scores


def calibration(predictive: Any, targets: Tensor) -> dict[str, Any]:
    """The reliability diagram of the ensemble; None: an empty bin."""
    top = dims.metrics.ensemble_log_probabilities(predictive.log_probabilities).max(dim=-1)
    correct = top.indices == targets.to(top.indices.device)
    found = dims.metrics.calibration_bins(top.values.exp().clamp(max=1.0), correct)
    return {name: rounded(values, 4) for name, values in found._asdict().items()}


def points(inputs: Tensor, targets: Tensor) -> list[list[float]]:
    """Pairs (x, y) of one-dimensional data."""
    return list(rounded(torch.stack([inputs.flatten(), targets.flatten()], dim=-1)))


def function_fields(outputs: Tensor) -> dict[str, Any]:
    """Some curves, and the mean and standard deviation of all; outputs are (S, grid)."""
    spread = outputs.std(0) if len(outputs) > 1 else torch.zeros_like(outputs[0])
    return {
        "curves": rounded(outputs[:CURVES], 4),
        "mean": rounded(outputs.mean(0), 4),
        "std": rounded(spread, 4),
    }


def movie(
    surface: dims.LossSurface, path: dims.Trajectories, grid: Tensor, method: str, draws: int
) -> dict[str, Any]:
    """The functions of the first draws at every saved time: curves (T, draws, grid)."""
    frames = [surface.predict(thetas[:draws], grid).squeeze(-1) for thetas in path.positions]
    return {
        "method": method,
        "times": rounded(path.times),
        "curves": rounded(torch.stack(frames), 3),
    }
