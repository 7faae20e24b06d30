"""One split of one set: everything is chosen inside the training part.

1. A network is trained on all training rows (its learning rate and length are chosen on a tenth of
   them), with one noise and with a noise that depends on the input and is nowhere below half of
   that one. `dims.fit` chooses prior and noise of each, and their leave-one-out scores choose
   between the two. `posterior.sample` gives the default answer.
2. With held-out rows: another network is trained on nine tenths of the training rows, and draws
   start at its minimum under the noise model, prior and noise of step 1. The other tenth weighs
   that network and these draws. The draws of step 1 then predict with these weights.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

import dims
from dims.prediction.metrics.detection import ood_auroc
from dims.sampling.leave_one_out import leave_one_out
from dims_paper.datasets.uci_regression import RegressionSplit
from far_inputs import far_inputs

Rows = tuple[Tensor, Tensor]
SMALLEST_SHARE = 0.5  # of the one noise, of a noise that depends on the input


@dataclass(frozen=True)
class Configuration:
    """One for all sets.

    Attributes:
        hidden: Hidden units; protein has twice as many, as in the published comparisons.
        epochs: Most epochs of training.
        draws: Number of draws; a third of them chooses weights.
        max_time: Of the motion; None: the sampler's default.
        ensemble: Members of a deep ensemble beside it; 0: none.
        held_out: Also weigh by held-out rows.
        device: Where networks are fitted and draws move.
        train_device: Where they are trained. Up to ten thousand rows a CPU is as fast as a GPU,
            whose steps are too small.
    """

    hidden: int = 50
    epochs: int = 200
    draws: int = 30
    max_time: float | None = None
    ensemble: int = 5
    held_out: bool = True
    device: str = "cpu"
    train_device: str = "cpu"


def run_split(name: str, data: RegressionSplit, seed: int, how: Configuration) -> dict[str, Any]:
    """Scores of one split, in the units of the data, and what was chosen."""
    how = replace(how, hidden=2 * how.hidden) if name == "protein" else how
    answers, seconds = {}, {}
    # Core-seconds do not depend on what else runs; a GPU has only the wall clock.
    now = time.process_time if how.device == "cpu" else time.perf_counter
    if how.ensemble:
        began = now()
        answers["ensemble"] = _ensemble(data.train, how, seed)
        seconds["ensemble"] = now() - began
    began = now()
    last = _fitted(data.train, how, seed)
    draws = _sample(last.posterior, how.draws, how, seed)
    seconds["default"] = now() - began
    answers |= {"default": draws, "network": last.alone}
    answers["draws alone"] = replace(draws, mixture=None)
    found: dict[str, Any] = {
        "configuration": asdict(how),
        "seconds": seconds,
        "noise": last.kind,
        "prior_precision": float(last.posterior.prior_precision),
        "noise_std": last.posterior.noise_std,
        "leave_one_out": last.scores,
        "gradients": float(draws.evaluations.double().mean()),
    }
    if how.held_out:
        unseen = _unseen(last, *_held_out(data.train, seed), how, seed)
        weighing = _sample(unseen, max(1, how.draws // 3), how, seed)
        assert draws.mixture is not None
        assert weighing.mixture is not None
        weights = weighing.mixture.weights
        answers["held out"] = replace(draws, mixture=replace(draws.mixture, weights=weights))
        found["weights"] = weighing.mixture.named_weights(weighing.times.tolist())
        seconds["held out"] = now() - began
    found["scores"] = {key: _scores(each, data, seed) for key, each in answers.items()}
    return found


@dataclass(frozen=True, eq=False)
class _Fitted:
    """The network and posterior of the better noise model."""

    alone: dims.Draws
    posterior: dims.Posterior
    kind: str
    scores: dict[str, float]


def _fitted(rows: Rows, how: Configuration, seed: int) -> _Fitted:
    made = {}
    for kind, alone in _both(rows, 1, how, seed).items():
        likelihood = alone.surface.likelihood
        if kind == "constant":
            likelihood = "regression"  # whose noise is open
        module = alone.to_module(0).to(how.device)
        posterior = dims.fit(module, _on(rows, how.device), likelihood, progress=False)
        made[kind] = (alone, posterior)
    scores = {kind: _leave_one_out(posterior) for kind, (_, posterior) in made.items()}
    best = max(scores, key=scores.__getitem__)
    return _Fitted(*made[best], best, scores)


def _unseen(
    last: _Fitted, rows: Rows, held_out: Rows, how: Configuration, seed: int
) -> dims.Posterior:
    """Of a network that has not seen the held-out rows: trained, and walked to its minimum."""
    likelihood: dims.Likelihood | str = "regression"
    if last.kind == "input":
        likelihood = last.alone.surface.likelihood  # the smallest noise included
    outputs = last.alone.surface.outputs
    module = _train(rows, likelihood, outputs, 1, how, seed).to_module(0).to(how.device)
    return dims.fit(
        module,
        _on(rows, how.device),
        last.posterior.surface.likelihood,
        prior_precision=last.posterior.prior_precision,
        tune="leave_one_out" if last.kind == "input" else "minimum",  # as the walks of step 1
        validation=_on(held_out, how.device),
        progress=False,
    )


def _leave_one_out(posterior: dims.Posterior) -> float:
    """Of the chosen prior and noise, in nats."""
    return leave_one_out(posterior.surface, posterior.map_parameters, posterior.curvature).score


def _sample(posterior: dims.Posterior, count: int, how: Configuration, seed: int) -> dims.Draws:
    end = dims.DiMS.max_time if how.max_time is None else how.max_time
    options: dict[str, Any] = {"save_at": (end / 3,), "max_time": end, "certify": False}
    return posterior.sample(count, seed=seed, progress=False, **options)


def _ensemble(rows: Rows, how: Configuration, seed: int) -> dims.Draws:
    """The opponent: of both noise models the one with the better held-out score."""
    return min(_both(rows, how.ensemble, how, seed).values(), key=_held_out_nll)


def _held_out_nll(members: dims.Draws) -> float:
    """Of the best learning rate; those that diverged have none."""
    return min(tried["nll"] for tried in members.settings["tried"] if tried["nll"] is not None)


def _both(rows: Rows, members: int, how: Configuration, seed: int) -> dict[str, dims.Draws]:
    """Networks with one noise, and with one that depends on the input."""
    constant = _train(rows, "regression", 1, members, how, seed)
    noise_std = constant.surface.likelihood.noise_std
    assert noise_std is not None
    by_input = dims.HeteroscedasticGaussian(SMALLEST_SHARE * noise_std)
    return {"constant": constant, "input": _train(rows, by_input, 2, members, how, seed)}


def _train(
    rows: Rows,
    likelihood: dims.Likelihood | str,
    outputs: int,
    members: int,
    how: Configuration,
    seed: int,
) -> dims.Draws:
    """Learning rate and length by a tenth of the rows, after which all of them are trained on."""
    columns = rows[0].shape[1]

    def make() -> nn.Module:
        layers = nn.Linear(columns, how.hidden), nn.Tanh(), nn.Linear(how.hidden, outputs)
        return nn.Sequential(*layers).to(rows[0])

    rows = _on(rows, how.train_device)
    options: dict[str, Any] = {"members": members, "epochs": how.epochs, "validation": 0.1}
    return dims.train_ensemble(make, rows, likelihood, seed=seed, progress=False, **options)


def _held_out(rows: Rows, seed: int) -> tuple[Rows, Rows]:
    """Nine tenths and one tenth by chance, with another seed than that of the first weights."""
    order = torch.randperm(len(rows[0]), generator=torch.Generator().manual_seed(10_000 + seed))
    count = max(1, len(order) // 10)
    part = (order[count:], order[:count])
    return (rows[0][part[0]], rows[1][part[0]]), (rows[0][part[1]], rows[1][part[1]])


def _on(rows: Rows, device: str | torch.device) -> Rows:
    return rows[0].to(device), rows[1].to(device)


def _scores(draws: dims.Draws, data: RegressionSplit, seed: int) -> dict[str, float]:
    """NLL and RMSE in the units of the data, coverage of 95 % intervals, AUROC far away."""
    inputs, targets = _on(data.test, draws.surface.vector.device)
    here = draws.predict(inputs)
    found = here.metrics(targets)["ensemble"]
    scale = torch.tensor(data.target_scale)
    auroc = {
        f"auroc {name}": float(ood_auroc(here.variance.sum(-1), draws.predict(x).variance.sum(-1)))
        for name, x in far_inputs(inputs, seed).items()
    }
    return {
        "nll": found["nll"] + float(scale.log()),
        "rmse": found["rmse"] * data.target_scale,
        "coverage": found["coverage"],
        **auroc,
    }
