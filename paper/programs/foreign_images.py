"""What AUROC on foreign images depends on: the solver, and which images count as in distribution.

    python paper/programs/foreign_images.py --seed 0 --solver dopri5 --out runs/foreign

LeNet on MNIST at the paper's settings, ten draws. Foreign images are told from the test set, as
everywhere else, and from the 1 000 training images that the draws were moved on. Draws lie in the
folder and are not made again. Needs DIMS_DATA.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mnist import reporter
from torch import Tensor

from dims.mechanics.dynamics import Dynamics, dissipative, geodesic
from dims.model.torch_support.tf32 import float32_products
from dims.prediction.metrics import classification_metrics, ood_metrics
from dims_paper.datasets.images import Images
from dims_paper.experiments.image_run import ImageRun, Predict, predictions
from dims_paper.experiments.legs import Leg
from dims_paper.experiments.mnist_settings import (
    SEED_RUNS,
    ImageSettings,
    SubsetSettings,
    quick,
    quick_part,
)
from dims_paper.experiments.mnist_tables import AUROC
from dims_paper.experiments.runs import once

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
    # Both solvers start with the velocities that lie under this name.
    run = ImageRun(settings, out, f"{settings.name}_foreign", reporter("mnist"))
    data = run.some(subset.points)
    start = run.launched(data, subset.draws, curvature=subset.curvature, rank=subset.rank)
    known = {"test": run.gallery.test, "training": Images(*data)}

    def add(method: str, thetas: Tensor, entry: dict[str, Any]) -> None:
        scores = per_draw(predictions(start.surface, thetas), known, run.gallery.foreign)
        run.rows.append({"method": method, **entry, **scores})

    add("MAP", start.position.unsqueeze(0), {"t1": None, "draws": 1})
    motions: list[tuple[str, Dynamics, tuple[float, ...]]] = []
    if solver == "rattle":  # what the other one makes of RLA is not asked here
        motions.append(("RLA", geodesic(), (subset.rla_time,)))
    motions.append(("DiMS", dissipative(1.0, subset.friction), subset.times))
    for method, dynamics, times in motions:
        legs = [Leg(times, start.surface)]
        looks = run.followed(f"{method} {solver}", start, dynamics, legs, solver=solver)
        for thetas, entry in looks:
            add(method, thetas, entry)
    return run.result(start, subset) | {"solver": solver}


def per_draw(
    predict: Predict, known: dict[str, Images], foreign: dict[str, Images]
) -> dict[str, Any]:
    """Means over draws, for each of the known sets: accuracy, NLL, AUROC of foreign sets."""
    outside = {name: predict(images.inputs) for name, images in foreign.items()}
    scores = {}
    for name, images in known.items():
        inside = predict(images.inputs)
        metrics = classification_metrics(inside, images.targets)["per_sample"]
        scores[name] = {
            "accuracy": metrics["accuracy"],
            "nll": metrics["nll"],
            "auroc": {n: ood_metrics(inside, x)["per_sample"][AUROC] for n, x in outside.items()},
        }
    return scores


if __name__ == "__main__":
    main()
