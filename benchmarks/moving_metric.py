"""Draws with the moving metric beside those with the euclidean one, on the paper's problems.

    python benchmarks/moving_metric.py draw vehicle --friction 0.1 --metric moving
    python benchmarks/moving_metric.py draw vehicle --friction 0.1 --metric moving --stop 0.1 10
    python benchmarks/moving_metric.py table

`draw` trains a network (or finds it in the folder), draws 30 times from the same perturbations as
every other run of it, settles and certifies the draws, and keeps what the table needs: cost, loss,
verdicts, and the log score of every draw on every test point. Problems are `snelson`, `banana` and
the six UCI sets; several processes may work on one folder. Needs DIMS_DATA.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import dims
from dims.sampling.samplers.dims import MOVING_REDUCTION
from dims.sampling.settle import REDUCTION
from dims_paper.datasets.snelson import load_snelson
from dims_paper.experiments import banana, uci
from dims_paper.experiments.problem import Problem
from dims_paper.snelson_network import GAP, load_problem
from tables import markdown

OUT = Path("results/benchmarks/moving_metric")
SETS = ("snelson", "banana", *uci.UCI_NAMES)
RESAMPLES = 1000


class Network(NamedTuple):
    """A loss, θ*, the perturbations of all draws, and where draws are scored."""

    surface: dims.LossSurface
    position: Tensor
    perturbations: Tensor
    parts: dict[str, tuple[Tensor, Tensor]]


def network(name: str, rows: int, seed: int, folder: Path) -> Network:
    """The trained network of a problem."""
    if name == "snelson":
        problem = load_problem()
        data = load_snelson(gap=GAP)
        parts = {"test": (data.train_inputs, data.train_targets)}
        if data.gap_inputs is not None:
            parts["gap"] = (data.gap_inputs, data.gap_targets)
        return Network(
            problem.surface, problem.surface.initial, problem.velocities(rows, seed), parts
        )
    chosen = problem_of(name, seed)
    path = folder / "networks" / f"{name}_{seed}.safetensors"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        posterior = chosen.posterior(chosen.task.train(seed))
        prior = torch.tensor(float(posterior.prior_precision), dtype=torch.float64)
        kept = {"theta": posterior.map_parameters, "prior": prior}
        save_file({**kept, "perturbations": posterior.perturbations(200, seed)}, path)
    kept = load_file(path)
    model = chosen.task.fresh(seed).to(kept["theta"].dtype).eval()
    torch.nn.utils.vector_to_parameters(kept["theta"], model.parameters())
    data = (chosen.task.inputs, chosen.task.targets)
    surface = dims.LossSurface(model, data, chosen.likelihood, float(kept["prior"]))
    parts = {"test": chosen.evaluation.parts["test"]}
    return Network(surface, kept["theta"], kept["perturbations"][:rows], parts)


def problem_of(name: str, seed: int) -> Problem:
    if name == "banana":
        return banana.problem_of(banana.BananaSettings(seed=seed))
    return uci.problem_of(name, seed, uci.UciSettings())


def draw(options: argparse.Namespace) -> None:
    """Draw, settle, certify and score; one JSON file and one of log scores."""
    torch.set_num_threads(1)
    name = f"{options.problem}_{options.seed}_{options.friction:g}_{options.metric}"
    name += "" if options.tolerance is None else f"_tolerance_{options.tolerance:g}"
    name += "" if options.stop is None else "_stopped"
    if (options.out / f"{name}.json").exists():
        return
    found = network(options.problem, options.rows, options.seed, options.out)
    how = {
        "dynamics": dims.dissipative(1.0, options.friction),
        "metric": options.metric,
        "tolerance": options.tolerance,
        "compile": options.compile,
        "stop": None if options.stop is None else dims.AtRest(*options.stop),
    }
    # What torch loads at first use is not a cost of the draws.
    start = (found.surface, found.position, found.perturbations.clone())
    dims.integrate(*start, max_time=1e-3, **how)
    began = time.process_time()
    end = options.max_time
    path = dims.integrate(*start, max_time=end, save_at=(1.0, end), **how)
    seconds = time.process_time() - began
    reduction = MOVING_REDUCTION if options.metric == "moving" else REDUCTION
    settled = dims.settle(found.surface, path.end, reduction=reduction)
    verdicts = dims.certify(found.surface, settled.positions).verdict
    scores = {
        f"{part}_{kind}": log_scores(found, thetas, *found.parts[part])
        for part in found.parts
        for kind, thetas in (("end", path.end), ("settled", settled.positions))
    }
    scores["map"] = log_scores(found, found.position.unsqueeze(0), *found.parts["test"])
    late = path.dissipated[-1] - path.dissipated[0]
    balance = (path.energy[0] - path.energy[-1] - late) / late
    options.out.mkdir(parents=True, exist_ok=True)
    save_file(
        {key: found.float() for key, found in scores.items()}, options.out / f"{name}.safetensors"
    )
    record: dict[str, Any] = {
        **{key: str(value) for key, value in vars(options).items() if key != "run"},
        "core_seconds": seconds / options.rows,
        "verdicts": [verdict.name for verdict in verdicts],
        "status": [status.name for status in path.status],
        "late_balance": balance.tolist(),
        "loss": path.loss[-1].tolist(),
        "end_time": path.end_time.tolist(),
        "settled_loss": settled.loss.tolist(),
        "distance": (path.end - found.position).norm(dim=-1).tolist(),
    }
    for field in ("evaluations", "refreshes", "gradient_equivalents", "energy_violation"):
        record[field] = getattr(path, field).tolist()
    for field in ("arc_length", "metric_length"):
        record[field] = getattr(path, field).tolist()
    (options.out / f"{name}.json").write_text(json.dumps(record))
    mean = sum(record["gradient_equivalents"]) / options.rows
    print(f"{name}: {path.evaluations.double().mean():.0f} gradients, {mean:.0f} equivalents")


def log_scores(found: Network, thetas: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """log p(y|x, θ) of every draw and point, (S, N)."""
    outputs = found.surface.predict(thetas, x)
    likelihood = found.surface.likelihood
    if isinstance(likelihood, dims.Gaussian):
        return -likelihood.negative_log(outputs, y.reshape(1, *outputs.shape[1:]).to(outputs))
    return outputs.log_softmax(-1)[:, torch.arange(len(y)), y.long()].contiguous()


def averaged_nll(scores: Tensor) -> Tensor:
    """−log of the average probability at every point."""
    return math.log(len(scores)) - scores.double().logsumexp(0)


def resampled(first: Tensor, second: Tensor) -> tuple[float, float, float]:
    """The difference of averaged NLLs and its 95 % interval over resampled draws and points."""
    generator = torch.Generator().manual_seed(0)
    differences = []
    for _ in range(RESAMPLES):
        points = torch.randint(first.shape[1], (first.shape[1],), generator=generator)
        rows = torch.randint(len(first), (2, len(first)), generator=generator)
        a, b = first[rows[0]][:, points], second[rows[1]][:, points]
        differences.append(float((averaged_nll(a) - averaged_nll(b)).mean()))
    low, high = torch.tensor(differences).quantile(torch.tensor([0.025, 0.975])).tolist()
    return float((averaged_nll(first) - averaged_nll(second)).mean()), low, high


def table(options: argparse.Namespace) -> None:
    """One line for each pair of runs that is complete."""
    rows, ratios = [], []
    for file in sorted(options.out.glob("*_moving.json")):
        other = file.with_name(file.name.replace("_moving", "_euclidean"))
        if not other.exists():
            continue
        moving, plain = (json.loads(path.read_text()) for path in (file, other))
        scores = [load_file(path.with_suffix(".safetensors")) for path in (file, other)]
        costs = [mean(run["gradient_equivalents"]) for run in (moving, plain)]
        if moving["problem"] in uci.UCI_NAMES:
            ratios.append(costs[0] / costs[1])
        for part in ("test", "gap"):
            key = f"{part}_settled"
            if key not in scores[0]:
                continue
            change, low, high = resampled(scores[0][key], scores[1][key])
            singles = [-float(found[key].double().mean()) for found in scores]
            rows.append(
                [
                    f"{moving['problem']} {'' if part == 'test' else part}".strip(),
                    moving["friction"],
                    f"{mean(plain['evaluations']):.0f}, {mean(moving['evaluations']):.0f}",
                    f"{costs[0] / costs[1]:.2f}",
                    f"{mean(plain['core_seconds']):.2f}, {mean(moving['core_seconds']):.2f}",
                    f"{mean(plain['loss']):.1f}, {mean(moving['loss']):.1f}",
                    f"{minima(plain)}, {minima(moving)}",
                    f"{singles[1]:.3f}, {singles[0]:.3f}",
                    f"{float(averaged_nll(scores[1][key]).mean()):.3f}",
                    f"{change:+.3f} ({low:+.3f} to {high:+.3f})",
                ]
            )
    titles = ["problem", "η₀", "gradients", "equivalents, ratio", "core-seconds", "loss at the end"]
    titles += ["minima", "NLL of one", "NLL of the average, euclidean", "moving − euclidean"]
    print(markdown(titles, rows))
    if ratios:
        logs = torch.tensor(ratios).log()
        print(f"\nGeometric mean of {len(ratios)} UCI ratios: {float(logs.mean().exp()):.3f}")


def mean(values: Any) -> float:
    return float(torch.tensor(values, dtype=torch.float64).mean())


def minima(run: dict[str, Any]) -> str:
    return f"{sum(verdict == 'MINIMUM' for verdict in run['verdicts'])}/{len(run['verdicts'])}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("draw")
    making.add_argument("problem", choices=SETS)
    making.add_argument("--friction", type=float, default=0.1)
    making.add_argument("--metric", default="moving", choices=("euclidean", "moving"))
    making.add_argument("--max-time", type=float, default=50.0)
    making.add_argument("--compile", action="store_true")
    making.add_argument("--tolerance", type=float, default=None)
    making.add_argument(
        "--stop", type=float, nargs=2, metavar=("T", "SLOPE"), help="end rows that are at rest"
    )
    making.add_argument("--rows", type=int, default=30)
    making.add_argument("--seed", type=int, default=0)
    making.set_defaults(run=draw)
    showing = commands.add_parser("table")
    showing.set_defaults(run=table)
    for command in (making, showing):
        command.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
