"""`mnist`: LeNet on MNIST or Fashion-MNIST; the paper's tables, the whole training set, and peers.

Three parts, each with its own file of results, which can be made apart and in any order:

* `subset`: the paper's settings. Curvature and motion on 1 000 images.
* `full`: the motion on all 60 000 images, whose likelihood counts as 1 000 points; or on a part of
  them that grows.
* `peers`: deep ensembles, a longer training, SWAG and a last-layer Laplace approximation.

The trained network, the start velocities, the draws and one number an image of every row lie beside
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from dims.baselines.last_layer import last_layer
from dims.baselines.swag import swag
from dims.mechanics.dynamics import dissipative, geodesic
from dims.model.torch_support.tf32 import float32_products
from dims.sampling.files import write_text_atomically
from dims_paper.experiments.image_run import (
    ImageRun,
    Report,
    predictions,
    predictions_of_networks,
)
from dims_paper.experiments.image_scores import distributions, load_per_image
from dims_paper.experiments.legs import Leg
from dims_paper.experiments.mnist_settings import (
    FullSettings,
    ImageSettings,
    PeerSettings,
    SubsetSettings,
)
from dims_paper.experiments.runs import once

__all__ = ["run_full", "run_peers", "run_subset"]


def run_subset(
    settings: ImageSettings, subset: SubsetSettings, out: Path, report: Report | None = None
) -> dict[str, Any]:
    """MAP, LA, LinLA, RLA and DiMS with curvature and motion on a few images."""
    name = f"{settings.name}_{subset.curvature}"
    return _once(out, name, lambda: _subset(ImageRun(settings, out, name, report), subset))


def run_full(
    settings: ImageSettings, full: FullSettings, out: Path, report: Report | None = None
) -> dict[str, Any]:
    """MAP and DiMS on the whole training set, or on parts of it that grow."""
    name = f"{settings.name}_{full.kind}"
    return _once(out, name, lambda: _full(ImageRun(settings, out, name, report), full))


def run_peers(
    settings: ImageSettings, peers: PeerSettings, out: Path, report: Report | None = None
) -> dict[str, Any]:
    """Deep ensembles, their first member, SWAG and last-layer Laplace on the whole training set."""
    name = f"{settings.name}_peers"
    return _once(out, name, lambda: _peers(ImageRun(settings, out, name, report), peers))


@float32_products()
def _subset(run: ImageRun, subset: SubsetSettings) -> dict[str, Any]:
    seed, limit = run.settings.seed, subset.max_evaluations
    start = run.launched(
        run.some(subset.points), subset.draws, curvature=subset.curvature, rank=subset.rank
    )
    run.add("MAP", predictions(start.surface, start.position.unsqueeze(0)))
    run.draw("LA", partial(start.draw, "la", seed))
    run.draw("LinLA", partial(start.draw, "linla", seed))
    surface = run.fast(start.surface)
    rla = [Leg((subset.rla_time,), surface)]
    run.move("RLA", start, geodesic(), rla, max_evaluations=limit)
    run.move(
        "DiMS",
        start,
        dissipative(1.0, subset.friction),
        [Leg(subset.times, surface)],
        eta0=subset.friction,
        max_evaluations=limit,
    )
    return run.result(start, subset)


@float32_products()
def _full(run: ImageRun, full: FullSettings) -> dict[str, Any]:
    counts = full.images or (None,) * len(full.legs)
    start = run.launched(
        run.some(counts[0]),
        full.draws,
        curvature="low_rank",
        rank=full.rank,
        effective_points=full.effective_points,
    )
    run.add("MAP", predictions(start.surface, start.position.unsqueeze(0)))
    model, surfaces = run.trained, {counts[0]: run.fast(start.surface)}
    for count in set(counts[1:]) - {counts[0]}:
        surfaces[count] = run.fast(start.on(model, run.some(count)))
    legs = [Leg(times, surfaces[count]) for times, count in zip(full.legs, counts, strict=True)]
    motion = dissipative(full.gravity, full.friction)
    run.move(
        full.label, start, motion, legs, eta0=full.friction, sizes=full.sizes, early=full.early
    )
    return run.result(start, full)


def _peers(run: ImageRun, peers: PeerSettings) -> dict[str, Any]:
    model, s = run.trained, run.settings
    run.add("MAP", predictions_of_networks([model]))
    count = max(peers.sizes)
    seeds = range(peers.first_seed * (s.seed + 1), peers.first_seed * (s.seed + 1) + count)
    members, seconds = run.timed(partial(run.train, peers.training, seeds, "ensemble"))
    run.add("MAP longer", predictions_of_networks(members[:1]), seconds=seconds / count)
    for size in peers.sizes:
        run.add(
            f"Ensemble ({size})",
            predictions_of_networks(members[:size]),
            seconds=seconds * size / count,
            draws=size,
        )
    data = (run.images.inputs, run.images.targets)
    run.draw(
        "SWAG",
        partial(
            swag,
            model,
            data,
            "classification",
            peers.draws,
            epochs=peers.swag_epochs,
            learning_rate=peers.swag_lr,
            rank=min(20, peers.swag_epochs),
            prior_precision=peers.swag_prior,
            seed=s.seed,
        ),
    )
    of_last = partial(last_layer, model, data, "classification", peers.draws, seed=s.seed)
    run.draw("Last-layer LA", of_last)
    return run.result(None, peers)


def _once(out: Path, name: str, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of a part; what older results lack is added from their numbers per image."""
    path = out / f"{name}.json"
    result = once(path, run)
    lacking = [
        (row, file)
        for row in result["rows"]
        if "confidence" not in row
        and (file := out / "per_image" / f"{row['per_image']}.safetensors").exists()
    ]
    for row, file in lacking:
        row |= distributions(load_per_image(file))
    if lacking:
        write_text_atomically(path, json.dumps(result, indent=1))
    return result
