"""What AUROC on foreign images depends on: the solver, and which images count as in distribution.

    python benchmarks/foreign_images.py --seed 0 --solver dopri5 --device cuda --out runs/foreign

LeNet on MNIST at the paper's settings, ten draws. Foreign images are told from the test set, as
everywhere else, and from the 1 000 training images that the draws were moved on. Draws lie in the
folder and are not made again. Needs DIMS_DATA.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from torch import Tensor

from dims.data.images import Images
from dims.dynamics import Dynamics, dissipative, geodesic
from dims.experiments.image_run import ImageRun, predictions
from dims.experiments.image_scores import Gallery, score
from dims.experiments.launch import Launch
from dims.experiments.legs import Leg, follow
from dims.experiments.mnist_settings import (
    SEED_RUNS,
    ImageSettings,
    SubsetSettings,
    quick,
    quick_part,
)
from dims.experiments.mnist_tables import AUROC
from dims.experiments.runs import once
from dims.precision import float32_products
from dims.solvers.rows import Status
from mnist import reporter

DRAWS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, choices=sorted(SEED_RUNS))
    parser.add_argument("--solver", default="rattle", choices=("rattle", "dopri5"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="a minute, to see that it works")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    settings = ImageSettings("mnist", options.seed, device=options.device)
    friction, times = SEED_RUNS[options.seed]
    subset = SubsetSettings(draws=DRAWS, friction=friction, times=times)
    out = options.out
    if options.quick:  # in a folder of its own: its network and draws are not those of the paper
        settings, subset, out = quick(settings), quick_part(subset), out / "quick"
    path = out / f"{settings.name}_{options.solver}.json"
    result = once(path, lambda: measure(settings, subset, options.solver, out))
    for row in result["rows"]:
        print(row["method"], row["t1"], row["test"], row["training"], sep="\n  ")


@float32_products()
def measure(
    settings: ImageSettings, subset: SubsetSettings, solver: str, out: Path
) -> dict[str, Any]:
    run = ImageRun(settings, out, f"{settings.name}_foreign", reporter("mnist"))
    data = run.some(subset.points)
    start = run.launched(data, subset.draws, curvature=subset.curvature, rank=subset.rank)
    galleries = {"test": run.gallery, "training": Gallery(Images(*data), run.gallery.foreign)}

    def add(method: str, t1: float | None, thetas: Tensor, **facts: Any) -> None:
        predict = predictions(start.surface, thetas)
        scores = {known: per_draw(score(predict, g)[0]) for known, g in galleries.items()}
        run.rows.append({"method": method, "t1": t1, "draws": len(thetas), **scores, **facts})

    add("MAP", None, start.position.unsqueeze(0))
    motions: list[tuple[str, Dynamics, tuple[float, ...]]] = []
    if solver == "rattle":  # what the other one makes of RLA is not asked here
        motions.append(("RLA", geodesic(), (subset.rla_time,)))
    motions.append(("DiMS", dissipative(1.0, subset.friction), subset.times))
    for method, dynamics, times in motions:
        kept = draws_of(run, start, method, dynamics, times, solver)
        for index, t in enumerate(times):
            facts = {
                # Of the motion up to the last time:
                "evaluations": kept["evaluations"].double().mean().item(),
                "seconds": kept["seconds"].item(),
                "energy_violation": kept["energy_violation"].max().item(),
                "status": [Status.from_code(int(code)).name for code in kept["status"]],
                "loss": kept["loss"][index].mean().item(),
            }
            add(method, t, kept["positions"][index], **facts)
    return run.result(start, subset) | {"solver": solver}


def draws_of(
    run: ImageRun,
    start: Launch,
    method: str,
    dynamics: Dynamics,
    times: tuple[float, ...],
    solver: str,
) -> dict[str, Tensor]:
    """Positions at all times and facts, from the same velocities for every solver."""
    end = times[-1]
    file = run.out / "draws" / f"{run.name}_{solver}_{method.lower()}_{end:g}.safetensors"
    ways = follow(
        [Leg(times, start.surface)],
        start.position,
        start.velocities,
        dynamics,
        lambda _: file,
        solver=solver,
        progress=lambda began: run.clock(method, began, end),
    )
    return next(ways)[1]


def per_draw(metrics: dict[str, Any]) -> dict[str, Any]:
    """Means over draws: accuracy, NLL and AUROC of the largest probability."""
    inside = {name: metrics["test"]["per_sample"][name] for name in ("accuracy", "nll")}
    foreign = {name: values["per_sample"][AUROC] for name, values in metrics["ood"].items()}
    return inside | {"auroc": foreign}


if __name__ == "__main__":
    main()
