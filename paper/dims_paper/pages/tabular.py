"""Tables of the UCI sets, banana and Snelson, and what the solver changes there."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from dims_paper.comparison import compare, comparison_table, verdicts_table
from dims_paper.experiments.banana import METRIC_NAMES as BANANA_METRICS
from dims_paper.experiments.uci import METRIC_NAMES, paper_runs
from dims_paper.pages.results import Results
from dims_paper.schema import ENSEMBLE, PER_DRAW, Row, Run
from dims_paper.tables import Table, metric_label, with_error

METRICS = ("accuracy", "nll", "brier", "ece", "mce", "auroc")


def label(row: Row) -> str:
    """The name of a row, and how many of its draws a limit left."""
    if row.note is None or not row.draws:
        return row.name
    return f"{row.name}, {row.draws} of {row.numbers['asked']} draws"


def _uci_table(split: str) -> Callable[[Results], str]:
    """The table of a split beside the paper's, and how many cells are better or worse."""

    def make(results: Results) -> str:
        runs = paper_runs(results.runs("uci"))
        name = f"uci_{split}"
        cells = results.write_cells(name, compare(f"tab:{name}", runs, METRIC_NAMES))
        table = comparison_table(cells, METRICS, _additional(runs, split))
        return f"{table.markdown()}\n\n{verdicts_table(cells).markdown()}"

    return make


def _additional(runs: Sequence[Run], split: str) -> dict[str, list[list[str]]]:
    """For each set the lines of methods that the paper does not have: ours ± s.e., per draw."""
    lines: dict[str, list[list[str]]] = {}
    for dataset in dict.fromkeys(str(run.dataset) for run in runs):
        rows = [row for run in runs if run.dataset == dataset for row in run.rows]
        for name in dict.fromkeys(label(row) for row in rows if row.is_additional):
            same = [row for row in rows if label(row) == name]
            found = [row.scores[split][PER_DRAW] for row in same if split in row.scores]
            texts = [same[0].note or "-", *[""] * (len(METRICS) - 1)]
            if found:
                texts = [
                    with_error([scores[METRIC_NAMES.get(m, m)] for scores in found])
                    for m in METRICS
                ]
            lines.setdefault(dataset, []).append([dataset, name, *texts])
    return lines


def _waveform_file(results: Results) -> Table:
    """The lines of waveform with the rows of the published file."""
    runs = [run for run in results.runs("uci") if run.dataset == "waveform"]
    runs = [run for run in runs if run.facts["protocol"] == "bnn-predictions"]
    cells = [c for c in compare("tab:uci_test", runs, METRIC_NAMES) if c.dataset == "waveform"]
    return comparison_table(cells, METRICS, _additional(runs, "test"))


def _uci_readings(results: Results) -> Table:
    """Test NLL of single draws and of the ensemble, mean over seeds."""
    runs = [
        run if run in paper_runs([run]) else replace(run, dataset="waveform, 1 000 rows")
        for run in results.runs("uci")
    ]
    names = list(dict.fromkeys(label(row) for run in runs for row in run.rows))
    sets = list(dict.fromkeys(str(run.dataset) for run in runs))
    lines = []
    for name in names:
        texts = []
        for dataset in sets:
            rows = [
                row
                for run in runs
                if run.dataset == dataset
                for row in run.rows
                if label(row) == name and "test" in row.scores
            ]
            both = [
                f"{statistics.fmean(row.metric('test', 'nll', k) for row in rows):.3f}"
                for k in (PER_DRAW, ENSEMBLE)
                if rows
            ]
            texts.append(" / ".join(both) or "-")
        lines.append([name, *texts])
    return Table(["method", *sets], lines)


def _uci_ensembles(results: Results) -> Table:
    """Test metrics of the ensemble, mean over sets and seeds; the reference solver has few."""
    runs = [run for run in results.runs("uci") if run.facts["protocol"] == "bnn-predictions"]
    rows = [row for run in runs for row in run.rows if not row.is_reference]
    lines = []
    for name in dict.fromkeys(label(row) for row in rows):
        found = [row.scores["test"][ENSEMBLE] for row in rows if label(row) == name]
        texts = [
            f"{statistics.fmean(scores[METRIC_NAMES.get(m, m)] for scores in found):.3f}"
            for m in METRICS
        ]
        lines.append([name, str(len(found)), *texts])
    return Table(["method", "runs", *map(metric_label, METRICS)], lines)


UCI: dict[str, Callable[[Results], Table | str]] = {
    "uci-test": _uci_table("test"),
    "uci-train": _uci_table("train"),
    "waveform-file": _waveform_file,
    "uci-readings": _uci_readings,
    "uci-averaged": _uci_ensembles,
}


def banana_table(results: Results) -> Table:
    """Every metric of the paper's table, ours beside it, and those of the additional baselines."""
    runs = results.runs("banana")
    cells = compare("tab:banana-classification", runs, BANANA_METRICS)
    results.write_cells("banana", cells)
    lines = [
        [c.method, c.metric, f"{c.paper:.3f} ± {c.paper_error:.3f}", f"{c.ours:.3f}",
         f"{c.ensemble:.3f}"]
        for c in cells
    ]  # fmt: skip
    for row in (row for run in runs for row in run.rows if row.is_additional):
        for metric in dict.fromkeys(c.metric for c in cells):
            texts = [row.note or "-", ""]
            if "test" in row.scores:
                name = BANANA_METRICS.get(metric, metric)
                texts = [f"{row.metric('test', name, k):.3f}" for k in (PER_DRAW, ENSEMBLE)]
            lines.append([label(row), metric, "", *texts])
    return Table(["method", "metric", "paper ± s.d.", "ours", "ensemble"], lines)


def snelson_table(results: Results) -> Table:
    """NLL on the data and in the gap, and the spread of the functions in both."""
    columns = ["start, curvature", "method", "NLL, data", "NLL, gap", "ensemble NLL, gap"]
    columns += ["spread in the gap", "in the data", "ratio"]
    lines = []
    for run in results.runs("snelson"):
        trained = run.settings.get("trained", True)
        start = f"{'trained' if trained else 'random'}, {run.facts['curvature_kind']}"
        for row in run.rows:
            texts = [row.note or "-", *[""] * 5]
            if "gap" in row.scores:
                gap, data = row.numbers["spread_gap"], row.numbers["spread_data"]
                numbers = [row.metric("train", "nll"), row.metric("gap", "nll")]
                numbers += [row.metric("gap", "nll", ENSEMBLE), gap, data]
                texts = [f"{number:.3g}" for number in numbers]
                texts.append(f"{gap / data:.1f}" if data > 0 else "-")
            lines.append([start, label(row), *texts])
    return Table(columns, lines)


EXPERIMENTS = ("uci", "banana", "snelson")
COLUMNS = ["set", "method", "draws", "worst energy violation", "T(end)/T(0)", "gradients a draw",
           "seconds a draw", "test NLL", "the reference solver"]  # fmt: skip


def networks(results: Results) -> str:
    """Whether rows that were computed later are of the networks of the tables."""
    runs = results.some_runs(*EXPERIMENTS)
    later = [run for run in runs if any(row.is_additional for row in run.rows)]
    if not later:
        return "Not run yet."
    same = sum(run.facts.get("same_network", False) for run in later)
    return f"Their networks, trained again, are those of the tables in {same} of {len(later)} runs."


def solver_table(results: Results) -> Table:
    """Each cell: reference solver, rattle; seconds are of one core, for one draw."""
    lines = [
        [str(run.dataset), label(row), *_cells(row)]
        for run in results.some_runs(*EXPERIMENTS)
        for row in run.rows
        if row.is_reference
    ]
    if not lines:
        raise FileNotFoundError("no rows by the reference solver")
    return Table(COLUMNS, lines)


def _cells(row: Row) -> list[str]:
    asked = int(row.numbers["asked"])
    sides = [(row, asked)]  # all draws of a batch that was cut off took its time
    if row.rattle is not None:
        sides.append((row.rattle, row.rattle.draws or row.draws or asked))

    def both(show: Callable[[Row, int], str]) -> str:
        return ", ".join(show(side, count) for side, count in sides)

    def score(side: Row, _: int) -> str:
        part = next((part for part in ("test", "gap") if part in side.scores), None)
        return "-" if part is None else f"{side.metric(part, 'nll'):.3g}"

    def ratio(side: Row, _: int) -> str:
        low, high = side.diagnostics["kinetic_ratio"]
        return f"{low:.4g} to {high:.4g}"

    return [
        f"{row.draws} of {asked}",
        both(lambda side, _: f"{side.diagnostics['energy_violation']:.2g}"),
        both(ratio) if row.eta0 is None else "",
        both(lambda side, _: f"{side.diagnostics['evaluations']:.0f}"),
        both(lambda side, count: f"{(side.seconds or 0) / count:.1f}"),
        both(score),
        row.note or "finished",
    ]
