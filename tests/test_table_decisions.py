"""What is decided about missing cells, rare levels and dates is said, and can be changed."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from typer.testing import CliRunner

from dims.commands import app
from dims.errors import TableError
from dims.estimators import tables

KINDS = {"size": "number", "side": "category"}
SIZES = ["", "", *(f"{i}.5" for i in range(28))]
SIDES = ["N"] * 12 + ["S"] * 12 + ["E", "E", "W", "", "", ""]


def write(folder: Path) -> Path:
    rows = [
        f"{size},{side},{i}.25" for i, (size, side) in enumerate(zip(SIZES, SIDES, strict=True))
    ]
    path = folder / "t.csv"
    path.write_text("\n".join(["size,side,y", *rows]))
    return path


def read(folder: Path) -> tables.Table:
    return tables.read(write(folder), KINDS, "y", "regression")


def test_missing_cells_and_rare_levels_are_told(tmp_path):
    assert tables.decisions(tables.preparation(KINDS), read(tmp_path)) == [
        "column 'size': 2 of 30 cells are missing; filled with the median of the training rows, "
        f"{np.median(np.arange(28) + 0.5):g}; no input marks them, because it takes 10 rows to "
        "learn what a gap means",
        "column 'side': 3 of 30 cells are missing; a level of their own, '(missing)'",
        "column 'side': 3 rare levels share one input ((missing), E, W); rare means in fewer than "
        "4 training rows",
    ]


def test_other_settings_are_used_and_told(tmp_path):
    table = read(tmp_path)
    made = tables.preparation(KINDS, fill=7, mark_missing=False, rare=1, most_levels=3)
    notes = tables.decisions(made, table)
    assert notes[0].endswith("missing; filled with 7; no input marks them")
    assert notes[2].endswith("((missing), E, W); rare means not among the 2 most frequent levels")
    both = tables.decisions(tables.preparation(KINDS, most_levels=4), table)
    assert both[2].endswith(
        "rare means in fewer than 4 training rows, or not among the 3 most frequent levels"
    )
    features = made.fit_transform(table.inputs)
    assert features.shape == (30, 4)
    assert features[:2, 0].tolist() == [7, 7]
    mean = tables.preparation(KINDS, "mean", rare=1).fit_transform(table.inputs)
    assert mean.shape == (30, 6)
    assert mean[0, 0] == np.mean(np.arange(28) + 0.5)


def test_nothing_is_said_where_nothing_is_done(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["size,y", *(f"{i}.5,{i}.25" for i in range(20))]))
    kinds = {"size": "number"}
    table = tables.read(path, kinds, "y", "regression")
    assert tables.decisions(tables.preparation(kinds), table) == []


def flagged(folder: Path, cells: list[str], kind: str) -> list[str]:
    """What is said of a column beside one of many values."""
    path = folder / "t.csv"
    lines = [f"{cell},{i}.5,{i}.25" for i, cell in enumerate(cells)]
    path.write_text("\n".join(["vip,x,y", *lines]))
    kinds = {"vip": kind, "x": "number"}
    table = tables.read(path, kinds, "y", "regression")
    return tables.decisions(tables.preparation(kinds), table)


GUESSES = (
    "means, so predictions for such rows are guesses: add such rows, or make the column 'leave out'"
)


@pytest.mark.parametrize(
    ("cells", "kind", "said"),
    [
        (
            ["1"] * 4 + ["0"] * 36,
            "number",
            "only 4 of 40 training rows have 1; the network can hardly learn what it",
        ),
        (["0.5"] + ["7"] * 39, "number", "only 1 of 40 training rows has 0.5; the"),
        (
            ["0"] * 40,
            "number",
            "all 40 training rows have 0; the network cannot learn what another",
        ),
        (["yes"] * 2 + ["no"] * 38, "category", "only 2 of 40 training rows have 'yes'; the"),
        (
            ["No"] + ["no"] * 39,
            "category",
            "only 1 of 40 training rows has 'No' (is it 'no'?); the",
        ),
        (["x"] + [""] * 39, "category", "only 1 of 40 training rows has 'x'; the"),
        (
            ["yes"] + ["no"] * 33 + [""] * 6,
            "category",
            "only 1 of 40 training rows has 'yes'; the",
        ),
        (["1"] + ["0"] * 33 + [""] * 6, "number", "only 1 of 40 training rows has 1; the"),
    ],
)
def test_a_value_that_hardly_any_row_has_is_told(tmp_path, cells, kind, said):
    *_, note = notes = flagged(tmp_path, cells, kind)
    assert note.startswith(f"column 'vip': {said}")
    assert note.endswith(GUESSES)
    assert sum("vip" in each and "missing;" not in each for each in notes) == 1  # not rare as well


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1"] * 5 + ["0"] * 35, "number"),
        (["1", "2"] + ["0"] * 38, "number"),  # a count
        (["yes"] * 5 + ["no"] * 35, "category"),
    ],
)
def test_ordinary_columns_are_not_remarked_on(tmp_path, cells, kind):
    assert flagged(tmp_path, cells, kind) == []


def test_init_tells_which_flag_hardly_any_row_has(tmp_path, monkeypatch):
    """Whichever rows are held out."""
    monkeypatch.chdir(tmp_path)
    ones = {3, 700, 1100, 1900}
    lines = [f"{int(i in ones)},{i}.5,{i % 83}.25" for i in range(2000)]
    Path("t.csv").write_text("\n".join(["vip,x,y", *lines]))
    made = CliRunner().invoke(app, ["init", "mine.py", "--csv", "t.csv"])
    said = rf"column 'vip': only \d of 1600 .* 1; the network can hardly learn what it {GUESSES}\n"
    assert re.search(said, made.output)


def test_many_such_columns_are_listed(tmp_path):
    names = [f"is {letter}" for letter in "abcdefg"]
    path = tmp_path / "t.csv"
    lines = [
        ",".join("1" if i == place else "0" for place in range(7)) + f",{i}" for i in range(20)
    ]
    path.write_text("\n".join([",".join([*names, "y"]), *lines]))
    kinds = dict.fromkeys(names, "number")
    table = tables.read(path, kinds, "y", "regression")
    notes = tables.decisions(tables.preparation(kinds), table)
    assert len(notes) == 6
    assert notes[-1] == "2 more such columns: 'is f', 'is g'"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"fill": "most"}, 'FILL: must be "median", "mean" or a number'),
        ({"fill": float("nan")}, "FILL"),
        ({"rare": 0}, "RARE: must be a whole number of at least 1"),
        ({"most_levels": 1.5}, "MOST_LEVELS: must be a whole number of at least 2"),
    ],
)
def test_settings_out_of_range_are_refused(settings, said):
    with pytest.raises(TableError, match=said):
        tables.preparation(KINDS, **settings)


def loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("decided", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_init_and_the_program_say_the_same(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    made = CliRunner().invoke(app, ["init", "mine.py", "--csv", "t.csv"])
    assert made.exit_code == 0, made.output
    module = loaded(tmp_path / "mine.py")
    known, _ = module.data()
    tables.print_notes(module.model(), known)
    said = capsys.readouterr().out.splitlines()
    notes = tables.decisions(tables.preparation(KINDS), known)
    assert len(notes) == 3
    assert said == [f"note: {note}" for note in notes]
    assert all(note in made.stdout.splitlines() for note in notes)
    defaults = inspect.signature(tables.preparation).parameters
    written = {name: getattr(module, name.upper()) for name in list(defaults)[1:]}
    assert written == {name: defaults[name].default for name in written}
    module.RARE, module.FILL = 1, 0
    tables.print_notes(module.model(), known)
    assert "filled with 0; no input marks them" in (said := capsys.readouterr().out)
    assert "rare levels" not in said


@pytest.mark.parametrize(
    ("cells", "kind", "said"),
    [
        (["03/04/2020", "05/06/2021"], "%m/%d/%Y", "taken as month first, .*'date %d/%m/%Y'"),
        (["03.04.2020", "05.06.2021"], "%d.%m.%Y", "taken as day first, .*'date %m.%d.%Y'"),
        (["03/04/2020", "25/06/2021"], "%d/%m/%Y", None),
        (["2020-03-04", "2021-05-06"], "%Y-%m-%d", None),
        (["3 Jan 2020", "4 May 2021"], "%d %b %Y", None),
    ],
)
def test_the_order_of_day_and_month_is_told_where_cells_leave_it_open(tmp_path, cells, kind, said):
    rows = [f"{cell},{i}.25,{i}.5" for i, cell in enumerate(cells * 10)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["when,x,y", *rows]))
    column = tables.choose_columns(tables.read_text(path), "y")["when"]
    assert column.kind == f"date {kind}"
    found = re.search(said or "taken as", column.why)
    assert (found is not None) == (said is not None), column.why
