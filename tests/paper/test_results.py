"""What the README and the documentation say of our results follows from the files beside them."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from dims_paper.comparison import Cell, compare
from dims_paper.experiments import uci
from dims_paper.pages.write import write_pages
from dims_paper.schema import Run

ROOT = Path(__file__).parents[2]
RESULTS, PAGES = ROOT / "results/paper", ROOT / "docs/reproduction"


def runs_of(name: str) -> list[Run]:
    return [Run.from_json(run) for run in json.loads((RESULTS / f"{name}.json").read_text())]


RUNS = uci.paper_runs(runs_of("uci"))


def cells(table: str) -> list[Cell]:
    return compare(f"tab:{table}", RUNS, uci.METRIC_NAMES)


@pytest.mark.parametrize("table", ["uci_test", "uci_train"])
def test_no_cell_of_the_uci_tables_is_left_out(table):
    with (ROOT / "results/paper" / f"{table}.csv").open() as file:
        lines = list(csv.DictReader(file))
    found = cells(table)
    assert len(lines) == len(found) == 216
    assert [line["verdict"] for line in lines] == [cell.verdict for cell in found]
    assert all(cell.seeds == 5 for cell in found)
    page = (PAGES / "uci.md").read_text()
    for cell in found:
        assert f"{cell.paper:.3f} → {cell.ours:.3f} ± {cell.error:.3f}" in page


def test_the_counts_of_the_summary():
    agree: Counter[str] = Counter()
    worse: Counter[str] = Counter()
    for cell in cells("uci_test"):
        agree[cell.method] += cell.verdict in ("same", "better")
        if cell.method == "DiMS" and cell.verdict == "worse":
            worse[cell.dataset] += 1
    text = " ".join((ROOT / "docs/reproduction.md").read_text().split())
    assert f"better in {agree['MAP']} of 36 cells of the" in text
    assert f"RLA in {agree['RLA']}, DiMS in {agree['DiMS']} of 72" in text
    assert agree["DiMS"] + sum(worse.values()) == 72


def measured_on_all_images(part: str, method: str, t1: float | None) -> tuple[dict, dict]:
    """The ensemble's metrics on test images, and its AUROC on each OOD set."""
    if part == "moving":
        runs = json.loads((ROOT / "results/benchmarks/moving_metric_lenet.json").read_text())
        (run,) = (run for run in runs if run["max_time"] == t1)
        found = run["at"][f"{t1:g}"]
        return found["scores"]["test"]["ensemble"], found["ood"]
    runs = {run.part: run for run in runs_of("mnist")}
    (row,) = (r for r in runs[part].rows if (r.method, r.t1) == (method, t1))
    return row.scores["test"]["ensemble"], row.ood


def table_row(page: str, name: str) -> dict[str, str]:
    """The cells of the row that begins with the name, by the heads of its table."""
    lines = [
        [cell.strip(" *") for cell in line.strip("|").split("|")]
        for line in (ROOT / page).read_text().splitlines()
        if line.startswith("|")
    ]
    (at,) = (n for n, line in enumerate(lines) if line[0] == name and "NLL" in head(lines, n))
    return dict(zip(head(lines, at), lines[at], strict=True))


def head(lines: list[list[str]], at: int) -> list[str]:
    """The heads of a table: the line above its dashes."""
    dashes = max(n for n in range(at + 1) if set(lines[n][0]) <= {"-"} and lines[n][0])
    return lines[dashes - 1]


@pytest.mark.parametrize(
    ("page", "name", "part", "method", "t1"),
    [
        ("docs/when.md", "one network, 10 epochs", "fashion_mnist_0_full", "MAP", None),
        ("docs/when.md", "last-layer Laplace", "fashion_mnist_0_peers", "Last-layer LA", None),
        ("docs/when.md", "SWAG", "fashion_mnist_0_peers", "SWAG", None),
        (
            "docs/when.md",
            "deep ensemble, 30 epochs, not tuned",
            "fashion_mnist_0_peers",
            "Ensemble (20)",
            None,
        ),
        (
            "docs/when.md",
            "DiMS, euclidean metric, t = 5",
            "fashion_mnist_0_full",
            "DiMS full",
            5.0,
        ),
        ("docs/when.md", "DiMS, moving metric, t = 5", "moving", "DiMS", 5.0),
    ],
)
def test_tables_beside_the_alternatives_have_the_numbers_of_the_runs(page, name, part, method, t1):
    scores, ood = measured_on_all_images(part, method, t1)
    row = table_row(page, name)
    auroc = [sets["ensemble"]["auroc_entropy"] for sets in ood.values()]
    assert len(auroc) == 4
    expected = {"accuracy": scores["accuracy"], "NLL": scores["nll"], "ECE": scores["ece"]}
    check_row(row, {**expected, "AUROC": sum(auroc) / len(auroc)})


def check_row(row: dict[str, str], expected: dict[str, float]) -> None:
    """Every number that the row has is that of the runs, as far as its digits go."""
    for column in expected.keys() & row.keys():
        digits = len(row[column].split(".")[1])
        assert abs(float(row[column]) - expected[column]) <= 0.5001 * 10**-digits, column


def tuned(dataset: str, kind: str, draws: int) -> list[dict]:
    """The rows of some draws or members of the tuned runs."""
    file = ROOT / f"results/benchmarks/real_networks/{dataset}.json"
    rows = json.loads(file.read_text())["rows"]
    return [row for row in rows if row["draws"] == draws and re.fullmatch(kind, row["name"])]


@pytest.mark.parametrize(
    ("page", "name", "kind", "draws", "trainings"),
    [
        ("docs/when.md", "deep ensemble, tuned** (mean of three)", r"ensemble_\d", 20, 3),
        ("docs/when.md", "one member of it (mean of three)", r"ensemble_\d", 1, 3),
        ("docs/when.md", "DiMS from such a member, t = 1 (mean of two)", r"dims_\d_t1", 20, 2),
    ],
)
def test_tuned_runs_are_quoted_as_they_are(page, name, kind, draws, trainings):
    found = tuned("fashion_mnist", kind, draws)
    assert len(found) == trainings
    means = {
        column: sum(row[key] for row in found) / trainings
        for column, key in (("accuracy", "accuracy"), ("NLL", "nll"), ("ECE", "ece"))
    }
    auroc = [sum(row["auroc"].values()) / len(row["auroc"]) for row in found]
    check_row(table_row(page, name), {**means, "AUROC": sum(auroc) / trainings})


def test_the_tuned_ensembles_of_mnist_are_quoted_as_they_are():
    found = tuned("mnist", r"ensemble_\d", 20)
    text = " ".join((ROOT / "docs/when.md").read_text().split())
    ranges = []
    for key in ("accuracy", "nll"):
        values = [row[key] for row in found]
        ranges.append(f"{min(values):.4f} to {max(values):.4f}".replace("0.", "."))
    assert len(found) == 3
    assert f"accuracy {ranges[0]} and NLL {ranges[1]}" in text


@pytest.mark.parametrize(
    ("part", "method", "t1"),
    [
        ("mnist_1_full", "MAP", None),
        ("mnist_1_full", "DiMS full", 1.0),
        ("mnist_0_peers", "SWAG", None),
        ("mnist_0_peers", "Last-layer LA", None),
    ],
)
def test_the_page_has_the_numbers_of_the_runs_on_mnist(part, method, t1):
    scores, _ = measured_on_all_images(part, method, t1)
    numbers = "{accuracy:.4f} and {nll:.4f}".format(**scores).replace("0.", ".")
    text = " ".join((ROOT / "docs/when.md").read_text().split()).replace(" and NLL ", " and ")
    assert numbers in text


def test_no_trajectory_of_the_snelson_network_gains_energy():
    for name in ("rattle", "default"):
        run = json.loads((ROOT / f"results/benchmarks/energy_law/{name}.json").read_text())
        assert set(run["status"]) == {"FINISHED"}
        assert max(run["energy_violation"]) <= 1e-3
        assert max(abs(share) for share in run["late_balance_percent"]) <= 0.1
    reference = json.loads((ROOT / "results/benchmarks/energy_law/reference.json").read_text())
    for energies in reference["energy"]:
        assert max(b - a for a, b in pairwise(energies)) > 1


def test_the_performance_page_is_what_its_program_writes(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from performance_page import filled

    page = (ROOT / "docs" / "performance.md").read_text()
    assert filled(page) == page


def test_the_pages_of_the_paper_are_what_their_program_writes(tmp_path):
    shutil.copytree(PAGES, tmp_path / "pages")
    for file in RESULTS.glob("*.json"):
        shutil.copy(file, tmp_path)
    write_pages(tmp_path, tmp_path / "pages")
    for page in PAGES.glob("*.md"):
        assert (tmp_path / "pages" / page.name).read_text() == page.read_text()
    made = {file.name: file.read_text() for file in tmp_path.glob("*.csv")}
    assert made == {file.name: file.read_text() for file in RESULTS.glob("*.csv")}


def numbers_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from numbers_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from numbers_in(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield repr(float(value))


# SHA-256 of the sorted numbers of each file of results, before its keys were renamed.
NUMBERS = {
    "banana": "e87822caa0567a7c03ecddae5eb59ce1b7a3316e79dd1ee4874e40661c4b8f88",
    "banana_additional": "b9e91156e6a631886edfd21b88ed8d4f5ad7d1e0d8b46c81e049d126ad843298",
    "mnist": "0e43dbd4d0972053805cf37e8c486645238f54c71e73c91c06f410b3eacd5cd1",
    "mnist_differences": "b73c7be12f28bf2db1cd9a6b93ccd9c2ccec661f0eb4ab1b4b62dc6091cd0981",
    "mnist_ood": "c1094ab2d1cdfd4cbc5093af0b5a9cde7d5b85d23a11b3d0843ad53d64dfe694",
    "mnist_study": "790dc158460afe10ec93ba418b8feef92dbe5270ebe2b34e8ae91731c0e9324e",
    "snelson": "84749c85bf2bb48fab70d9e6109faec0f6e3b85e188df1029f140ba3cef2aa5d",
    "snelson_additional": "c01815ba8b714515d2aee06fceedce7de357529cb99c004e79d00dec5462e623",
    "uci": "9574e8407e188a8f52bdedb591a923b491a0d89a338edd7ed558ae9a225230fb",
    "uci_additional": "412ac463807f465dec4a9b95c36691e90795f34f9d1f66d7f8f1e0ad28dd7f6a",
    "figures/banana": "2264e714d41203921d3b848b4943439544876135d550c965bf1a8c656ee8ab63",
    "figures/breakdown": "3212f38b800e65c7bf4c33f46a5cc16a86205c0d93cdd4f9b37cff18a87375b3",
    "figures/curve": "6bab3582ac6ece450a3f9c4f238cb941a86577bdadf3d8f8e284fbec02425d55",
    "figures/sinusoid": "6e2d43574e0fa550462debd3699e1a0fa1d26d89ab4eacf983503a4666d43913",
    "figures/snelson": "0b462a9f007d946ea7109bf5de0a21a133c841462574cce26b2c189013318cd4",
    "figures/sphere": "4e418d30a1c6adbff1f1a840e497bc46e097b6ea32b6a7354d7361109a01120d",
    "figures/surface-2d": "fabce8bf82168e4972be4d42102b37f218f53ff477c18f58e73ca822186ed42a",
}


@pytest.mark.parametrize("name", NUMBERS)
def test_renaming_keys_changed_no_number(name):
    found = json.loads((RESULTS / f"{name}.json").read_text())
    entries = found if isinstance(found, list) else [found]
    as_runs = [Run.from_json(run).to_json() for run in entries if "experiment" in run] or entries
    for value in (entries, as_runs):
        text = "\n".join(sorted(numbers_in(value)))
        assert hashlib.sha256(text.encode()).hexdigest() == NUMBERS[name]
