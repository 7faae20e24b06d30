"""`compare`: all methods on a user's own network and data, resumable, on the same test rows."""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from dims.baselines.comparison import Comparison, MethodScores
from dims.baselines.contestants import BY_EVIDENCE, CONTESTANTS, Contest
from dims.baselines.row_scores import error_rows, nll_rows, reliability
from dims.errors import StoreError
from dims.model.likelihoods import Likelihood
from dims.model.shapes import check_integer, check_positive
from dims.model.training_data import TrainingData
from dims.sampling.draws import Draws
from dims.sampling.draws.unseen import checked_unseen
from dims.sampling.files import write_text_atomically
from dims.sampling.progress import part_reporter
from dims.sampling.samplers import Sampler
from dims.sampling.settings import encode
from dims.sampling.store.manifest import fingerprint
from dims.surface.loss import LossSurface

__all__ = ["COMPARISON", "compare", "read_comparison"]

COMPARISON = "comparison.json"


def compare(
    model: nn.Module,
    data: Any,
    likelihood: str | Likelihood,
    *,
    validation: Any,
    test: Any,
    ood: Any = None,
    methods: Sequence[str] | None = None,
    draws: int = 30,
    members: int = 5,
    sampler: str | Sampler = "dims",
    curvature: str = "full",
    target_scale: float = 1.0,
    seed: int = 0,
    store: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[float], None] = True,
) -> Comparison:
    """Compare methods on your own network and data: scores, calibration, OOD detection, seconds.

    All methods may choose by the same held-out rows, and are scored on the same test rows. A method
    that fails is listed with its reason; the others go on.

    Args:
        model: The trained network, in eval mode.
        data: Its training data.
        likelihood: "regression", "classification" or a `Likelihood` object.
        validation: Rows (x, y) that the network has never seen, for methods to choose by.
        test: Other such rows, to score on.
        ood: Inputs of another kind, for out-of-distribution detection.
        methods: Names out of "network", "temperature", "mc_dropout", "last_layer", "linla", "swag",
            "deep_ensemble", "rla", "dims"; None: all. The network is always included.
        draws: Draws of each sampling method.
        members: Members of the ensemble.
        sampler: What "dims" samples with, such as `dims.DiMS(friction=0.5)`.
        curvature: As in `dims.fit`.
        target_scale: What you divided the targets of a regression by: scores are in their units.
        seed: Of everything random.
        store: Folder that keeps finished methods; the same call goes on after an interruption.
        progress: Show a bar in a terminal, or a function to call with the part that is done.

    Returns:
        Scores of each method; `print` shows a table and says which one to take.

    Raises:
        ValueError: An argument does not fit, or a method is unknown.
        StoreError: The folder holds another comparison.

    Example:
        >>> print(dims.compare(model, (x, y), "regression", validation=(xv, yv), test=(xt, yt)))
    """
    names, surface = _check_methods(methods), LossSurface(model, data, likelihood)
    scale = _check_scale(target_scale, surface)
    rows, judged = checked_unseen(validation, surface), checked_unseen(test, surface, "test")
    draws, members = check_integer("draws", draws), check_integer("members", members)
    made = Contest(model, data, likelihood, rows, surface, draws, sampler, curvature, members, seed)
    kept = None if store is None else _Kept(Path(store), _manifest(made, judged, ood, scale))
    with part_reporter(progress, "comparing") as report:
        scores = _all_scores(names, made, _Test(judged, ood, scale), kept, report)
        return Comparison(surface.likelihood.task, scores, scale)


class _Test(NamedTuple):
    """What is scored, and in which units."""

    rows: TrainingData
    ood: Any
    scale: float


def _all_scores(
    names: list[str],
    contest: Contest,
    test: _Test,
    kept: _Kept | None,
    report: Callable[[float], None],
) -> list[MethodScores]:
    """Each method, from the folder where it is there."""
    found: list[MethodScores] = []
    for number, name in enumerate(names):
        report(number / len(names))
        scores = None if kept is None else kept.read(name)
        if scores is None:
            scores = _scored(name, contest, test)
            if name == "network" and scores.problem:  # what all others are compared with
                raise ValueError(f"model: its test rows cannot be scored ({scores.problem})")
            if kept is not None:
                kept.write(scores)
        found.append(scores)
    report(1.0)
    return found


def _check_methods(methods: Sequence[str] | None) -> list[str]:
    chosen = list(CONTESTANTS) if methods is None else ["network", *methods]
    unknown = [name for name in chosen if name not in CONTESTANTS]
    if unknown:
        raise ValueError(f"methods: {unknown} are unknown; there are {', '.join(CONTESTANTS)}")
    return list(dict.fromkeys(chosen))


def _refuse_positions(surface: LossSurface) -> None:
    if surface.likelihood.takes_positions:
        raise ValueError(
            "likelihood: compare scores one target a row, and this likelihood has labels at many "
            "positions; compare draws.predict(x).metrics(y) of each method"
        )


def _check_scale(scale: Any, surface: LossSurface) -> float:
    _refuse_positions(surface)
    checked = check_positive("target_scale", scale)
    if checked != 1 and surface.likelihood.task != "regression":
        raise ValueError(
            f"target_scale: {checked:g} has no meaning for {surface.likelihood.task}; leave it out"
        )
    return checked


def _scored(name: str, contest: Contest, test: _Test) -> MethodScores:
    """One method; its warnings become notes, and its failure takes no other method along."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = CONTESTANTS[name](contest)
            seconds = time.perf_counter() - began
            scores = _scores(name, made, seconds, test)
            scores = replace(scores, **_noise(name, made, contest, test.scale))
        except (ValueError, RuntimeError, ArithmeticError, MemoryError) as error:
            reason = " ".join(str(error).split())
            scores = MethodScores(name, time.perf_counter() - began, problem=reason)
    notes = dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
    return replace(scores, notes=list(notes))


def _scores(name: str, made: Draws, seconds: float, test: _Test) -> MethodScores:
    targets = test.rows.targets
    predictive = made.predict(test.rows.inputs)
    ensemble = predictive.metrics(targets)["ensemble"]
    detected = None
    if test.ood is not None:
        scores = predictive.ood_metrics(made.predict(test.ood))["ensemble"]
        detected = next(iter(scores.values()))
    diagram = reliability(predictive, targets)
    # p(y) of a target y = s·z is p(z)/s in each output.
    outputs = targets[0].numel() if test.scale != 1 else 0
    nll = nll_rows(predictive, targets) + outputs * math.log(test.scale)
    mixture = made.mixture
    return MethodScores(
        method=name,
        seconds=seconds,
        nll=nll.tolist(),
        error=(error_rows(predictive, targets) * test.scale**2).tolist(),
        calibration=ensemble.get("ece", ensemble.get("coverage")),
        ood=detected,
        promised=diagram.promised,
        observed=diagram.observed,
        inputs=diagram.rows,
        weight_on_network=None if mixture is None else float(mixture.weights[0]),
    )


def _noise(name: str, made: Draws, contest: Contest, scale: float) -> dict[str, Any]:
    """σ in the units of the scores, and what chose it; nothing where there is no single σ."""
    noise = made.surface.likelihood.noise_std
    if noise is None:
        return {}
    source = "evidence" if name in BY_EVIDENCE else "held-out rows"
    return {
        "noise_std": noise * scale,
        "noise_from": source if contest.open_noise else "",
    }


def _manifest(contest: Contest, test: TrainingData, ood: Any, scale: float) -> dict[str, Any]:
    """What the results depend on."""
    surface = contest.surface
    sets = {"validation": contest.validation, "test": test}
    if ood is not None:
        sets["ood"] = TrainingData(ood, test.targets[:1])
    prints = {"data": fingerprint(surface, surface.initial)}
    for name, rows in sets.items():
        other = surface.with_settings()
        other.data = rows
        prints[name] = fingerprint(other, surface.initial)
    sampler = contest.sampler
    how = sampler if isinstance(sampler, str) else [sampler.name, sampler.settings]
    # Folders of earlier versions go on where the scores are the same.
    later: dict[str, Any] = {} if scale == 1 else {"target_scale": scale}
    if contest.open_noise:
        later["noise"] = "held-out rows"  # of the network; once it was that of its training rows
    return {
        "task": surface.likelihood.task,
        "draws": contest.draws,
        "members": contest.members,
        "sampler": encode("sampler", how) if isinstance(how, str) else how,
        "curvature": contest.curvature,
        "seed": contest.seed,
        "fingerprints": prints,
    } | later


class _Kept:
    """Finished methods in a folder: one file says what is compared, one each what was found."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / COMPARISON
        wanted = json.loads(json.dumps(manifest))
        if path.exists():
            if json.loads(path.read_text("utf-8")) != wanted:
                raise StoreError(
                    f"store: {folder} holds another comparison (other data, network or "
                    "settings, or of an earlier version); give another folder"
                )
        else:
            write_text_atomically(path, json.dumps(wanted))

    def read(self, method: str) -> MethodScores | None:
        path = self.folder / f"{method}.json"
        return MethodScores(**json.loads(path.read_text("utf-8"))) if path.exists() else None

    def write(self, scores: MethodScores) -> None:
        path = self.folder / f"{scores.method}.json"
        write_text_atomically(path, json.dumps(scores.to_json()))


def read_comparison(folder: str | os.PathLike[str]) -> Comparison:
    """The finished methods of a folder.

    Args:
        folder: What `compare` had as `store`.

    Returns:
        The comparison as far as it is done.

    Raises:
        StoreError: There is no comparison, or a file is damaged.
    """
    place = Path(folder)
    try:
        manifest = json.loads((place / COMPARISON).read_text("utf-8"))
        task, scale = manifest["task"], float(manifest.get("target_scale", 1.0))
        files = [place / f"{name}.json" for name in CONTESTANTS]
        found = [MethodScores(**json.loads(f.read_text("utf-8"))) for f in files if f.exists()]
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise StoreError(f"{place}: is not the folder of a comparison ({error})") from error
    if not found or found[0].method != "network":
        raise StoreError(f"{place}: no method is finished yet; call compare again")
    return Comparison(task, found, scale)
