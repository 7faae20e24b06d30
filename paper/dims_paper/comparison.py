"""Our numbers beside the paper's: a verdict for every cell of a table."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields

from dims_paper.numbers import PaperNumber, select
from dims_paper.schema import AUROC, ENSEMBLE, ERROR, PER_DRAW, Row, Run, Scores
from dims_paper.tables import Table, is_better_high, metric_label

COMBINED_ERRORS = 2.0  # how many of them still count as the same
SIGNS = {"better": "+", "same": "=", "worse": "-", "not run": "?"}

MAIN_TABLES = ("tab:id-main", "tab:ood-main", "tab:hessian-influence")
IMAGE_TABLES = (*MAIN_TABLES, *(f"tab:id-seed{seed}" for seed in range(3)))
# The paper does not say which EMNIST: both that we have stand beside its number.
OUR_SETS = {"emnist": ("emnist_mnist", "emnist_letters")}
IMAGE_METRICS = {"brier": "brier_mean"}  # these tables take the mean over classes
CURVATURES = {"D": "diagonal", "K": "kronecker", "LR": "low_rank"}


@dataclass(frozen=True)
class Cell:
    """One number of the paper and what we measured for it."""

    table: str
    dataset: str
    split: str
    method: str
    t1: float | None
    eta0: float | None
    metric: str
    paper: float
    paper_error: float | None
    ours: float  # NaN where there is no run
    error: float
    ensemble: float  # the same metric of the ensemble
    seeds: int
    verdict: str  # "better", "same", "worse" or "not run"

    @property
    def name(self) -> str:
        return self.method if self.eta0 is None else f"{self.method} ({self.eta0:g})"


def compare(
    table: str, runs: Sequence[Run], metric_names: Mapping[str, str] | None = None
) -> list[Cell]:
    """Every cell of a table of the paper, the mean over the seeds of our runs beside it.

    Args:
        table: The label of the table in the paper.
        runs: Our runs.
        metric_names: Our names of the paper's metrics, where they differ.
    """
    return [_cell(number, runs, metric_names or {}) for number in select(table=table)]


def _cell(number: PaperNumber, runs: Sequence[Run], names: Mapping[str, str]) -> Cell:
    metric = names.get(number.metric, number.metric)
    found = [
        row.scores[number.split]
        for run in runs
        if run.dataset == number.dataset
        for row in run.rows
        if _is_of(row, number, number.method)
    ]
    values = [scores[PER_DRAW][metric] for scores in found]
    ours = statistics.fmean(values) if values else math.nan
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    joint = [scores[ENSEMBLE][metric] for scores in found]
    return beside(number, ours, error, statistics.fmean(joint) if joint else math.nan, len(values))


def compare_images(runs: Sequence[Run]) -> list[Cell]:
    """Every number of the paper on images; the tables of one seed are ours of the same number."""
    numbers = [number for table in IMAGE_TABLES for number in select(table=table)]
    return [cell for number in numbers for cell in _image_cells(number, runs)]


def _image_cells(number: PaperNumber, runs: Sequence[Run]) -> Iterable[Cell]:
    method, _, letter = number.method.partition("-")
    curvature = CURVATURES.get(letter, "low_rank")
    seed = int(number.table[-1]) if number.table.startswith("tab:id-seed") else 0
    rows = [
        row
        for run in runs
        if (run.dataset, run.seed) == (number.dataset, seed)
        and str(run.part).endswith(curvature)
        and run.settings.get("activation", "tanh") == "tanh"
        for row in run.rows
        if _is_of(row, number, method)
    ]
    if number.split == "ood":
        assert number.evaluated_on is not None
        for name in OUR_SETS.get(number.evaluated_on, (number.evaluated_on,)):
            yield _image_cell(number, [row.ood[name] for row in rows], AUROC, f"auroc {name}")
    else:
        metric = IMAGE_METRICS.get(number.metric, number.metric)
        yield _image_cell(number, [row.scores["test"] for row in rows], metric, number.metric)


def _image_cell(number: PaperNumber, found: list[Scores], metric: str, shown: str) -> Cell:
    """The paper's errors are over draws, and so are ours."""
    if not found:
        return beside(number, math.nan, math.nan, math.nan, 0, shown)
    ours, error, ensemble = (found[0][k][metric] for k in (PER_DRAW, ERROR, ENSEMBLE))
    return beside(number, ours, error, ensemble, len(found), shown)


def _is_of(row: Row, number: PaperNumber, method: str) -> bool:
    """Whether a row is that of a number of the paper; what the paper does not state may be any."""
    return row.method == method and number.eta0 in (None, row.eta0) and number.t1 in (None, row.t1)


def beside(
    number: PaperNumber,
    ours: float,
    error: float,
    ensemble: float,
    seeds: int,
    metric: str | None = None,
) -> Cell:
    """The cell of a number and what we have for it; no seeds: it was not run."""
    names = ("table", "dataset", "split", "method", "t1", "eta0")
    return Cell(
        **{name: getattr(number, name) for name in names},
        metric=number.metric if metric is None else metric,
        paper=number.mean,
        paper_error=number.error,
        ours=ours,
        error=error,
        ensemble=ensemble,
        seeds=seeds,
        verdict=_verdict(number, ours, error) if seeds else "not run",
    )


def _verdict(number: PaperNumber, ours: float, error: float) -> str:
    combined = math.hypot(number.error or 0.0, 0.0 if math.isnan(error) else error)
    gain = ours - number.mean if is_better_high(number.metric) else number.mean - ours
    # The paper prints three decimals: half a unit of the last is no difference.
    if abs(gain) <= COMBINED_ERRORS * combined + 5e-4:
        return "same"
    return "better" if gain > 0 else "worse"


def comparison_table(
    cells: Sequence[Cell],
    metrics: Sequence[str],
    additional: Mapping[str, Sequence[Sequence[str]]] | None = None,
) -> Table:
    """A line for each dataset and method: paper → ours, and the sign of the verdict.

    Where a method is looked at more than once, its lines say when. `additional` has further lines
    of a dataset, of methods that the paper does not have.
    """
    seen: dict[tuple[str, str, float | None], dict[str, Cell]] = {}
    for cell in cells:
        seen.setdefault((cell.dataset, cell.name, cell.t1), {})[cell.metric] = cell
    last = {key[0]: key for key in seen}
    looks = Counter(key[:2] for key in seen)
    lines: list[Sequence[str]] = []
    for key, row in seen.items():
        dataset, name, t1 = key
        shown = f"{name}, t₁ = {t1:g}" if looks[key[:2]] > 1 else name
        lines.append([dataset, shown, *(_text(row[metric]) for metric in metrics)])
        if last[dataset] == key:
            lines += (additional or {}).get(dataset, ())
    return Table(["set", "method", *map(metric_label, metrics)], lines)


def _text(cell: Cell) -> str:
    # Of a single network there is no error.
    error = "" if math.isnan(cell.error) else f" ± {cell.error:.3f}"
    return f"{cell.paper:.3f} → {cell.ours:.3f}{error} {SIGNS[cell.verdict]}"


def verdicts_table(cells: Sequence[Cell]) -> Table:
    """How many cells of each method are better, the same or worse."""
    count = Counter((cell.method, cell.verdict) for cell in cells)
    methods = dict.fromkeys(cell.method for cell in cells)
    lines = [[method, *(str(count[method, verdict]) for verdict in SIGNS)] for method in methods]
    return Table(["method", *SIGNS], lines)


def cells_table(cells: Sequence[Cell]) -> Table:
    """All cells, one a line."""
    texts = [
        ["" if v is None else f"{v:.6g}" if isinstance(v, float) else str(v) for v in astuple(cell)]
        for cell in cells
    ]
    return Table([field.name for field in fields(Cell)], texts)
