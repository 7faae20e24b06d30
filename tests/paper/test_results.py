"""What the README and the documentation say of our results follows from the files beside them."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from dims_paper.experiments import uci
from dims_paper.experiments.comparison import Cell, compare

ROOT = Path(__file__).parents[2]
RUNS = uci.paper_runs(json.loads((ROOT / "results/paper" / "uci.json").read_text()))


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
    page = (ROOT / "docs" / "reproduction.md").read_text()
    for cell in found:
        assert f"{cell.paper:.3f} → {cell.ours:.3f} ± {cell.error:.3f}" in page


def test_the_counts_in_the_readme():
    agree: Counter[str] = Counter()
    worse: Counter[str] = Counter()
    for cell in cells("uci_test"):
        agree[cell.method] += cell.verdict in ("same", "better")
        if cell.method == "DiMS" and cell.verdict == "worse":
            worse[cell.dataset] += 1
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"better in {agree['MAP']} of 36 test cells, RLA in {agree['RLA']}, DiMS in" in text
    assert f"DiMS in {agree['DiMS']} of 72" in text
    assert agree["DiMS"] + sum(worse.values()) == 72


@pytest.mark.parametrize(
    ("part", "method", "t1", "reading"),
    [
        ("mnist_1_full", "MAP", None, "ensemble"),
        ("mnist_1_full", "DiMS full", 1.0, "ensemble"),
        ("mnist_1_full", "DiMS full", 50.0, "per_sample"),
        ("mnist_1_full", "DiMS full", 50.0, "ensemble"),
        ("mnist_0_peers", "Ensemble (20)", None, "ensemble"),
        ("fashion_mnist_1_full", "MAP", None, "ensemble"),
        ("fashion_mnist_1_full", "DiMS full", 1.0, "ensemble"),
        ("fashion_mnist_1_full", "DiMS full", 50.0, "per_sample"),
        ("fashion_mnist_1_full", "DiMS full", 50.0, "ensemble"),
        ("fashion_mnist_0_peers", "Ensemble (20)", None, "ensemble"),
    ],
)
def test_the_readme_has_the_numbers_of_the_runs_on_all_images(part, method, t1, reading):
    runs = {run["part"]: run for run in json.loads((ROOT / "results/paper/mnist.json").read_text())}
    (row,) = (r for r in runs[part]["rows"] if (r["method"], r["t1"]) == (method, t1))
    numbers = "{accuracy:.4f} and {nll:.4f}".format(**row["test"][reading]).replace("0.", ".")
    text = " ".join((ROOT / "README.md").read_text().split()).replace(" and NLL ", " and ")
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
    monkeypatch.syspath_prepend(str(ROOT / "paper/programs"))
    from performance_page import filled

    page = (ROOT / "docs" / "performance.md").read_text()
    assert filled(page) == page


def test_the_page_of_the_paper_is_what_its_program_writes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "paper/programs"))
    import reproduction_page

    page = tmp_path / "page.md"
    page.write_text((ROOT / "docs" / "reproduction.md").read_text())
    for file in (ROOT / "results/paper").glob("*.json"):
        shutil.copy(file, tmp_path)
    monkeypatch.setattr(reproduction_page, "RESULTS", tmp_path)
    monkeypatch.setattr(reproduction_page, "PAGE", page)
    reproduction_page.write_tables()
    assert page.read_text() == (ROOT / "docs" / "reproduction.md").read_text()
    made = {file.name: file.read_text() for file in tmp_path.glob("*.csv")}
    assert made == {file.name: file.read_text() for file in (ROOT / "results/paper").glob("*.csv")}
