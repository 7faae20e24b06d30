"""LeNet on MNIST and Fashion-MNIST, one part at a time; what is in the folder is not made again.

    python paper/programs/mnist.py --part subset --dataset mnist --device cuda --out runs/mnist

Parts: subset (the paper's settings, --curvature low_rank | kronecker | diagonal), full (all
images), growing (more of them from leg to leg), peers, and compare, which sets their rows beside
each other. The same as `dims reproduce mnist`, for machines with nothing but torch. Needs
DIMS_DATA.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dims_paper.experiments import mnist
from dims_paper.experiments.mnist_settings import (
    GROWING,
    SEED_RUNS,
    SIGNS,
    FullSettings,
    ImageSettings,
    PeerSettings,
    SubsetSettings,
)
from dims_paper.experiments.mnist_tables import compare_rows

COMPARED = ("low_rank", "full*", "growing*")  # also those of a study


def compare(options: argparse.Namespace) -> None:
    """Intervals of the differences between the rows of all parts that are there.

    Where there are no peers of the seed, those of seed 0 stand beside it: they are trained from
    starts of their own.
    """
    settings = ImageSettings(options.dataset, options.seed, options.activation, options.wide)
    names = [f"{settings.name}_{part}.json" for part in COMPARED]
    own = [path for name in names for path in sorted(options.out.glob(name))]
    peers = options.out / f"{settings.name}_peers.json"
    if not peers.exists():
        peers = options.out / f"{replace(settings, seed=0).name}_peers.json"
    runs = [json.loads(path.read_text()) for path in (*own, peers) if path.exists()]
    differences = compare_rows(runs, options.out / "per_image", options.device)
    what = {"dataset": settings.dataset, "seed": settings.seed, "wide": settings.wide}
    result = {**what, "differences": differences}
    path = options.out / f"{settings.name}_differences.json"
    path.write_text(json.dumps(result, indent=1))


def reporter(prefix: str) -> Callable[[str], None]:
    """Prints with the seconds since now; of the progress of motion a line every ten seconds."""
    began = last = time.perf_counter()

    def report(what: str) -> None:
        nonlocal last
        now = time.perf_counter()
        if " t = " not in what or now - last > 10:
            last = now
            print(f"[{now - began:.0f} s] {prefix} {what}", flush=True)

    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--part", choices=("subset", "full", "growing", "peers", "compare"), required=True
    )
    parser.add_argument("--dataset", default="mnist", choices=("mnist", "fashion_mnist"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--activation", default="tanh", choices=("tanh", "gelu"))
    parser.add_argument("--wide", action="store_true", help="a million parameters")
    parser.add_argument("--curvature", default="low_rank")
    parser.add_argument("--draws", type=int, default=None)
    parser.add_argument("--until", type=float, default=50.0, help="of full and growing: t1")
    for name in SIGNS:  # each makes a run with a name of its own
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, type=float, default=None, help="of full and growing")
    parser.add_argument("--images", type=int, nargs="+", help="of growing: of each leg")
    parser.add_argument("--max-evaluations", type=int, default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.part == "compare":
        compare(options)
        return
    report = reporter(options.dataset)
    settings = ImageSettings(
        options.dataset, options.seed, options.activation, options.wide, device=options.device
    )
    if options.part == "subset":
        friction, times = SEED_RUNS.get(options.seed, SEED_RUNS[0])
        subset = SubsetSettings(
            curvature=options.curvature,
            draws=options.draws or 100,
            friction=friction,
            times=times,
            max_evaluations=options.max_evaluations,
        )
        result = mnist.run_subset(settings, subset, options.out, report)
    elif options.part in ("full", "growing"):
        chosen = GROWING if options.part == "growing" else FullSettings()
        full = replace(chosen.until(options.until), draws=options.draws or 20)
        given = {name: getattr(options, name) for name in SIGNS}
        full = full.study(**{name: value for name, value in given.items() if value is not None})
        if options.images:
            full = replace(full, images=tuple(options.images))
        result = mnist.run_full(settings, full, options.out, report)
    else:
        result = mnist.run_peers(settings, PeerSettings(), options.out, report)
    for row in result["rows"]:
        alone, together = row["test"]["per_sample"], row["test"]["ensemble"]
        seen = [f"{v['ensemble']['auroc_max_probability']:.3f}" for v in row["ood"].values()]
        when = "" if row["t1"] is None else f" t1 = {row['t1']:g}"
        print(
            f"{row['method']}{when}: {alone['accuracy']:.4f} {alone['nll']:.4f}, together "
            f"{together['accuracy']:.4f} {together['nll']:.4f} {together['ece']:.4f}, {seen}, "
            f"{row['seconds'] or 0:.0f} s"
        )


if __name__ == "__main__":
    main()
