"""`mnist`: the parts of the experiment, each with its own file of results, made in any order.

* `subset`: the paper's settings. Curvature and motion on 1 000 images.
* `full`: the motion on all 60 000 images, whose likelihood counts as 1 000 points; or on a part of
  them that grows.
* `peers`: deep ensembles, a longer training, SWAG and a last-layer Laplace approximation.
* `ood`: what AUROC on OOD images depends on: the solver, and which images count as in distribution.

The trained network, the perturbations, the draws and one number an image of every row lie beside
them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import dims
from dims.model.torch_support.tf32 import float32_products
from dims_paper.cache import kept_run, write_json
from dims_paper.experiments.images.motion import Segment, fit_images, follow, initial_state
from dims_paper.experiments.images.run import ImageRun
from dims_paper.experiments.images.scores import distributions, load_per_image
from dims_paper.experiments.images.settings import (
    FullSettings,
    ImageSettings,
    PeerSettings,
    SubsetSettings,
)
from dims_paper.experiments.problem import Report
from dims_paper.schema import AUROC, PER_DRAW, Row, Run, Scores
from dims_paper.scoring import Evaluation, draws_of


def run_part(
    settings: ImageSettings,
    part: SubsetSettings | FullSettings | PeerSettings,
    out: Path,
    report: Report | None = None,
) -> Run:
    """A part of the experiment, from the folder if it is there.

    What older results lack is added from their numbers per image.
    """
    name = f"{settings.name}_{part.kind}"
    makers: dict[type, Any] = {SubsetSettings: _subset, FullSettings: _full, PeerSettings: _peers}
    path = out / f"{name}.json"
    make = makers[type(part)]
    result = kept_run(path, lambda: make(ImageRun(settings, out, name, report), part))
    lacking = False
    for index, row in enumerate(result.rows):
        file = out / "per_image" / f"{row.per_image}.safetensors"
        if "confidence" not in row.figure and file.exists():
            result.rows[index] = replace(row, figure=distributions(load_per_image(file)))
            lacking = True
    if lacking:
        write_json(path, result.to_json())
    return result


def samplers_of(
    subset: SubsetSettings, solver: str = "rattle"
) -> list[tuple[str, dims.RLA | dims.DiMS]]:
    """RLA and DiMS as the paper has them, saved at the times of its tables."""
    times = subset.times
    rla = dims.RLA(
        max_time=subset.rla_time, precondition=False, solver=solver, save_at=(subset.rla_time,)
    )
    falling = dims.DiMS(
        friction=subset.friction,
        max_time=times[-1],
        precondition=False,
        solver=solver,
        save_at=times,
        settle="none",
        certify=False,
        metric="euclidean",
    )
    return [("RLA", rla), ("DiMS", falling)]


@float32_products()
def _subset(run: ImageRun, subset: SubsetSettings) -> Run:
    run.say("curvature and evidence")
    posterior, facts = fit_images(
        run.trained, run.some(subset.points), curvature=subset.curvature, rank=subset.rank
    )
    surface, seed = posterior.surface, run.settings.seed
    theta = posterior.map_parameters.unsqueeze(0)
    run.add("MAP", draws_of(surface, theta))
    for label, method in (("LA", dims.LA()), ("LinLA", dims.LinLA())):
        run.add_made(
            label, partial(posterior.sample, subset.draws, method, seed=seed, progress=False)
        )
    for label, sampler in samplers_of(subset):
        for draws, fields in run.sampled(label, posterior, subset.draws, sampler):
            run.add(label, draws, **fields)
    return run.result(subset, surface, facts)


@float32_products()
def _full(run: ImageRun, full: FullSettings) -> Run:
    counts = full.images or (None,) * len(full.segments)
    run.say("curvature and evidence")
    start = initial_state(
        run.out / "draws" / f"{run.name}_initial.safetensors",
        run.trained,
        run.some(counts[0]),
        full.draws,
        run.settings.seed,
        curvature="low_rank",
        rank=full.rank,
        effective_points=full.effective_points,
    )
    run.add("MAP", draws_of(start.surface, start.position.unsqueeze(0)))
    surfaces = {counts[0]: run.fast(start.surface)}
    for count in set(counts[1:]) - {counts[0]}:
        surfaces[count] = run.fast(start.on(run.trained, run.some(count)))
    segments = [Segment(t, surfaces[count]) for t, count in zip(full.segments, counts, strict=True)]
    label, end = full.label, full.segments[-1][-1]
    seen: dict[float, Tensor] = {}
    fields: dict[str, Any] = {}
    for segment, kept in follow(
        segments,
        start.position,
        start.velocities,
        dims.dissipative(full.gravity, full.friction),
        lambda segment: run.file_of(label, segment.times[-1]),
        progress=lambda began: run.clock(label, began, end),
    ):
        images = segment.surface.points
        for draws, fields in run.looks(start.surface, kept, segment.times, full.friction, images):
            seen[fields["t1"]] = draws.parameters
            run.add(label, draws, **fields)
    _add_fewer(run, full, start.surface, seen, fields)
    return run.result(full, start.surface, start.facts)


def _add_fewer(
    run: ImageRun,
    full: FullSettings,
    surface: dims.LossSurface,
    seen: dict[float, Tensor],
    fields: dict[str, Any],
) -> None:
    """At the end also the first few draws, and all with half of them at an early time instead."""
    end = max(seen)
    last = seen[end]
    # The first of the draws, but not all of them once more.
    for size in (size for size in full.sizes if size < len(last)):
        few = draws_of(surface, last[:size])
        run.add(f"{full.label} ({size})", few, **{**fields, "draws": size})
    early = full.early
    if early in seen and early != end:
        half = len(last) // 2
        mixed = torch.cat([seen[early][:half], last[half:]])
        kept = {key: fields[key] for key in ("t1", "eta0", "draws", "seconds")}
        drawn = draws_of(surface, mixed)
        run.add(f"{full.label}, half at {early:g}", drawn, **kept)


def _peers(run: ImageRun, peers: PeerSettings) -> Run:
    model, s = run.trained, run.settings
    data = (run.images.inputs, run.images.targets)
    prior = peers.swag_prior
    surface = dims.LossSurface(model, data, "classification", prior)
    run.add("MAP", draws_of(surface, surface.initial.unsqueeze(0)))
    count = max(peers.sizes)
    seeds = range(peers.first_seed * (s.seed + 1), peers.first_seed * (s.seed + 1) + count)
    members, seconds = run.timed(partial(run.train, peers.training, seeds, "ensemble"))
    ensemble = dims.deep_ensemble(members, data, "classification", prior_precision=prior)
    run.add("MAP longer", ensemble.select(slice(1)), seconds=seconds / count)
    for size in peers.sizes:
        took = seconds * size / count
        run.add(f"Ensemble ({size})", ensemble.select(slice(size)), seconds=took, draws=size)
    run.add_made(
        "SWAG",
        partial(
            dims.swag,
            model,
            data,
            "classification",
            peers.draws,
            epochs=peers.swag_epochs,
            learning_rate=peers.swag_lr,
            rank=min(20, peers.swag_epochs),
            prior_precision=prior,
            seed=s.seed,
        ),
    )
    of_last = partial(dims.last_layer, model, data, "classification", peers.draws, seed=s.seed)
    run.add_made("Last-layer LA", of_last)
    return run.result(peers, None, {})


def run_ood(
    settings: ImageSettings,
    subset: SubsetSettings,
    out: Path,
    report: Report | None = None,
    solver: str = "rattle",
) -> Run:
    """A few draws at the paper's settings: MAP, RLA (by our solver alone) and DiMS.

    OOD images are separated from the test set, as everywhere else, and from the 1 000 training
    images that the draws were moved on.
    """
    name = f"{settings.name}_ood"
    path = out / f"{settings.name}_{solver}.json"
    return kept_run(path, lambda: _ood(ImageRun(settings, out, name, report), subset, solver))


@float32_products()
def _ood(run: ImageRun, subset: SubsetSettings, solver: str) -> Run:
    data = run.some(subset.points)
    run.say("curvature and evidence")
    posterior, facts = fit_images(run.trained, data, curvature=subset.curvature, rank=subset.rank)
    inside = {"test": run.evaluation.parts["test"], "training": data}

    def add(method: str, drawn: dims.Draws, **fields: Any) -> None:
        """Per-draw accuracy, NLL and AUROC against each OOD set, by in-distribution set."""
        scores: dict[str, Scores] = {}
        for name, images in inside.items():
            evaluation = Evaluation({"test": images}, ood=run.evaluation.ood)
            row = evaluation.row(method, drawn)
            found = {k: row.metric("test", k) for k in ("accuracy", "nll")}
            found |= {f"auroc_{n}": ood[PER_DRAW][AUROC] for n, ood in row.ood.items()}
            scores[name] = {PER_DRAW: found}
        run.rows.append(Row(method=method, scores=scores, **fields))

    theta = posterior.map_parameters.unsqueeze(0)
    add("MAP", draws_of(posterior.surface, theta), draws=1)
    for method, sampler in samplers_of(subset, solver):
        if method == "RLA" and solver != "rattle":
            continue  # its draws by the other solver are not compared here
        looks = run.sampled(f"{method} {solver}", posterior, subset.draws, sampler)
        for draws, fields in looks:
            add(method, draws, **fields)
    return run.result(subset, posterior.surface, facts | {"solver": solver})
