"""The page of `dims reproduce`: scores, the paper's numbers, functions, maps and trajectories."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

from dims.commands.pages.parts import CITATION, column, confidence_sets, motion, pairs, table
from dims.errors import ReportError
from dims_paper.join import joined

__all__ = ["read_results", "results_page"]

METRICS = {
    "accuracy": "accuracy",
    "nll": "NLL",
    "brier_sum": "Brier",
    "ece": "ECE",
    "mce": "MCE",
    "auroc": "AUROC",
    "rmse": "RMSE",
    "crps": "CRPS",
}
SPLITS = ("train", "test", "gap")
READINGS = ("per_sample", "ensemble")
VERSIONS = ("dims", "torch", "machine")
FACTS = ("draws", "seed", "parameters", "prior_precision", "noise_std", "gradient_norm")
AUROC = "auroc_max_probability"
MOST_ROWS = 20_000  # of draws, in the table
LARGEST = 2**28  # bytes of a JSON file; results are far smaller


def read_results(place: Path) -> dict[str, Any] | None:
    """The page of a result of `dims reproduce` or a folder of them; None for anything else."""
    runs = _runs(place)
    if not runs:
        return None
    folder = place if place.is_dir() else place.parent
    comparison = folder / "comparison.csv"
    try:
        return results_page(joined(runs), comparison if comparison.exists() else None)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ReportError(
            f"{place}: not as dims reproduce writes results ({error!r}); make the run again"
        ) from error


def _runs(place: Path) -> list[dict[str, Any]]:
    files = sorted(place.rglob("*.json")) if place.is_dir() else [place]
    runs: list[dict[str, Any]] = []
    for file in files:
        if file.stat().st_size > LARGEST:
            raise ReportError(f"{file}: too large for a result")
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ReportError(f"{file}: no JSON text ({error}); make the run again") from error
        entries = found if isinstance(found, list) else [found]
        runs += [run for run in entries if isinstance(run, dict) and "experiment" in run]
    return runs


def results_page(runs: list[dict[str, Any]], comparison: Path | None) -> dict[str, Any]:
    """The data of the page; the comparison is the CSV file beside the runs."""
    names = [_name(run) for run in runs]
    experiments = list(dict.fromkeys(str(run["experiment"]) for run in runs))
    tables = [_scores(runs, names), None if comparison is None else _beside_the_paper(comparison)]
    tables += [_ood(runs, names), _draws(runs, names)]
    facts = [["experiment", ", ".join(experiments)], ["runs", len(runs)]]
    if len(runs) == 1:
        facts += [[key.replace("_", " "), runs[0][key]] for key in FACTS if key in runs[0]]
    return {
        "title": f"Results: {', '.join(experiments)}",
        "subtitle": "Computed by dims reproduce; drawn from the saved results alone.",
        "facts": facts,
        "advice": [],
        "tables": [entry for entry in tables if entry is not None and entry["rows"]],
        "runs": [_run(run, name) for run, name in zip(runs, names, strict=True)],
        "citation": CITATION,
    }


def _name(run: dict[str, Any]) -> str:
    words = [run.get("dataset", run["experiment"])]
    words += [run[key] for key in ("curvature_kind",) if key in run]
    words += [f"seed {run['seed']}"] if "seed" in run else []
    if "part" in run:
        words.append(str(run["part"]).removeprefix(f"{run.get('dataset')}_{run.get('seed')}_"))
    return ", ".join(str(word) for word in words)


def _labelled(run: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The rows of a run, named by method and η₀, and by t₁ where that alone tells them apart."""
    rows = run.get("rows", [])
    found = Counter((row["method"], row.get("eta0")) for row in rows)
    named = []
    for row in rows:
        method, eta0, t1 = row["method"], row.get("eta0"), row.get("t1")
        words = [] if eta0 is None else [str(eta0)]
        if found[method, eta0] > 1 and t1 is not None:
            words.append(f"t₁ = {t1:g}")
        named.append((f"{method} ({', '.join(words)})" if words else str(method), row))
    return named


def _run(run: dict[str, Any], name: str) -> dict[str, Any]:
    """What the sections of one run show; a section without data is left out by the page."""
    named = _labelled(run)
    rows = [row for _, row in named]
    data = {
        "name": name,
        "settings": pairs(run.get("settings", {})),
        "versions": [[key, run[key]] for key in VERSIONS if key in run],
        "functions": [_kept(r, "method", "curves", "mean", "std") for r in rows if "mean" in r],
        "maps": [_kept(r, "method", "map") for r in rows if "map" in r],
        "calibration": [
            {"method": label, **r["calibration"]} for label, r in named if "calibration" in r
        ],
        "confidence": [
            {
                "method": label,
                "sets": confidence_sets(
                    r["confidence"],
                    str(run.get("dataset", "test")),
                    {name: scores["ensemble"][AUROC] for name, scores in r["ood"].items()},
                ),
            }
            for label, r in named
            if "confidence" in r
        ],
    }
    data |= _kept(run, "grid", "movies", "movie_grid", "map", "points") | motion(run)
    if "map" in run:  # points with classes rather than (x, y) pairs
        data["map_points"] = data.pop("points")
    return data


def _kept(entry: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: entry[key] for key in keys if key in entry}


def _scores(runs: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """One line for each run, method and part of the data; every metric in both readings."""
    found = [
        (name, label, split, row[split])
        for run, name in zip(runs, names, strict=True)
        for label, row in _labelled(run)
        for split in SPLITS
        if isinstance(row.get(split), dict)
    ]
    metrics = [m for m in METRICS if any(m in scores["per_sample"] for *_, scores in found)]
    columns = [column("run"), column("method"), column("data")]
    for metric in metrics:
        columns.append(column(METRICS[metric], "mean over draws of the metric of each"))
        columns.append(column(f"{METRICS[metric]}, averaged", "of the averaged predictive"))
    rows = []
    for name, label, split, scores in found:
        both = [scores[how] for how in READINGS]
        rows.append([name, label, split, *(r.get(m) for m in metrics for r in both)])
    note = "Each metric of single draws, averaged over them, and of the averaged predictive."
    return table("scores", "Methods", note, columns, rows, ("method", "data"))


def _ood(runs: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """How well the confidence of each method separates OOD sets from the test set."""
    found = [
        (name, label, row["ood"])
        for run, name in zip(runs, names, strict=True)
        for label, row in _labelled(run)
        if "ood" in row
    ]
    sets = list(dict.fromkeys(name for *_, scores in found for name in scores))
    columns = [column("run"), column("method")]
    for name in sets:
        columns.append(column(name, "mean over draws of the AUROC of each"))
        columns.append(column(f"{name}, averaged", "of the averaged predictive"))
    rows = [
        [name, label]
        + [scores.get(f, {}).get(how, {}).get(AUROC) for f in sets for how in READINGS]
        for name, label, scores in found
    ]
    note = (
        "AUROC of the confidence: how often an OOD image gets a lower confidence than a test "
        "image; ½ is chance, 1 is perfect."
    )
    return table("ood", "AUROC on OOD data", note, columns, rows, ("run", "method"))


def _beside_the_paper(path: Path) -> dict[str, Any]:
    with path.open(newline="", encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    numbers = ("paper", "paper_error", "ours", "error", "ensemble")
    columns = [column(label) for label in ("set", "data", "method", "metric")]
    columns += [column("paper"), column("± (paper)"), column("ours"), column("± (ours)")]
    columns += [column("averaged", "the same metric of the averaged predictive")]
    columns += [column("verdict", "same: within two combined errors")]
    rows = []
    for cell in cells:
        method = f"{cell['method']} ({cell['eta0']})" if cell["eta0"] else cell["method"]
        values = [_number(cell[key]) for key in numbers]
        rows.append(
            [cell["dataset"], cell["split"], method, cell["metric"], *values, cell["verdict"]]
        )
    note = (
        "The paper's numbers and ours, as metrics of single draws; errors as each has "
        "them. A verdict means little where a run was made with --quick."
    )
    return table(
        "paper", "Beside the paper", note, columns, rows, ("set", "method", "metric", "verdict")
    )


def _number(text: str) -> float | None:
    return float(text) if text not in ("", "nan") else None


def _draws(runs: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """Single draws, from the lists of scored methods or from trajectories."""
    labels = ("run", "draw", "status", "loss", "energy violation", "gradients", "arc length")
    rows: list[list[Any]] = []
    for run, name in zip(runs, names, strict=True):
        for label, row in _labelled(run):
            if isinstance(row.get("status"), list):
                lists = zip(
                    row["status"], row["loss"], row["energy_violation"], row["evaluations"],
                    strict=True,
                )  # fmt: skip
                rows += [[name, f"{label} {i}", *e, None] for i, e in enumerate(lists)]
        for path in run.get("trajectories", []):
            violation = path["energy_violation"]
            ends = (path["status"], path["loss"][-1], violation, None, path["arc_length"])
            rows.append([name, path["label"], *ends])
    note = "How trajectories ended; an energy violation of 0 is an energy that never rose."
    columns = [column(label) for label in labels]
    return table("draws", "Draws and trajectories", note, columns, rows[:MOST_ROWS], ("status",))
