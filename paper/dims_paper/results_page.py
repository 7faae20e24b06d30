"""The page of `dims reproduce`: scores, the paper's numbers, functions, maps and trajectories."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dims
from dims.commands.pages.parts import CITATION, column, confidence_sets, motion, pairs, table
from dims_paper.schema import AUROC, ENSEMBLE, PER_DRAW, Row, Run, joined
from dims_paper.tables import metric_label, metrics_of

FACTS = ("parameters", "prior_precision", "noise_std", "gradient_norm")
MOST_ROWS = 20_000  # of draws, in the table
LARGEST = 2**28  # bytes of a JSON file; results are far smaller

Named = list[tuple[str, str, Row]]  # run, label and row


def read_results(place: Path) -> dict[str, Any] | None:
    """The page of a result of `dims reproduce` or a folder of them; None for anything else."""
    found = _objects(place)
    if not found:
        return None
    folder = place if place.is_dir() else place.parent
    comparison = folder / "comparison.csv"
    try:
        return results_page(found, comparison if comparison.exists() else None)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise dims.ReportError(
            f"{place}: not as dims reproduce writes results ({error!r}); make the run again"
        ) from error


def _objects(place: Path) -> list[dict[str, Any]]:
    """The JSON objects of runs in a file or a folder that may come from anyone."""
    files = sorted(place.rglob("*.json")) if place.is_dir() else [place]
    runs: list[dict[str, Any]] = []
    for file in files:
        if file.stat().st_size > LARGEST:
            raise dims.ReportError(f"{file}: too large for a result")
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise dims.ReportError(
                f"{file}: not JSON text ({error}); make the run again"
            ) from error
        entries = found if isinstance(found, list) else [found]
        runs += [run for run in entries if isinstance(run, dict) and "experiment" in run]
    return runs


def results_page(found: Sequence[Mapping[str, Any]], comparison: Path | None) -> dict[str, Any]:
    """The data of the page.

    Args:
        found: Runs as JSON objects, those of additional baselines included.
        comparison: The CSV file beside the runs.
    """
    runs = joined([Run.from_json(run) for run in found])
    names = [_name(run) for run in runs]
    rows = [
        (name, label, row)
        for run, name in zip(runs, names, strict=True)
        for label, row in _labelled(run)
    ]
    experiments = list(dict.fromkeys(run.experiment for run in runs))
    tables = [_scores(rows), None if comparison is None else _beside_the_paper(comparison)]
    tables += [_ood(rows), _draws(runs, names, rows)]
    facts = [["experiment", ", ".join(experiments)], ["runs", len(runs)]]
    if len(runs) == 1:
        known = {"draws": runs[0].draws, "seed": runs[0].seed}
        known |= {key: runs[0].facts[key] for key in FACTS if key in runs[0].facts}
        facts += [[k.replace("_", " "), v] for k, v in known.items() if v is not None]
    return {
        "title": f"Results: {', '.join(experiments)}",
        "subtitle": "Computed by dims reproduce; drawn from the saved results alone.",
        "facts": facts,
        "advice": [],
        "tables": [entry for entry in tables if entry is not None and entry["rows"]],
        "runs": [_sections(run, name) for run, name in zip(runs, names, strict=True)],
        "citation": CITATION,
    }


def _name(run: Run) -> str:
    words = [run.dataset or run.experiment, run.facts.get("curvature_kind")]
    words.append(None if run.seed is None else f"seed {run.seed}")
    words.append(run.part and run.part.removeprefix(f"{run.dataset}_{run.seed}_"))
    return ", ".join(str(word) for word in words if word is not None)


def _labelled(run: Run) -> Iterator[tuple[str, Row]]:
    """The rows of a run, named by method and η₀, and by t₁ where only that differs."""
    found = Counter((row.method, row.eta0) for row in run.rows)
    for row in run.rows:
        words = [] if row.eta0 is None else [str(row.eta0)]
        if found[row.method, row.eta0] > 1 and row.t1 is not None:
            words.append(f"t₁ = {row.t1:g}")
        yield f"{row.method} ({', '.join(words)})" if words else row.method, row


def _sections(run: Run, name: str) -> dict[str, Any]:
    """What the sections of one run show; a section without data is left out by the page."""
    data: dict[str, Any] = {
        "name": name,
        "settings": pairs(run.settings),
        "versions": [list(version) for version in run.versions.items()],
        **{key: [] for key in ("functions", "maps", "calibration", "confidence")},
    }
    for label, row in _labelled(run):
        drawn, method = row.figure, {"method": row.method}
        if "mean" in drawn:
            data["functions"].append(method | {k: drawn[k] for k in ("curves", "mean", "std")})
        if "map" in drawn:
            data["maps"].append(method | {"map": drawn["map"]})
        if "calibration" in drawn:
            data["calibration"].append({"method": label, **drawn["calibration"]})
        if "confidence" in drawn:
            auroc = {ood: scores[ENSEMBLE][AUROC] for ood, scores in row.ood.items()}
            sets = confidence_sets(drawn["confidence"], run.dataset or "test", auroc)
            data["confidence"].append({"method": label, "sets": sets})
    kept = ("grid", "movies", "movie_grid", "map", "points")
    data |= {key: run.figure[key] for key in kept if key in run.figure} | motion(run.figure)
    if "map" in run.figure:  # points with classes rather than (x, y) pairs
        data["map_points"] = data.pop("points")
    return data


def _scores(rows: Named) -> dict[str, Any]:
    """One line for each run, method and part of the data; every metric that a row contains."""
    metrics = metrics_of(row for *_, row in rows)
    columns = [column("run"), column("method"), column("data")]
    for metric in metrics:
        columns.append(column(metric_label(metric), "mean over draws of the metric of each"))
        columns.append(column(f"{metric_label(metric)}, ensemble", "of the averaged predictive"))
    lines = [
        [
            name,
            label,
            part,
            *(scores.get(k, {}).get(m) for m in metrics for k in (PER_DRAW, ENSEMBLE)),
        ]
        for name, label, row in rows
        for part, scores in row.scores.items()
    ]
    note = "Per-draw metrics, averaged over draws, and ensemble metrics."
    return table("scores", "Methods", note, columns, lines, ("method", "data"))


def _ood(rows: Named) -> dict[str, Any]:
    """How well the confidence of each method separates OOD sets from the test set."""
    sets = list(dict.fromkeys(ood for *_, row in rows for ood in row.ood))
    columns = [column("run"), column("method")]
    for ood in sets:
        columns.append(column(ood, "mean over draws of the AUROC of each"))
        columns.append(column(f"{ood}, averaged", "of the averaged predictive"))
    lines = [
        [name, label]
        + [row.ood.get(s, {}).get(how, {}).get(AUROC) for s in sets for how in (PER_DRAW, ENSEMBLE)]
        for name, label, row in rows
        if row.ood
    ]
    note = (
        "AUROC of the confidence: how often an OOD image gets a lower confidence than a test "
        "image; ½ is chance, 1 is perfect."
    )
    return table("ood", "AUROC on OOD data", note, columns, lines, ("run", "method"))


def _beside_the_paper(path: Path) -> dict[str, Any]:
    with path.open(newline="", encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    numbers = ("paper", "paper_error", "ours", "error", "ensemble")
    columns = [column(label) for label in ("set", "data", "method", "metric")]
    columns += [column("paper"), column("± (paper)"), column("ours"), column("± (ours)")]
    columns += [column("ensemble", "the same metric of the averaged predictive")]
    columns += [column("verdict", "same: within two combined errors")]
    rows = []
    for cell in cells:
        method = f"{cell['method']} ({cell['eta0']})" if cell["eta0"] else cell["method"]
        values = [float(cell[k]) if cell[k] not in ("", "nan") else None for k in numbers]
        rows.append(
            [cell["dataset"], cell["split"], method, cell["metric"], *values, cell["verdict"]]
        )
    note = (
        "The paper's numbers and ours, as per-draw metrics; errors as each has "
        "them. A verdict means little where a run was made with --quick."
    )
    return table(
        "paper", "Beside the paper", note, columns, rows, ("set", "method", "metric", "verdict")
    )


def _draws(runs: Sequence[Run], names: Sequence[str], rows: Named) -> dict[str, Any]:
    """Single draws, from the lists of scored methods or from trajectories."""
    labels = ("run", "draw", "status", "loss", "energy violation", "gradients", "arc length")
    lines: list[list[Any]] = []
    for name, label, row in rows:
        found = row.diagnostics
        if isinstance(found.get("status"), list):
            keys = ("status", "loss", "energy_violation", "evaluations")
            each = zip(*(found[key] for key in keys), strict=True)
            lines += [[name, f"{label} {i}", *entry, None] for i, entry in enumerate(each)]
    for run, name in zip(runs, names, strict=True):
        for path in run.figure.get("trajectories", []):
            violation = path["energy_violation"]
            ends = (path["status"], path["loss"][-1], violation, None, path["arc_length"])
            lines.append([name, path["label"], *ends])
    note = "How trajectories ended; an energy violation of 0 is an energy that never rose."
    columns = [column(label) for label in labels]
    return table("draws", "Draws and trajectories", note, columns, lines[:MOST_ROWS], ("status",))
