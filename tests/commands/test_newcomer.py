"""From a table of one's own to a picture of uncertainty, by the README's commands alone."""

from __future__ import annotations

import csv
import importlib.util
import math
import os
import random
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import dims
from cases import slow
from dims.commands import app

ROOT = Path(__file__).parents[2]
PREDICTED = "predicted price"
QUICK: dict[str, Any] = {
    "hidden": (3,),
    "epochs": 60,
    "draws": 3,
    "method": "la",
    "refine": False,
    "random_state": 0,
}


def readme_commands() -> list[list[str]]:
    """The console lines of the section on tables; the environment is this one already."""
    section = (ROOT / "README.md").read_text().split("**A table of your own**")[1].split("\n**")[0]
    lines = re.findall(r"```console\n(.*?)```", section, flags=re.DOTALL)[0].splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [w for w in words if w[0] in ("dims", "python")]


def write_houses(path: Path, rows: int = 60) -> None:
    """Text, dates, an identifier, a bad cell in line 4 and a missing one in line 6."""
    draw = random.Random(0)
    lines = ["id,size,side,built,price"]
    for row in range(rows):
        size, side, year = draw.uniform(30, 150), draw.choice("NESW"), draw.randrange(1950, 2020)
        price = 3 * size + 50 * (side == "S") + draw.gauss(0, 20)
        shown = {2: "large", 4: ""}.get(row, f"{size:.1f}")
        lines.append(f"{row + 7},{shown},{side},{year}-05-01,{price:.0f}")
    path.write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize("as_written", [False, slow(True)])
def test_the_readme_leads_from_a_table_to_a_picture(tmp_path, monkeypatch, capsys, as_written):
    """In a process of its own, or in this one and without certificates."""
    write_houses(tmp_path / "houses.csv")
    commands = readme_commands()
    assert len(commands) == 2
    new = "size,side,built\n90,N,2000-01-01\n2000,X,2000-01-01\nn/a,N,\n"
    (tmp_path / "new.csv").write_text(new)
    assert [words[0] for words in commands] == ["dims", "python"]
    monkeypatch.chdir(tmp_path)
    made = CliRunner().invoke(app, commands[0][1:])
    assert made.exit_code == 0, made.output
    if as_written:
        done = subprocess.run(
            [sys.executable, *commands[1][1:], "new.csv"],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "MPLBACKEND": "Agg"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        outputs = [made.stdout, done.stdout]
    else:
        regressor = dims.DimsRegressor
        monkeypatch.setattr(
            dims, "DimsRegressor", lambda **given: regressor(**given, certify=False)
        )
        monkeypatch.setattr(sys, "argv", [*commands[1][1:], "new.csv"])
        runpy.run_path(commands[1][1], run_name="__main__")
        outputs = [made.stdout, capsys.readouterr().out]
    for kind in (
        r"price +regression target",
        r"id +leave out +an identifier",
        r"size +number",
        r"side +category +4 levels",
        r"built +date %Y-%m-%d",
    ):
        assert re.search(kind, outputs[0]), outputs[0]
    assert "line 4, column 'size': 'large' is not a number" in outputs[0]
    noise = r"noise +(median [\d.]+, least )?[\d.]+, the standard deviation"
    assert re.search(rf"learned from +48 rows\n{noise}", outputs[1])
    assert "energy balance" not in outputs[1]
    assert "line 3, column 'side': 'X' was not in the rows" in outputs[1]
    check_judgement(tmp_path, outputs[1])
    check_new_rows(tmp_path)
    with Image.open(tmp_path / "my_run.png") as picture:
        assert picture.size == (910, 585)


def check_new_rows(folder: Path) -> None:
    """A house like the others costs three times its size; of a strange one little is known."""
    with (folder / "new_predicted.csv").open(newline="") as stream:
        known, strange, unknown = csv.DictReader(stream)
    assert [row["line"] for row in (known, strange, unknown)] == ["2", "3", "4"]
    price = float(known["predicted price"])
    assert price == pytest.approx(270, abs=60)
    assert float(known["lower 95%"]) < price < float(known["upper 95%"])
    spread = "spread of the draws"
    assert float(strange[spread]) > 3 * float(known[spread])
    assert math.isfinite(float(unknown["predicted price"]))
    assert known["note"] == ""
    assert "size is" in strange["note"] + unknown["note"]


def check_judgement(folder: Path, said: str) -> None:
    """The printed quality is that of the written predictions, which are in the file's units."""
    with (folder / "my_run_held_out.csv").open(newline="") as stream:
        numbers = ("line", "truth", PREDICTED, "lower 95%", "upper 95%")
        rows = [{name: float(row[name]) for name in numbers} for row in csv.DictReader(stream)]
    prices = [line.split(",")[-1] for line in (folder / "houses.csv").read_text().splitlines()]
    assert [row["truth"] for row in rows] == [float(prices[int(row["line"]) - 1]) for row in rows]
    error = math.sqrt(sum((row["truth"] - row[PREDICTED]) ** 2 for row in rows) / len(rows))
    assert error < 60  # noise 20 in prices of 90 to 500
    inside = sum(row["lower 95%"] <= row["truth"] <= row["upper 95%"] for row in rows)
    own = re.search(r"network and draws +([\d.]+) +([\d.]+) +(\d+)% \((\d+) of 12\)", said)
    assert own is not None, said
    assert (own[2], int(own[4])) == (f"{error:.3g}", inside)
    # The mean of the rows that are not held out, by hand.
    held = {int(row["line"]) for row in rows}
    known = [float(p) for line, p in enumerate(prices[1:], start=2) if line not in held]
    mean = sum(known) / len(known)
    error = math.sqrt(sum((row["truth"] - mean) ** 2 for row in rows) / len(rows))
    assert re.search(rf"mean of training rows +[\d.]+ +{error:.3g} ", said)
    assert re.search(r"network alone +[\d.]+ +[\d.]+ +\d+%", said)


def program(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str, **settings: Any
) -> ModuleType:
    """The module that `dims init` writes for `t.csv`, with a short training and Laplace draws."""
    monkeypatch.chdir(folder)
    made = CliRunner().invoke(app, ["init", "mine.py", "--csv", "t.csv", *options])
    assert made.exit_code == 0, made.output
    spec = importlib.util.spec_from_file_location("mine", folder / "mine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kind = {"regression": dims.DimsRegressor, "classification": dims.DimsClassifier}[module.TASK]
    monkeypatch.setattr(module, "estimator", lambda: kind(**QUICK | settings))
    return module


def test_the_program_is_short_enough_to_read():
    template = (ROOT / "src/dims/commands/csv_template.txt").read_text()
    assert len(template.splitlines()) <= 125


def test_training_does_not_see_the_held_out_rows(tmp_path, monkeypatch):
    """Whatever their numbers are, the training data and the network stay bitwise identical."""
    write_houses(tmp_path / "t.csv")
    module = program(tmp_path, monkeypatch)
    network, (inputs, targets), task, (held_inputs, _) = module.problem()
    assert task == "regression"
    _, held = module.data()
    assert len(held) == len(held_inputs) == 12
    torch.testing.assert_close(targets.mean(0), torch.zeros(1).double(), rtol=0, atol=1e-12)
    lines = (tmp_path / "t.csv").read_text().splitlines()
    for line in held.lines:
        lines[line - 1] = "1,9e9,N,2000-01-01,-7e7"
    (tmp_path / "t.csv").write_text("\n".join(lines))
    same, (same_inputs, same_targets), _, _ = module.problem()
    assert torch.equal(inputs, same_inputs)
    assert torch.equal(targets, same_targets)
    for one, other in zip(network.parameters(), same.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_classes_are_judged_too(tmp_path, monkeypatch, capsys):
    draw = random.Random(1)
    numbers = [draw.gauss(0, 1) for _ in range(40)]
    rows = [f"{number:.3f},{'up' if number > 0 else 'down'}" for number in numbers]
    (tmp_path / "t.csv").write_text("\n".join(["a,kind", *rows]))
    module = program(tmp_path, monkeypatch, epochs=200)
    module.main()
    said = capsys.readouterr().out
    with (tmp_path / "mine_held_out.csv").open(newline="") as stream:
        written = list(csv.DictReader(stream))
    labels = [rows[int(row["line"]) - 2].split(",")[1] for row in written]
    assert [row["truth"] for row in written] == labels
    right = sum(row["predicted kind"] == row["truth"] for row in written)
    assert 6 <= right <= len(written) == 8
    chances = [[float(row[f"probability {name}"]) for name in ("down", "up")] for row in written]
    assert all(abs(sum(each) - 1) < 1e-5 for each in chances)
    sure = sum(max(each) for each in chances) / 8
    found = re.search(r"network and draws +[\d.]+ +(\d+)% +(\d+)%", said)
    assert found is not None, said
    assert found.groups() == (f"{right / 8:.0%}"[:-1], f"{sure:.0%}"[:-1])
    assert "class frequencies" in said
    assert (tmp_path / "mine.png").exists()


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_an_answer_worse_than_the_mean_is_loudly_warned_about(tmp_path, monkeypatch, capsys):
    """Forty steps of a large step size fit the noise of a target that is noise alone."""
    noise = np.random.RandomState(0).randn(60, 6)
    rows = [",".join(f"{value:.3f}" for value in row) for row in noise]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,d,e,y", *rows]))
    overfitting = {"hidden": (20,), "epochs": 400, "learning_rate": 0.05, "prior_precision": 1e-3}
    module = program(tmp_path, monkeypatch, **overfitting, weight_decay=0.0)
    module.main()
    said = capsys.readouterr().out
    assert "WARNING: on these rows the answer is worse than the mean of training rows" in said
    assert "speak against" not in said
    (tmp_path / "new.csv").write_text("a,b,c,d,e\n0,0,0,0,0\n")
    for again in (False, True):
        module.main("new.csv")
        said = capsys.readouterr().out
        assert "WARNING: on these rows the answer is worse than the mean of training" in said
        assert "learned from: 60)\nWARNING: held-out rows speak against this answer, see" in said
        assert ("held-out rows, not used in training" in said) != again


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read (No such file"),
        ("", "is empty"),
        ("size,side\n1,N\n", "has no column 'built'; there are size, side"),
        ("size,side,built\n", "no rows"),
        ("size,side,built\n1,2,3,4,5\n", "line 2 has 5 cells"),
        ("\x00\xff", "new.csv"),
    ],
)
def test_a_bad_new_table_ends_with_one_line(tmp_path, monkeypatch, capsys, content, said):
    """At once, before anything is trained."""
    write_houses(tmp_path / "t.csv")
    program(tmp_path, monkeypatch)
    if content is not None:
        (tmp_path / "new.csv").write_text(content, encoding="latin-1")
    monkeypatch.setattr(sys, "argv", ["mine.py", "new.csv"])
    monkeypatch.setattr(dims.DimsRegressor, "fit", lambda *_: pytest.fail("it was trained"))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path("mine.py", run_name="__main__")
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert said in told


def test_settings_at_the_top_change_what_is_done(tmp_path, monkeypatch):
    """A rating is classes or numbers, and a column is what the user says."""
    rows = [f"{i % 7}.5,{i % 5 + 1}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["a,rating", *rows]))
    module = program(tmp_path, monkeypatch)
    assert module.TASK == "classification"
    assert set(module.data()[0].target) == set("12345")
    module.TASK = "regression"
    assert module.data()[0].target.dtype == float
    module.COLUMNS = {"a": "category"}
    _, (inputs, _), _, _ = module.problem()
    assert inputs.shape == (32, 7)
    (tmp_path / "mine.py").unlink()
    assert program(tmp_path, monkeypatch, "--task", "regression").TASK == "regression"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--csv", "none.csv"), "cannot be read"),
        (("--csv", "t.csv", "--target", "c"), "no column 'c'; there are a, b"),
        (("--target", "b"), "give --csv too"),
        (("--task", "regression"), "give --csv too"),
        (
            ("--csv", "t.csv", "--task", "guess"),
            "--task: 'guess' is unknown; regression (numbers) or",
        ),
        (("--csv", "t.csv", "--target", "A"), "did you mean 'a'?"),
    ],
)
def test_init_tells_what_is_wrong_in_one_line(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,b\n" + "1,2\n2,3\n" * 20)
    result = CliRunner().invoke(app, ["init", "x.py", *options])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert said in result.stderr
    assert not Path("x.py").exists()


def test_names_in_the_table_stay_text(tmp_path, monkeypatch):
    """A column may be called anything: the program holds it as text, not as code."""
    monkeypatch.chdir(tmp_path)
    name = 'a"+print(1)+{x}'
    quoted = '"' + name.replace('"', '""') + '"'
    lines = [f"{i}.5,{i}.25" for i in range(20)]
    Path("t.csv").write_text("\n".join([f"{quoted},b", *lines]))
    assert CliRunner().invoke(app, ["init", "x.py", "--csv", "t.csv"]).exit_code == 0
    names: dict[str, Any] = {"__name__": "x", "__file__": str(tmp_path / "x.py")}
    exec(compile(Path("x.py").read_text(), "x.py", "exec"), names)
    assert (list(names["COLUMNS"]), names["TARGET"]) == ([name], "b")
