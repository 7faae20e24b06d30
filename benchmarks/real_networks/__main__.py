"""Run parts of the comparison on real networks; a second call goes on where the first stopped.

    python -m real_networks pack --folder .scratch/data            # in benchmarks/
    python -m real_networks cifar --network resnet20 --device cuda --seconds 540
    python -m real_networks lenet --dataset fashion_mnist --device cuda --seconds 540
    python -m real_networks bundle --to SOME_FOLDER                 # few files that travel
    python -m real_networks unbundle --to SOME_FOLDER
    python -m real_networks score
    python -m real_networks page

The data are found through DIMS_DATA. Every part has --quick, which takes seconds on a CPU.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import torch

from real_networks.budget import Budget, OutOfTime
from real_networks.experiment import Experiment
from real_networks.motion import Motion

RUNS = Path("runs") / "real_networks"
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "benchmarks" / "real_networks"
PAGE = ROOT / "docs" / "real_networks.md"
STEPS = ("train", "probe", "swag", "pilots", "ensemble", "dims", "last", "cyclical", "dropout")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = parser.add_subparsers(dest="part", required=True)
    for name, run in PARTS.items():
        part = parts.add_parser(name, help=(run.__doc__ or "").partition("\n")[0])
        part.add_argument("--folder", type=Path, default=RUNS)
        part.add_argument("--device", default="cpu")
        part.add_argument("--seconds", type=float, default=float("inf"), help="stop before")
        part.add_argument("--quick", action="store_true", help="tiny, for tests")
        ADD.get(name, lambda _: None)(part)
    given = parser.parse_args(arguments)
    torch.backends.cudnn.benchmark = given.device == "cuda"
    PARTS[given.part](given)


def _cifar_options(part: argparse.ArgumentParser) -> None:
    part.add_argument("--network", default="resnet20")
    part.add_argument("--steps", nargs="+", default=STEPS, choices=STEPS)
    part.add_argument("--members", type=int, default=8)
    part.add_argument("--starts", type=int, nargs="+", default=[0, 1], help="networks to move")
    part.add_argument("--pilot-seconds", type=float, default=60.0)
    part.add_argument(
        "--limits", nargs="*", default=[], metavar="STEP=SECONDS", help="of single steps"
    )
    part.add_argument("--epochs", type=int, default=None)
    part.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", help="of the motion")


def cifar(given: argparse.Namespace) -> None:
    """Train, sample and compare residual networks on CIFAR-10."""
    from real_networks import opponents, probe
    from real_networks.choosing import pilots
    from real_networks.experiment import RECIPES
    from real_networks.motion import DEFAULTS, quick

    load_compiled(given)
    if given.epochs:
        RECIPES[given.network] = replace(RECIPES[given.network], epochs=given.epochs)
    budget = Budget(given.seconds)
    experiment = Experiment(given.network, given.folder, given.device, budget, given.quick)
    base = quick(experiment.device) if given.quick else DEFAULTS[given.network]
    members = 2 if given.quick else given.members
    starts = given.starts
    steps: dict[str, Callable[[], object]] = {
        "train": lambda: [experiment.member(seed) for seed in starts],
        "probe": lambda: probe.probe(experiment, base),
        "pilots": lambda: pilots(experiment, given.pilot_seconds),
        "ensemble": lambda: opponents.ensemble(experiment, members),
        "dims": lambda: _move(experiment, base, given),
        "swag": lambda: [opponents.swag(experiment, seed) for seed in starts],
        "last": lambda: [
            opponents.last_layer(experiment, seed, replace(base, averaged=averaged))
            for seed in starts
            for averaged in ((False, True) if experiment.has_averaged(seed) else (False,))
        ],
        "cyclical": lambda: [opponents.cyclical(experiment, seed) for seed in starts],
        "dropout": lambda: [opponents.dropout(experiment, seed) for seed in starts[:1]],
    }
    limits = {name: float(text) for name, _, text in (p.partition("=") for p in given.limits)}
    failed = []
    for name in given.steps:
        experiment.budget = Budget(min(budget.left, limits.get(name, float("inf"))))
        experiment.say(f"--- {name}")
        try:
            steps[name]()
        except OutOfTime as reason:
            experiment.say(f"{name} stopped: {reason}")
        except Exception:  # the other steps are worth their time all the same
            failed.append(name)
            traceback.print_exc()
            sys.stderr.flush()
            if given.quick and given.device == "cpu":
                raise
    save_compiled(given)
    experiment.say(f"done; failed: {', '.join(failed) or 'none'}")


def _move(experiment: Experiment, base: Motion, given: argparse.Namespace) -> None:
    """The draws of all starts, each with its share of the time that is left."""
    from real_networks.choosing import chosen
    from real_networks.motion import move

    settings = _settings(given.set, base)
    whole, late = experiment.budget, list[str]()
    if given.network == "resnet20" and not given.quick:
        base = chosen(experiment, base)
    for number, seed in enumerate(given.starts):
        experiment.budget = Budget(whole.left / (len(given.starts) - number))
        try:
            move(experiment, seed, replace(base, **settings))
        except OutOfTime as reason:
            late.append(str(reason))
    experiment.budget = whole
    if late:
        raise OutOfTime("; ".join(late))


def _settings(pairs: list[str], base: object) -> dict[str, object]:
    """ "friction=0.3" as fields of the motion, of the types that they have."""
    kinds = {field.name: type(getattr(base, field.name)) for field in fields(base)}  # type: ignore[arg-type]
    found: dict[str, object] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if name not in kinds:
            raise SystemExit(f"--set: there is no {name}; there are {', '.join(kinds)}")
        if name == "times":
            found[name] = tuple(float(part) for part in text.split(","))
        elif name == "images":
            found[name] = None if text == "all" else int(text)
        elif kinds[name] is bool:
            found[name] = text == "True"
        else:
            found[name] = kinds[name](text)
    return found


def load_compiled(given: argparse.Namespace) -> None:
    """What torch.compile made in an earlier piece of time."""
    path = given.folder / "compiled.bin"
    if given.device == "cuda" and path.exists():
        try:
            torch.compiler.load_cache_artifacts(path.read_bytes())
        except Exception as error:
            print(f"compiled programs not loaded: {error}", flush=True)


def save_compiled(given: argparse.Namespace) -> None:
    if given.device != "cuda":
        return
    try:
        made = torch.compiler.save_cache_artifacts()
        if made is not None:
            (given.folder / "compiled.bin").write_bytes(made[0])
    except Exception as error:
        print(f"compiled programs not saved: {error}", flush=True)


def pack(given: argparse.Namespace) -> None:
    """Write the CIFAR-10 and OOD files small enough to travel."""
    from real_networks.images import pack as pack_images

    sizes = pack_images(given.folder)
    for name, size in sizes.items():
        print(f"{size / 2**20:6.2f} MiB  {name}")
    print(f"{sum(sizes.values()) / 2**20:6.2f} MiB")


def _lenet_options(part: argparse.ArgumentParser) -> None:
    part.add_argument("--dataset", default="fashion_mnist", choices=("mnist", "fashion_mnist"))
    part.add_argument("--steps", nargs="+", default=["ensemble", "dims"])
    part.add_argument("--times", type=float, nargs="+", default=None)
    part.add_argument("--trainings", type=int, default=None)


def lenet(given: argparse.Namespace) -> None:
    """Tuned ensembles of LeNets beside draws."""
    from real_networks import lenet as part
    from real_networks.lenet_motion import run

    load_compiled(given)
    settings = part.QUICK if given.quick else part.Settings()
    if given.times:
        settings = replace(settings, times=tuple(given.times))
    if given.trainings:
        settings = replace(settings, trainings=given.trainings)
    budget = Budget(given.seconds)
    lenets = part.LeNets(given.dataset, given.folder, given.device, budget, settings)
    try:
        run(lenets, given.steps)
    except OutOfTime as reason:
        lenets.say(f"stopped: {reason}")
    save_compiled(given)


def bundle(given: argparse.Namespace) -> None:
    """Pack what scoring and going on need into few files below 16 MiB."""
    from real_networks import bundles

    for path in bundles.pack(given.folder, given.to, given.prefix):
        print(f"{path.stat().st_size / 2**20:6.2f} MiB  {path}")


def unbundle(given: argparse.Namespace) -> None:
    """Unpack such files where the program looks for them."""
    from real_networks import bundles

    print(f"{bundles.unpack(given.to, given.folder)} files")


def score(given: argparse.Namespace) -> None:
    """Score what lies in the folder; needs no GPU."""
    from real_networks import lenet_scores, scores
    from real_networks.images import load

    for name in ("tiny",) if given.quick else ("resnet20", "resnet18"):
        if (given.folder / name / "predictions").is_dir():
            scores.write(given.folder / name, load("cpu", given.quick), given.out / f"{name}.json")
    for name in ("mnist", "fashion_mnist"):
        if (given.folder / name / "predictions").is_dir():
            lenet_scores.write(given.folder / name, name, given.out / f"{name}.json")


def page(given: argparse.Namespace) -> None:
    """Write the tables and figures of docs/real_networks.md."""
    from real_networks.page import write

    write(given.out, given.page)


def _out_options(part: argparse.ArgumentParser) -> None:
    part.add_argument("--out", type=Path, default=RESULTS, help="folder of the scores")
    part.add_argument("--page", type=Path, default=PAGE)


def _bundle_options(part: argparse.ArgumentParser) -> None:
    part.add_argument("--to", type=Path, required=True, help="folder of the bundles")
    part.add_argument("--prefix", default="part", help="of their names")


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "pack": pack,
    "cifar": cifar,
    "lenet": lenet,
    "bundle": bundle,
    "unbundle": unbundle,
    "score": score,
    "page": page,
}
ADD: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "cifar": _cifar_options,
    "lenet": _lenet_options,
    "bundle": _bundle_options,
    "unbundle": _bundle_options,
    "score": _out_options,
    "page": _out_options,
}

if __name__ == "__main__":
    main()
