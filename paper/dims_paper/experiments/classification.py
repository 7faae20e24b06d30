"""What banana and the UCI sets share: one trained network, five or more ways to draw from it."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from dims.commands.pages.trajectories import rounded
from dims.errors import NotAMinimumWarning
from dims.mechanics.batch import Progress
from dims.model.likelihoods import Categorical
from dims.prediction.metrics import (
    calibration_bins,
    classification_metrics,
    ensemble_log_probabilities,
)
from dims.sampling.fit import fit
from dims.sampling.posterior import Posterior
from dims.sampling.settle import settle
from dims_paper.datasets.splits import Split
from dims_paper.experiments.runs import percent

__all__ = ["Method", "evaluate", "methods", "moved", "posterior_of", "score_outputs"]

Report = Callable[[str], None]

# Published likelihoods of LA look as if probabilities had been kept above this; ours are exact, and
# this reading stands beside them.
SMALLEST_PROBABILITY = 1e-10


@dataclass(frozen=True)
class Method:
    """A row of a table: its name there, and how its draws are made."""

    name: str
    sampler: str  # "map" draws nothing
    settings: dict[str, Any]
    t1: float | None = None
    eta0: float | None = None


def methods(frictions: tuple[float, ...], max_time: float) -> list[Method]:
    """MAP, LA, LinLA, RLA and DiMS as in the paper, and DiMS settled, which the paper has not."""
    faithful = {"precondition": False}
    rows = [
        Method("MAP", "map", {}),
        Method("LA", "la", {}),
        Method("LinLA", "linla", {}),
        Method("RLA", "rla", faithful, t1=1.0),
    ]
    for eta0 in frictions:
        how = {**faithful, "friction": eta0, "max_time": max_time, "certify": False}
        rows.append(Method("DiMS", "dims", {**how, "settle": "none"}, t1=max_time, eta0=eta0))
    return rows


def evaluate(
    model: nn.Module,
    split: Split,
    rows: list[Method],
    *,
    label_smoothing: float = 0.0,
    draws: int,
    seed: int,
    curvature_kind: str = "ggn",
    report: Report | None = None,
    grid: Tensor | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Fit a posterior to the network and score every method on training and test points.

    With a grid of inputs, the predictions there are kept for maps of the uncertainty. On a GPU the
    motion is compiled: its step is too short to be told to the device piece by piece.
    """
    say = report or (lambda _: None)
    split, grid = moved(split, device), None if grid is None else grid.to(device)
    say("curvature and evidence")
    posterior = posterior_of(model.to(device), split, label_smoothing, curvature_kind)
    result: dict[str, Any] = {
        "seed": seed,
        "draws": draws,
        "parameters": posterior.surface.size,
        "prior_precision": posterior.prior_precision,
        "gradient_norm": posterior.gradient_norm,
        "log_marginal_likelihood": posterior.log_marginal_likelihood,
        "rows": [],
    }
    for method in rows:
        name = method.name + (f" (η₀ = {method.eta0})" if method.eta0 is not None else "")
        say(name)
        result["rows"] += _score(method, posterior, split, draws, seed, grid, percent(say, name))
    return result


def posterior_of(
    model: nn.Module, split: Split, label_smoothing: float = 0.0, curvature_kind: str = "ggn"
) -> Posterior:
    """The posterior of a network where its training with dropout ended, which is no minimum of
    the loss without; the published runs start there all the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotAMinimumWarning)
        return fit(
            model,
            (split.train_inputs, split.train_targets),
            Categorical(label_smoothing),
            curvature_kind=curvature_kind,
        )


def moved(split: Split, device: str) -> Split:
    """The split with its tensors on a device."""
    tensors: dict[str, Any] = {
        k: v.to(device) for k, v in vars(split).items() if isinstance(v, Tensor)
    }
    return replace(split, **tensors)


def _score(
    method: Method,
    posterior: Posterior,
    split: Split,
    draws: int,
    seed: int,
    grid: Tensor | None,
    progress: Callable[[Progress], None],
) -> list[dict[str, Any]]:
    """The entry of a method; DiMS gives a second one, for the same draws settled."""
    began = time.perf_counter()
    entry: dict[str, Any] = {
        "method": method.name,
        "t1": method.t1,
        "eta0": method.eta0,
    }
    if method.sampler == "map":
        thetas = posterior.map_parameters.unsqueeze(0)
        return [
            {**entry, **score_outputs(lambda x: posterior.surface.predict(thetas, x), split, grid)}
        ]
    how = dict(method.settings)
    if method.sampler in ("rla", "dims") and posterior.map_parameters.is_cuda:
        how["compile"] = True
    drawn = posterior.sample(draws, method=method.sampler, seed=seed, progress=progress, **how)

    def log_probabilities(x: Tensor) -> Tensor:
        return drawn.predict(x).log_probabilities  # type: ignore[attr-defined]

    entry["seconds"] = time.perf_counter() - began
    if method.sampler in ("rla", "dims"):
        entry["energy_violation"] = drawn.energy_violation.tolist()
        entry["evaluations"] = drawn.evaluations.tolist()
        entry["loss"] = drawn.loss.tolist()
        entry["status"] = [status.name if status else None for status in drawn.status]
    entry |= _scores(log_probabilities, split, grid)
    entries = [entry]
    if method.sampler == "dims":
        rested = settle(posterior.surface, drawn.parameters).positions
        loss = posterior.surface.value(rested).tolist()
        settled = {**entry, "method": "DiMS settled", "loss": loss}
        entries.append(
            {
                **settled,
                **score_outputs(lambda x: posterior.surface.predict(rested, x), split, grid),
            }
        )
    return entries


def score_outputs(
    outputs: Callable[[Tensor], Tensor], split: Split, grid: Tensor | None
) -> dict[str, Any]:
    """All scores of draws whose networks give these outputs (S, N, C)."""
    return _scores(lambda x: torch.log_softmax(outputs(x), dim=-1), split, grid)


def _scores(
    log_probabilities: Callable[[Tensor], Tensor], split: Split, grid: Tensor | None
) -> dict[str, Any]:
    parts = (
        ("train", split.train_inputs, split.train_targets),
        ("test", split.test_inputs, split.test_targets),
    )
    scores: dict[str, Any] = {}
    for name, inputs, targets in parts:
        log_p = log_probabilities(inputs)
        metrics = dict(classification_metrics(log_p, targets))
        picked = log_p.gather(-1, targets.expand(len(log_p), -1).unsqueeze(-1))
        clipped = -picked.clamp(min=math.log(SMALLEST_PROBABILITY)).mean()
        metrics["per_sample"] = {**metrics["per_sample"], "nll_clipped": float(clipped)}
        scores[name] = metrics
    # `log_p` and `targets` are the test points' here.
    scores["calibration"] = _calibration(log_p, targets)
    if grid is not None:
        probability = log_probabilities(grid)[..., 1].exp()
        scores["map"] = {
            "probability": rounded(probability.mean(0), 3),
            "variance": rounded(probability.var(0, correction=0), 3),
        }
    return scores


def _calibration(log_p: Tensor, targets: Tensor) -> dict[str, Any]:
    """The reliability diagram of the averaged predictive on test points; None: an empty bin."""
    top = ensemble_log_probabilities(log_p).max(dim=-1)
    found = calibration_bins(top.values.exp().clamp(max=1.0), top.indices == targets)
    return {name: rounded(values, 4) for name, values in found._asdict().items()}
