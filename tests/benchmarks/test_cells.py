"""Cells of a benchmark are computed once, by one process or several."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from cells import Cell, compute  # noqa: E402


def halved(number: int) -> dict[str, float]:
    return {"half": 1 / (number - 2) * (number - 2) * number / 2, "process": os.getpid()}


def cells(folder: Path, numbers: range) -> list[Cell]:
    return [Cell(f"cell {n}", folder / "set" / f"{n}.json", (n,)) for n in numbers]


def test_cells_with_a_file_are_not_computed_again(tmp_path, capsys):
    compute(cells(tmp_path, range(5, 7)), halved, lambda found: f"{found['half']:.1f}")
    assert capsys.readouterr().out == "cell 5: 2.5\ncell 6: 3.0\n"
    compute(cells(tmp_path, range(5, 8)), halved, lambda found: f"{found['half']:.1f}")
    assert capsys.readouterr().out == "cell 7: 3.5\n"


def test_a_failing_cell_takes_no_others_with_it(tmp_path, capsys):
    with pytest.raises(SystemExit, match="1 of 4 failed:\ncell 2: ZeroDivisionError"):
        compute(cells(tmp_path, range(1, 5)), halved, lambda found: f"{found['half']:.1f}")
    assert sorted(path.stem for path in (tmp_path / "set").iterdir()) == ["1", "3", "4"]
    assert "cell 2: ZeroDivisionError" in capsys.readouterr().out


@pytest.mark.slow
def test_several_processes_compute_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{BENCHMARKS}:{Path(__file__).parent}")
    with pytest.raises(SystemExit, match="1 of 6 failed"):
        compute(cells(tmp_path, range(6)), halved, str, workers=2)
    found = [json.loads((tmp_path / "set" / f"{n}.json").read_text()) for n in (0, 1, 3, 4, 5)]
    assert [cell["half"] for cell in found] == [0, 0.5, 1.5, 2, 2.5]
    assert os.getpid() not in {cell["process"] for cell in found}
