"""Small runs to report on, with names that would be markup if a page let them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

import dims
from dims.sampling.draws.fields import ROW_NUMBERS
from draws_problems import problem

HOSTILE = "</script><img src=x onerror='window.harm=1'><script>window.harm=1</script>&amp;"


def saved_draws(folder: Path, rows: int = 6, name: str = "run") -> Path:
    """A file of draws whose settings and one of whose verdicts are hostile."""
    surface, _ = problem("one output")
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(rows, surface.size, generator=generator, dtype=torch.float64)
    theta = surface.initial
    draws = dims.Draws(
        parameters=theta + 0.1 * noise,
        method="dims",
        surface=surface,
        map_parameters=theta,
        status=[dims.Status.FINISHED] * (rows - 1) + [dims.Status.STALLED],
        loss=torch.arange(rows, 0, -1).double(),
        verdict=["MINIMUM"] * (rows - 2) + ["SADDLE", HOSTILE],
        settings={HOSTILE: HOSTILE, "friction": 0.1},
        seed=3,
    )
    path = folder / f"{name}.safetensors"
    draws.save(path)
    return path


def regression_run() -> dict[str, Any]:
    """As `dims reproduce snelson` writes it, with five grid points and three times."""
    grid = [0.0, 1.0, 2.0, 3.0, 4.0]
    scores = {"per_sample": {"nll": 0.5, "rmse": 0.1}, "ensemble": {"nll": 0.4, "rmse": 0.1}}

    def row(method: str, slope: float) -> dict[str, Any]:
        curves = [[slope * k * x for x in grid] for k in (1, 2)]
        return {
            "method": method,
            "train": scores,
            "gap": scores,
            "curves": curves,
            "mean": [1.5 * slope * x for x in grid],
            "std": [0.1] * 5,
        }

    path = {
        "method": "dims",
        "label": HOSTILE,
        "times": [0.0, 1.0, 2.0],
        "positions": [[0.0, 0.0], [1.0, 0.5], [1.5, 1.0]],
        "loss": [1.0, 0.5, 0.1],
        "kinetic_energy": [2.0, 0.5, 0.1],
        "energy": [3.0, 1.0, 0.2],
        "energy_violation": 0.0,
        "arc_length": 2.0,
        "status": "FINISHED",
    }
    return {
        "experiment": "snelson",
        "dataset": "snelson",
        "seed": 0,
        "draws": 2,
        "noise_std": float("nan"),
        "settings": {"friction": 0.1, "training": {"epochs": 3}},
        "torch": "2",
        "grid": grid,
        "points": {"train": [[0.0, 0.0], [4.0, 2.0]], "gap": [[2.0, 1.0]]},
        "rows": [row("RLA", 0.2), row("DiMS", 0.5)],
        "movie_grid": grid,
        "movies": [
            {
                "method": "DiMS",
                "times": [0.0, 1.0, 2.0],
                "curves": [[[t * x / 4 for x in grid]] for t in (0, 1, 2)],
            }
        ],
        "trajectories": [path],
        "landscape": {"x": [-1.0, 2.0], "y": [-1.0, 2.0], "loss": [[1.0, 2.0], [None, 4.0]]},
    }


def images_run() -> dict[str, Any]:
    """As `dims reproduce mnist` writes it, with two confidence bins and a hostile OOD name."""

    def row(method: str, t1: float | None, inside: list[float], auroc: float) -> dict[str, Any]:
        scores = {"per_sample": {"accuracy": 0.8}, "ensemble": {"accuracy": 0.9}}
        seen = {
            "per_sample": {"auroc_max_probability": auroc - 0.1},
            "ensemble": {"auroc_max_probability": auroc},
        }
        return {
            "method": method,
            "t1": t1,
            "eta0": None if method == "MAP" else 0.1,
            "test": scores,
            "ood": {"kmnist": seen, HOSTILE: seen},
            "confidence": {
                "in_distribution": inside,
                "ood": {"kmnist": [0.75, 0.25], HOSTILE: [1.0, 0.0]},
            },
            "calibration": {"inputs": [0, 3.0], "confidence": [None, 0.8], "accuracy": [None, 0.7]},
        }

    return {
        "experiment": "mnist",
        "dataset": "mnist",
        "seed": 0,
        "part": "mnist_0_low_rank",
        "rows": [
            row("MAP", None, [0.0, 1.0], 0.7),
            row("DiMS", 25.0, [0.5, 0.5], 0.9),
            row("DiMS", 50.0, [0.25, 0.75], 0.8),
        ],
    }


def classification_run(seed: int = 0) -> dict[str, Any]:
    """As `dims reproduce banana` writes it, on a map of two by two."""
    scores = {"per_sample": {"accuracy": 0.8}, "ensemble": {"accuracy": 0.9}}
    row = {
        "method": "DiMS",
        "eta0": 0.01,
        "test": scores,
        "status": ["FINISHED", "STALLED"],
        "loss": [1.0, 2.0],
        "energy_violation": [0.0, 0.1],
        "evaluations": [10, 20],
        "map": {"probability": [0.1, 0.9, 0.5, 0.2], "variance": [0.0, 0.1, 0.2, 0.1]},
        "calibration": {
            "inputs": [0, 3.0],
            "confidence": [None, 0.8],
            "accuracy": [None, 0.7],
        },
    }
    return {
        "experiment": "banana",
        "dataset": "banana",
        "seed": seed,
        "rows": [row],
        "map": {"x": [-1.0, 1.0], "y": [-1.0, 1.0], "side": 2},
        "points": [[0.0, 0.0, 0], [0.5, 0.5, 1]],
    }


def wide_draws(folder: Path) -> Path:
    """A file of draws that has every number, none of them short, and findings and predictions."""
    surface, _ = problem("one output")
    rows, theta = 4, surface.initial
    number = torch.full((rows,), -1.23456e-05, dtype=torch.float64)
    draws = dims.Draws(
        parameters=theta + torch.arange(rows).double().unsqueeze(1),
        method="dims",
        surface=surface,
        map_parameters=theta,
        status=[dims.Status.BUDGET_SPENT] * rows,
        verdict=["NOT_AT_REST"] * rows,
        evaluations=torch.full((rows,), 123456),
        **dict.fromkeys(ROW_NUMBERS, number),
    )
    path = folder / "wide.safetensors"
    draws.save(path)
    curve = [
        {"prior_precision": 10.0**k, "log_evidence": -float(k * k), "chosen": k == 0}
        for k in (-1, 0, 1)
    ]
    prior = {"prior_precision": 1.0, "noise_std": 0.1, "log_evidence": 0.0, "gradient_norm": 0.5}
    findings = {
        "advice": [HOSTILE],
        "diversity": {"on_data": 0.1, "far": None},
        "weights": {"network": 0.25, "t = 1": 0.0, HOSTILE: 0.75},
        "held_out": 3,
        "gain": [0.1, 0.2],
        "prior": {**prior, "chosen": "given θ*", "curve": curve},
    }
    predictions = {
        "held_out": 3,
        "scores": [{"method": "DiMS", "nll": 0.5, "rmse": 0.25}],
        "calibration_axes": ["level of the interval", "coverage"],
        "calibration": [
            {"method": "DiMS", "confidence": [0.5], "accuracy": [1.0], "inputs": [3]},
        ],
        "residuals": [{"name": HOSTILE, "x": [0.0, 1.0, None], "y": [-3.5, 0.5, 1.0]}],
        "within_two": 0.75,
        "functions": [
            {
                "method": "DiMS",
                "curves": [[0.0, 1.0], [0.0, 2.0]],
                "mean": [0.0, 1.5],
                "std": [0.1, 0.6],
                "inner": [0.0, 0.5],
            }
        ],
        "grid": [0.0, 1.0],
        "points": {"train": [[0.0, 0.0]], "gap": [[1.0, 1.0]]},
        "disagreement": {
            "classes": False,
            "held_out": True,
            "rows": [[2, 0.5, 1.5, 0.6, 1.0, 1.0]],
            "inputs": 1,
            "of": 3,
        },
        "warnings": [],
        "missing": [],
        "verdict": [f"WARNING: {HOSTILE}", "See the warning; " + "-0.123 ± 0.456 nats " * 9],
        "table_notes": [f"line {k}, column {'x' * 90!r}: {HOSTILE}" for k in range(40)],
    }
    for name, content in (("findings", findings), ("predictions", predictions)):
        path.with_suffix(f".{name}.json").write_text(json.dumps(content))
    path.with_suffix(".trajectories.json").write_text(json.dumps(regression_run()))
    return path


def _with_predictions(folder: Path, changes: dict[str, Any], *left_out: str) -> Path:
    """`wide_draws` with other predictions."""
    path = wide_draws(folder)
    beside = path.with_suffix(".predictions.json")
    known = {k: v for k, v in json.loads(beside.read_text()).items() if k not in left_out}
    beside.write_text(json.dumps(known | changes))
    return path


def class_draws(folder: Path) -> Path:
    """Draws that answered 1 000 held-out rows of three classes, one of them with a long name."""
    names = ["setosa", "versicolor", "virginica, with all that is known of it " + "x" * 40]
    classes = {
        "right": [0, 0, 0, 0, 0, 0, 0, 0, 499, 200],
        "wrong": [0, 0, 0, 0, 0, 0, 0, 0, 300, 1],
        "labels": names,
        "counts": [[399, 1, 0], [100, 200, 100], [50, 50, 100]],
    }
    return _with_predictions(folder, {"classes": classes}, "within_two", "functions")


def unit_draws(folder: Path) -> Path:
    """Draws whose targets are a million, give or take ten, and whose input is a year."""
    name = "price at the time of the sale in the currency of then"
    function = {
        "method": "DiMS",
        "curves": [[1_000_000.0, 1_000_010.0], [1_000_001.0, 1_000_012.0]],
        "mean": [1_000_000.5, 1_000_011.0],
        "std": [2.0, 3.0],
        "inner": [1.0, 2.0],
    }
    rows = [
        [2, 0.5, 1_000_001.5, 0.6, 1_000_003.0, 2019.354],
        [1, 0.25, 1_000_001.25, 0.7, 1_000_002.125, 2019.7],
    ]
    changes = {
        "units": {"targets": [name], "mean": [1_000_005.0], "scale": [5.0]},
        "functions": [function],
        "grid": [2019.1, 2019.7],
        "points": {"train": [[2019.2, 1_000_000.0]], "gap": [[2019.6, 1_000_010.0]]},
        "function_axes": ["year of the sale", name],
        "residuals": [
            {"name": "", "axis": "predicted price", "x": [1_000_001.5, 1_000_009.0], "y": [1, -1]}
        ],
        "disagreement": {
            "classes": False,
            "held_out": True,
            "rows": rows,
            "inputs": 1,
            "names": ["year of the sale"],
            "of": 3,
        },
    }
    return _with_predictions(folder, changes)
