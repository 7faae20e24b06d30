"""What the program of a table says: of its settings, its columns, its two fits, and its network."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import dims
from dims.commands import app
from dims.errors import TableError, TableWarning
from dims.estimators import tables
from dims.estimators.tables.oddities import oddities, row_notes
from dims.estimators.tables.unlearned import unlearned

pytestmark = pytest.mark.filterwarnings("ignore::dims.DimsWarning")
SMALL = 'hidden=(3,), method="la", refine=False'


def init(*options: str) -> str:
    done = CliRunner().invoke(app, ["init", "mine.py", "--csv", "t.csv", *options])
    assert done.exit_code == 0, done.output
    return done.stdout


def change(*pairs: tuple[str, str]) -> None:
    text = Path("mine.py").read_text()
    for old, new in [("hidden=(16,)", SMALL), ("epochs=300", "epochs=40"), *pairs]:
        assert old in text
        text = text.replace(old, new)
    Path("mine.py").write_text(text)


def run(*words: str) -> None:
    sys.argv[:] = ["mine.py", *words]
    runpy.run_path("mine.py", run_name="__main__")


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A folder with a table of two columns to learn from, and a new one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [])
    random = np.random.RandomState(0)
    x, side = random.rand(60), random.choice(list("NS"), 60)
    y = 3 * x + (side == "S") + 0.1 * random.randn(60)
    pd.DataFrame({"x": x, "side": side, "y": y}).to_csv("t.csv", index=False)
    Path("new.csv").write_text("x,side\n0.5,N\n0.7,S\n")
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('ANSWER = "draws"', 'ANSWER = "netwrk"', 'ANSWER: must be "draws" or "network", is'),
        ("draws=20", "draws=0", "estimator(): draws: "),
        (
            "draws=20",
            "drws=20",
            "estimator(): DimsRegressor(drws=...): there is no such argument; is it draws=?",
        ),
        ("HELD_OUT = 0.2", "HELD_OUT = 20", "HELD_OUT: must be a number between 0 and 1, such as"),
        ("HELD_OUT = 0.2", "HELD_OUT = -0.2", "HELD_OUT: must be a number between 0 and 1"),
        ("HELD_OUT = 0.2", 'HELD_OUT = "20%"', "such as 0.2, is '20%'"),
        ("MARK_MISSING = True", 'MARK_MISSING = "no"', "MARK_MISSING: must be True or False, is"),
        ("LEARN_FROM_ALL = True", 'LEARN_FROM_ALL = "False"', "must be True or False, is 'False'"),
        ("VERBOSE = False", "VERBOSE = 1", "VERBOSE: must be True or False, is 1"),
        (
            "FORMAT = tables",
            "FORMAT = None\nOTHER = tables",
            "must be as tables.Format(separ",
        ),
        ('TARGET = "y"', "TARGET = 3", "TARGET: must be the name of a column, is 3"),
        ('TARGET = "y"', 'TARGET = "x"', "COLUMNS: has 'x', which is the TARGET; delete its line"),
        ('"x": "number"', '"x": None', "COLUMNS: must be the kind of each column, as {"),
        ('"x": "number"', '"x": "date %Y"', "COLUMNS: 'x' is a 'date %Y', but 60 of 60 cells of"),
        ('"side": "category"', '"side": "number"', "are not empty cannot be read so, as '"),
    ],
)
def test_a_wrong_setting_ends_with_one_line(here, capsys, old, new, said):
    init()
    change((old, new))
    with pytest.raises(SystemExit) as ended:
        run()
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert told.count("\n") == 1
    assert said in told


def test_a_wrong_setting_is_refused_by_the_commands_too(here):
    init()
    change(("HELD_OUT = 0.2", "HELD_OUT = 20"))
    for command, entry in (("sample", "problem"), ("compare", "comparison")):
        done = CliRunner().invoke(app, [command, f"mine.py:{entry}", "--store", "runs"])
        assert done.exit_code == 2
        assert "HELD_OUT: must be a number between 0 and 1" in done.stderr


def test_help_is_the_docstring_of_the_program(here, capsys):
    init()
    run("--help")
    said = capsys.readouterr().out
    assert said.startswith("Uncertainty for a table")
    assert "python mine.py new.csv" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hlp"], "error: --hlp is unknown; there are --help"),
        (["new.csv", "--hlp"], "did you mean '--help'?"),
    ],
)
def test_an_unknown_option_ends_with_one_line(here, capsys, words, said):
    init()
    with pytest.raises(SystemExit) as ended:
        run(*words)
    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n")) == (2, 1)
    assert said in told


def test_a_column_of_another_kind_in_a_new_file_is_loudly_warned_about(here):
    Path("new.csv").write_text("x,side\n" + "old,N\n" * 3 + "0.5,S\n")
    kinds = {"x": "number", "side": "category"}
    with pytest.warns(TableWarning, match="'x' is a 'number', but 3 of 4 cells of new.csv that"):
        table = tables.read_inputs("new.csv", kinds)
    assert table.notes == []
    Path("new.csv").write_text("x,side\n" + "old,N\n" + "0.5,S\n" * 9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(tables.read_inputs("new.csv", kinds).notes) == 1
    known = tables.read("t.csv", kinds, "y", "regression")
    made = tables.preparation(kinds).fit(known.inputs)
    found = row_notes(oddities(unlearned(made, known, table), known, table), len(table))
    assert found == ["x 'old' could not be read"] * 3 + [""]


def test_the_answer_of_the_network_is_called_so_and_judged(here, capsys):
    """On noise alone the draws are warned about; nobody reads that who takes the network."""
    known = pd.read_csv("t.csv")
    known["y"] = np.random.RandomState(1).randn(60)
    known.to_csv("t.csv", index=False)
    init()
    change()
    run("new.csv")
    first = capsys.readouterr()
    assert "the answer is not clearly better than the mean" in first.err
    change_answer = ('ANSWER = "draws"', 'ANSWER = "network"')
    Path("mine.py").write_text(Path("mine.py").read_text().replace(*change_answer))
    run()
    evaluated = capsys.readouterr().out
    assert "the answer, here and in all files, is that of the network alone" in evaluated
    run("new.csv")
    said = capsys.readouterr()
    assert "not clearly better" not in said.err + said.out
    assert "minimum" not in said.err + said.out
    last = said.out.split("Verdict")[1]
    assert "draws" not in last
    assert "note: the predictions are those of the network alone" in last
    for name in ("new_predicted.csv", "mine_held_out.csv"):
        made = pd.read_csv(name)
        assert "spread of the draws" not in made
        assert "predicted y" in made
    module = runpy.run_path("mine.py")
    table, held_out = module["data"]()
    fitted = tables.learned(module["model"](), table, module["LEARNED"] / "for_evaluation")
    alone = fitted[-1].network_only().predict(fitted[:-1].transform(held_out.inputs))
    assert made["predicted y"].to_numpy() == pytest.approx(alone, rel=1e-4)
    found = tables.evaluate(fitted, table, held_out, "network")
    assert next(iter(found.scores)) == "network alone"
    assert "spread of the draws" not in found.summary()


def fitted(noise: float, gain: float, evidence: float = 9.0) -> Any:
    """A pipeline as `described` sees it."""
    estimator = dims.DimsRegressor()
    likelihood = SimpleNamespace(noise_std=noise)
    surface = SimpleNamespace(likelihood=likelihood, prior_precision=torch.tensor(2.0))
    estimator.draws_ = [None]
    estimator.target_scale_, estimator.skip_ = np.array([1000.0]), False
    estimator.judgement_ = {
        "evidence_over_constant": evidence,
        "gain_on_training_rows": gain,
        "rows": 0.0,
    }
    estimator.draws_ = Few(surface)
    return [None, estimator]


class Few(list):
    def __init__(self, surface: Any) -> None:
        super().__init__([None])
        self.surface, self.mixture, self.status = surface, None, [None]


@pytest.mark.parametrize(
    ("other", "warned"),
    [
        (fitted(0.52, 1.0), False),
        (fitted(1.1, 1.0), True),
        (fitted(0.5, 0.5), True),
        (fitted(0.5, 1.0, 0.2), True),
    ],
)
def test_a_second_fit_unlike_the_evaluated_one_is_warned_about(here, monkeypatch, other, warned):
    module = sys.modules["dims.estimators.tables.described"]
    monkeypatch.setattr(module, "_distance", lambda *_: ("they differ by 1", 0.1))
    known = tables.read("t.csv", {"x": "number", "side": "category"}, "y", "regression")
    said = tables.described(other, known, "draws", fitted(0.5, 1.0))
    assert ("WARNING: with all rows the answer is quite another" in said) == warned
    assert "learned from  60 rows\n" in said
    assert "WARNING" not in tables.described(other, known)
    assert "they differ by 1, which is little" in said
    if warned and other[1].draws_.surface.likelihood.noise_std == 1.1:
        assert "noise         1,100 (the fit above: 500), the standard deviation" in said


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_it_is_said_how_far_predictions_of_two_fits_differ(here, task):
    frame = pd.read_csv("t.csv")
    if task == "classification":
        frame["y"] = np.where(frame["y"] > 2, "high", "low")
        frame.to_csv("t.csv", index=False)
    kinds = {"x": "number", "side": "category"}
    kind = dims.DimsRegressor if task == "regression" else dims.DimsClassifier
    known = tables.read("t.csv", kinds, "y", task)
    settings = {"hidden": (3,), "epochs": 300, "method": "la", "random_state": 0}
    one, other = (make_pipeline(tables.preparation(kinds), kind(**settings)) for _ in range(2))
    one.fit(known.inputs, known.target)
    turned = known.target[::-1] if task == "classification" else -known.target
    other.fit(known.inputs, turned)
    same = tables.described(one, known, "draws", one)
    assert "predictions of the two fits differ by 0" in same
    assert ", which is little" in same
    assert "WARNING" not in same
    said = tables.described(one, known, "draws", other)
    assert ", which is little" not in said
    if task == "regression":
        assert "WARNING: with all rows the answer is quite another" in said


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_new_table_with_targets_is_scored(here, capsys, task):
    """Those of its rows whose target can be read; the scores are those of the written file."""
    new = pd.read_csv("t.csv").assign(x=lambda frame: frame["x"] + 0.001)
    if task == "classification":
        new["y"] = np.where(new["y"] > 2, "high", "low")
        new.assign(x=new["x"] - 0.001).to_csv("t.csv", index=False)
    new["y"] = new["y"].astype(object)
    new.loc[:4, "y"] = None
    new.to_csv("new.csv", index=False)
    init()
    change()
    run("new.csv")
    said = capsys.readouterr().out.split("For other tables")[1]
    assert "55 of these 60 rows have 'y':\n" in said
    assert "learned from, so these scores flatter" not in said
    made = pd.read_csv("new_predicted.csv").iloc[5:]
    own = next(line for line in said.splitlines() if line.startswith("network and draws"))
    if task == "regression":
        error = ((made["predicted y"] - made["y"]) ** 2).mean() ** 0.5
        inside = ((made["lower 95%"] < made["y"]) & (made["y"] < made["upper 95%"])).sum()
        assert own.split()[4:] == [f"{error:.3g}", f"{inside / 55:.0%}", f"({inside}", "of", "55)"]
        assert "mean of training rows" in said
    else:
        assert own.split()[4] == f"{(made['predicted y'] == made['y']).mean():.0%}"
        assert "class frequencies" in said
    pd.read_csv("t.csv").to_csv("new.csv", index=False)
    run("new.csv")
    assert "note: 60 of these rows are also among those" in capsys.readouterr().out
    new.assign(y=None).to_csv("new.csv", index=False)
    run("new.csv")
    assert "column 'y' has no value that can be read" in capsys.readouterr().out


def test_draws_that_hardly_differ_are_told_with_a_setting_of_the_program(here, capsys):
    init()
    change(("prior_precision=None", "prior_precision=1e6"))
    run()
    said = capsys.readouterr().out
    assert "the draws hardly differ, even far from the training rows" in said
    assert "posterior.sample" not in said


def test_a_file_without_names_is_noticed(here):
    lines = [f"{i * 37 % 101}.5,{'NS'[i % 2]},2020-01-{1 + i % 28:02},{i}.25" for i in range(40)]
    Path("t.csv").write_text("\n".join(lines))
    assert "WARNING: the first line (0.5, N, 2020-01-01, 0.25, …) looks like the rows" in init()
    Path("mine.py").unlink()
    Path("t.csv").write_text("\n".join(["a,side,when,2020", *lines]))
    assert "looks like the rows" not in init()


def test_rare_levels_and_other_spellings_are_named(here):
    rows = [f"{['sales', 'Sales', 'Shop'][min(i, 1 + i % 2)]},{i}.5" for i in range(40)]
    Path("t.csv").write_text("\n".join(["team,y", *rows]))
    assert "column 'team': 1 level is rare (sales: is it 'Sales'?); rare means in" in init()
    Path("new.csv").write_text("Team\nSales\n")
    with pytest.raises(TableError, match="no column 'team'; there is one column only, 'Team'"):
        tables.read_inputs("new.csv", {"team": "category"})
    Path("new.csv").write_text("Team,b\nSales,3\n")
    with pytest.raises(TableError, match=r"there are Team, b; did you mean 'Team'\?"):
        tables.read_inputs("new.csv", {"team": "category"})


def test_a_task_that_was_given_is_not_advised(here):
    Path("t.csv").write_text("\n".join(["x,y", *(f"{i}.5,{1 + i % 4}" for i in range(40))]))
    assert "if their order counts" in init()
    Path("mine.py").unlink()
    assert "if their order counts" not in init("--task", "classification")


def test_a_rating_as_numbers_is_said_to_be_bounded(here):
    """Intervals of a regression reach outside of its scale."""
    Path("t.csv").write_text("\n".join(["x,stars", *(f"{i}.5,{1 + i % 5}" for i in range(40))]))
    said = (
        "whole numbers of 5 kinds, 1 to 5; intervals can reach outside of these: if it is a "
        "rating, which is bounded, classification gives a probability for each value"
    )
    assert said in init("--task", "regression")
    assert said in Path("mine.py").read_text()
    Path("t.csv").write_text("\n".join(["x,stars", *(f"{i}.5,{i}.5" for i in range(40))]))
    Path("mine.py").unlink()
    assert "reach outside" not in init("--task", "regression")


def test_a_folder_with_program_and_table_can_be_moved(here, monkeypatch):
    """CSV_FILE was an absolute path."""
    monkeypatch.setattr(sys, "argv", ["mine.py"])
    Path("with/data").mkdir(parents=True)
    Path("t.csv").rename("with/data/t.csv")
    options = ["init", "with/mine.py", "--csv", "with/data/t.csv"]
    assert CliRunner().invoke(app, options).exit_code == 0
    assert '\nCSV_FILE = "data/t.csv"' in Path("with/mine.py").read_text()
    Path("with").rename("moved")
    known, held_out = runpy.run_path("moved/mine.py")["data"]()
    assert len(known) + len(held_out) == 60
    Path("other").mkdir()
    options = ["init", "other/mine.py", "--csv", "moved/data/t.csv"]
    assert CliRunner().invoke(app, options).exit_code == 0
    assert len(runpy.run_path("other/mine.py")["data"]()[0]) == len(known)


def test_an_interrupt_during_the_imports_ends_quietly(here):
    init()
    Path("torch.py").write_text("import os, time\nos.kill(os.getpid(), 2)\ntime.sleep(20)\n")
    done = subprocess.run(
        [sys.executable, "mine.py"], env={**os.environ, "PYTHONPATH": "."}, capture_output=True
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


@pytest.mark.parametrize("fits", [0, 1, 2])
def test_an_interrupt_says_what_is_kept(here, monkeypatch, capsys, fits):
    """Before the first fit has ended nothing is, in the second the first, then both."""
    init()
    change()
    fit, done = dims.DimsRegressor.fit, []

    def interrupted(*given: Any) -> Any:
        if len(done) == fits:
            os.kill(os.getpid(), signal.SIGINT)
        done.append(fit(*given))
        return done[-1]

    monkeypatch.setattr(dims.DimsRegressor, "fit", interrupted)
    if fits == 2:
        monkeypatch.setattr(tables, "predict_file", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with pytest.raises(SystemExit) as ended:
        run("new.csv")
    assert ended.value.code == 130
    said = capsys.readouterr().err
    assert "interrupted; " in said
    assert ("so the same command starts again" in said) == (fits == 0)
    assert ("mine_learned/for_evaluation" in said) == (fits > 0)
    assert ("mine_learned/all_rows" in said) == (fits == 2)
    assert len(done) == fits


@pytest.mark.parametrize(
    ("text", "own"),
    [
        (
            "Give one, such as dims.fit(..., prior_precision=1.0)",
            "prior_precision=1.0 in estimator()",
        ),
        (
            'posterior.sample(..., max_time=6.0) or posterior.sample(..., settle="full") '
            "(dims sample --max-time 6 or --settle full)",
            'max_time=6.0 in estimator() or settle="full" in estimator()',
        ),
        ("compare with network_only()", 'compare with ANSWER = "network" at the top'),
    ],
)
def test_advice_names_what_the_program_has(capsys, text, own):
    with tables.in_plain_words():
        warnings.warn(text, dims.DimsWarning, stacklevel=1)
    said = capsys.readouterr().err
    assert said.rstrip().endswith(own)
    assert "posterior" not in said
