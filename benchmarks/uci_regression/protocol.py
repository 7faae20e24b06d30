"""One split of one set: everything is chosen inside the training part.

1. A tenth of the training rows, B, is set aside. A network is trained on the others (its learning
   rate, length and noise model are chosen on a tenth of these), prior and noise are tuned at the
   minimum of each candidate, draws are sampled, and B weighs the network and the draws' times.
2. The same on all training rows, with these weights. That answer is scored on the test rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

import dims
from dims.sampling.draws.mixture import Mixture
from dims_paper.datasets.uci_regression import RegressionSplit

Rows = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Configuration:
    """One for all sets.

    Attributes:
        hidden: Hidden units; protein has twice as many, as in the published comparisons.
        epochs: Most epochs of training.
        draws: Number of draws.
        times: Times of the trajectories that are weighed; the last one ends them.
        noise: "constant", "input" (it depends on the input), or "chosen" on held-out rows.
        metric: Of the motion; None: the sampler's default.
        shared_rows: Weigh by the rows that chose the length of training, to see what it costs.
        ensemble: Also train a deep ensemble of so many members; 0: none.
    """

    hidden: int = 50
    epochs: int = 200
    draws: int = 30
    times: tuple[float, ...] = (0.3, 1.0, 3.0)
    noise: str = "chosen"
    metric: str | None = None
    shared_rows: bool = False
    ensemble: int = 0

    def sampler(self) -> dims.DiMS:
        chosen = {} if self.metric is None else {"metric": self.metric}
        *saved, end = self.times
        return dims.DiMS(save_at=tuple(saved), max_time=end, certify=False, **chosen)


def run_split(name: str, data: RegressionSplit, seed: int, how: Configuration) -> dict[str, Any]:
    """Scores of one split, in the units of the data, and what was chosen."""
    hidden = 2 * how.hidden if name == "protein" else how.hidden
    began = time.perf_counter()
    kept, weighing = _held_out(data.train, seed)
    first = _trained(kept, hidden, how, seed, weighing if how.shared_rows else 0.1)
    weights, prior = _weights(first, kept, weighing, how, seed)
    last = _trained(data.train, hidden, how, seed, 0.1)
    posterior = last.fit(data.train)
    draws = posterior.sample(how.draws, how.sampler(), seed=seed, progress=False)
    stacked = replace(draws, mixture=Mixture(posterior.surface.initial, weights))
    seconds = time.perf_counter() - began
    # The network alone has the noise of its own held-out residuals, not that of the posterior.
    answers = {"stacked": stacked, "network": last.alone, "end": draws}
    answers["times"] = draws.across_times() if len(how.times) > 1 else draws
    found: dict[str, Any] = {
        "configuration": asdict(how),
        "seconds": seconds,
        "noise": last.noise,
        "learning_rate": last.learning_rate,
        "epochs": last.epochs,
        "prior_precision": [prior, posterior.prior_precision],
        "weights": weights.tolist(),
        "scores": {key: _scores(each, data) for key, each in answers.items()},
    }
    if how.ensemble:
        began = time.perf_counter()
        members = _train(data.train, hidden, last.noise, how.ensemble, how, seed, 0.1)
        found["scores"]["ensemble"] = _scores(members, data)
        found["ensemble_seconds"] = time.perf_counter() - began
    return found


@dataclass(frozen=True, eq=False)
class _Network:
    """A trained network, and what was chosen in its training."""

    module: nn.Module
    alone: dims.Draws
    noise: str
    learning_rate: float
    epochs: int

    def fit(self, rows: Rows, validation: Rows | None = None) -> dims.Posterior:
        likelihood = _likelihood(self.noise)
        return dims.fit(self.module, rows, likelihood, tune="minimum", validation=validation)


def _weights(
    network: _Network, kept: Rows, rows: Rows, how: Configuration, seed: int
) -> tuple[Tensor, float]:
    """Weights of the network and of the times, by rows that the network was not trained on."""
    posterior = network.fit(kept, validation=rows)
    draws = posterior.sample(how.draws, how.sampler(), seed=seed, progress=False)
    if draws.mixture is None:
        raise RuntimeError("the draws could not be weighed; see the warning above")
    return draws.mixture.weights, float(posterior.prior_precision)


def _trained(
    rows: Rows, hidden: int, how: Configuration, seed: int, validation: float | Rows
) -> _Network:
    """The network whose held-out score is best, over both noise models where that is open."""
    kinds = ("constant", "input") if how.noise == "chosen" else (how.noise,)
    made = {kind: _train(rows, hidden, kind, 1, how, seed, validation) for kind in kinds}
    kind = min(kinds, key=lambda kind: _held_out_nll(made[kind]))
    chosen = made[kind]
    module = _maker(rows, hidden, kind)()
    nn.utils.vector_to_parameters(chosen.parameters[0], module.parameters())
    rate, epochs = chosen.settings["learning_rate"], chosen.settings["epochs"][0]
    return _Network(module, chosen, kind, rate, epochs)


def _held_out_nll(members: dims.Draws) -> float:
    """Of the best learning rate; those that diverged have none."""
    return min(tried["nll"] for tried in members.settings["tried"] if tried["nll"] is not None)


def _train(
    rows: Rows,
    hidden: int,
    kind: str,
    members: int,
    how: Configuration,
    seed: int,
    validation: float | Rows,
) -> dims.Draws:
    """Learning rate and length by a held-out part, after which all rows are trained on, or by
    other rows."""
    options: dict[str, Any] = {"members": members, "epochs": how.epochs, "validation": validation}
    make = _maker(rows, hidden, kind)
    return dims.train_ensemble(make, rows, _likelihood(kind), seed=seed, progress=False, **options)


def _maker(rows: Rows, hidden: int, kind: str) -> Callable[[], nn.Module]:
    outputs = 2 if kind == "input" else 1
    return lambda: nn.Sequential(
        nn.Linear(rows[0].shape[1], hidden), nn.Tanh(), nn.Linear(hidden, outputs)
    ).to(rows[0].dtype)


def _likelihood(kind: str) -> dims.Likelihood | str:
    return dims.HeteroscedasticGaussian() if kind == "input" else "regression"


def _held_out(rows: Rows, seed: int) -> tuple[Rows, Rows]:
    """Nine tenths and one tenth by chance, with another seed than that of the first weights."""
    order = torch.randperm(len(rows[0]), generator=torch.Generator().manual_seed(10_000 + seed))
    count = max(1, len(order) // 10)
    part = (order[count:], order[:count])
    return (rows[0][part[0]], rows[1][part[0]]), (rows[0][part[1]], rows[1][part[1]])


def _scores(draws: dims.Draws, data: RegressionSplit) -> dict[str, float]:
    """NLL and RMSE in the units of the data, and coverage of 95 % intervals."""
    found = draws.predict(data.test[0]).metrics(data.test[1])["ensemble"]
    scale = torch.tensor(data.target_scale)
    return {
        "nll": found["nll"] + float(scale.log()),
        "rmse": found["rmse"] * data.target_scale,
        "coverage": found["coverage"],
    }
