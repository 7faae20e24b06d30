"""From a table of one's own to a picture of uncertainty, by the README's commands alone."""

from __future__ import annotations

import csv
import importlib.util
import math
import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from dims.commands.table import read_table
from PIL import Image
from typer.testing import CliRunner

from dims.commands import app
from dims.errors import TableError

ROOT = Path(__file__).parents[2]
DIMS = [sys.executable, "-c", "from dims.commands.cli import main; main()"]


def readme_commands() -> list[list[str]]:
    """The console lines of the section on tables; the environment is this one already."""
    section = (ROOT / "README.md").read_text().split("## A table of your own")[1].split("\n## ")[0]
    lines = re.findall(r"```console\n(.*?)```", section, flags=re.DOTALL)[0].splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    programs = {"dims": DIMS, "python": [sys.executable]}
    return [[*programs[w[0]], *w[1:]] for w in words if w[0] in programs]


def write_houses(path: Path) -> None:
    draw = random.Random(0)
    rows = [(draw.uniform(30, 150), draw.choice("NESW")) for _ in range(40)]
    lines = [f"{size:.1f},{side},{3 * size + draw.gauss(0, 20):.0f}" for size, side in rows]
    path.write_text("\n".join(["size,side,price", *lines, ",N,100"]), encoding="utf-8")


def test_the_readme_leads_from_a_table_to_a_picture(tmp_path):
    write_houses(tmp_path / "houses.csv")
    commands = readme_commands()
    assert len(commands) == 2
    (tmp_path / "new.csv").write_text("size,side\n90,N\n2000,N\nn/a,N\n")
    commands[1].append("new.csv")
    outputs = []
    for command in commands:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "MPLBACKEND": "Agg"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
        told = done.stderr
    assert "40 complete rows (1 with gaps left out); regression of 'price' from size" in outputs[0]
    assert "left out: side" in outputs[0]
    assert "30 draws by 'dims'" in outputs[1]
    assert "Training on 32 rows" in told
    assert "100%" in told  # no terminal, no bar: lines
    check_judgement(tmp_path, outputs[1])
    check_new_rows(tmp_path)
    with Image.open(tmp_path / "my_run.png") as picture:
        assert picture.size == (910, 520)


def check_new_rows(folder: Path) -> None:
    """A house like the others costs three times its size; of a strange one little is known."""
    with (folder / "new_predicted.csv").open(newline="") as stream:
        known, strange = csv.DictReader(stream)
    assert (known["line"], strange["line"]) == ("2", "3")
    assert float(known["price"]) == pytest.approx(270, abs=60)
    assert float(known["upper"]) == pytest.approx(float(known["price"]) + 2 * float(known["sd"]))
    spread = "spread of the draws"
    assert float(strange[spread]) > 3 * float(known[spread])


def check_judgement(folder: Path, said: str) -> None:
    """The printed quality is that of the written predictions, which are in the file's units."""
    with (folder / "my_run_held_out.csv").open(newline="") as stream:
        rows = [
            {name: float(entry) for name, entry in row.items()} for row in csv.DictReader(stream)
        ]
    prices = [line.split(",")[2] for line in (folder / "houses.csv").read_text().splitlines()]
    assert [row["truth"] for row in rows] == [float(prices[int(row["line"]) - 1]) for row in rows]
    for row in rows:
        assert row["upper"] - row["mean"] == pytest.approx(2 * row["sd"])
        assert row["mean"] - row["lower"] == pytest.approx(2 * row["sd"])
    errors = [row["truth"] - row["mean"] for row in rows]
    error = math.sqrt(sum(e**2 for e in errors) / len(rows))
    assert error < 60  # noise 20 in prices of 90 to 450
    assert f"error (RMSE) {error:.3g} in price" in said
    inside = sum(row["lower"] <= row["truth"] <= row["upper"] for row in rows)
    assert f"{inside / len(rows):.0%} within ±2 sd, {inside} of {len(rows)}" in said
    split = re.search(
        r"variance: ([\d.]+)% noise in the data \(sd ([\d.]+)\), ([\d.]+)% spread of the draws "
        r"\(sd ([\d.]+)\)",
        said,
    )
    assert split is not None
    noise_share, noise, spread_share, spread = map(float, split.groups())
    assert noise_share + spread_share == pytest.approx(100)
    variance = sum(row["sd"] ** 2 for row in rows) / len(rows)
    assert noise**2 + spread**2 == pytest.approx(variance, rel=0.01)
    assert spread_share == pytest.approx(100 * spread**2 / variance, abs=0.1)


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> ModuleType:
    """The module that `dims init` writes for `t.csv`, with a short training."""
    monkeypatch.chdir(folder)
    if not Path("mine.py").exists():
        made = CliRunner().invoke(app, ["init", "mine.py", "--csv", "t.csv", *options])
        assert made.exit_code == 0, made.output
    spec = importlib.util.spec_from_file_location("mine", folder / "mine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.STEPS = 3
    return module


def test_training_does_not_see_the_held_out_rows(tmp_path, monkeypatch):
    """Whatever their numbers are, the training data stay the same bits."""
    write_houses(tmp_path / "t.csv")
    module = program(tmp_path, monkeypatch)
    data = module.read()
    assert int(data.held.sum()) == 8
    _, (inputs, targets), _ = module.problem()
    for scaled in (inputs, targets):
        torch.testing.assert_close(scaled.mean(0), torch.zeros(1).double(), rtol=0, atol=1e-12)
        torch.testing.assert_close(scaled.std(0), torch.ones(1).double())
    lines = (tmp_path / "t.csv").read_text().splitlines()
    for line, held in zip(data.lines, data.held, strict=True):
        if held:
            lines[line - 1] = "9e9,N,-7e7"
    (tmp_path / "t.csv").write_text("\n".join(lines))
    _, (same_inputs, same_targets), _ = module.problem()
    assert torch.equal(inputs, same_inputs)
    assert torch.equal(targets, same_targets)


def test_kept_weights_are_used_until_something_changes(tmp_path, monkeypatch, capsys):
    write_houses(tmp_path / "t.csv")
    module = program(tmp_path, monkeypatch)

    def trained() -> str:
        module.problem()
        return capsys.readouterr().err

    assert "Training on 32 rows" in trained()
    assert trained() == ""
    module.FRICTION = 0.7  # no matter to the weights
    assert trained() == ""
    module.HIDDEN = 5
    assert "mine.pt is out of date, the settings changed: training again" in trained()
    assert trained() == ""
    with (tmp_path / "t.csv").open("a") as stream:
        stream.write("\n100.0,N,300")
    assert "mine.pt is out of date, the table changed: training again" in trained()
    source = (tmp_path / "mine.py").read_text()
    (tmp_path / "mine.py").write_text(source.replace("lr=0.01", "lr=0.001"))
    module = program(tmp_path, monkeypatch)
    module.HIDDEN = 5
    assert "mine.pt is out of date, the code changed: training again" in trained()
    assert trained() == ""


def test_classes_are_judged_too(tmp_path, monkeypatch, capsys):
    """A class that only a held-out row has is one that no draw can guess, and no error."""
    draw = random.Random(1)
    numbers = [draw.gauss(0, 1) for _ in range(30)]
    names = ["up" if number > 0 else "down" for number in numbers]

    def write() -> None:
        rows = [f"{number:.3f},{name}" for number, name in zip(numbers, names, strict=True)]
        (tmp_path / "t.csv").write_text("\n".join(["a,kind", *rows]))

    write()
    held = program(tmp_path, monkeypatch).read().held
    names[int(held.nonzero()[0])] = "aside"
    write()
    module = program(tmp_path, monkeypatch)
    module.DRAWS, module.MAX_TIME, module.STEPS = 3, 0.5, 200
    module.main()
    said = capsys.readouterr().out
    assert "only 3 draws" in said
    assert "DRAWS, ... at the top of mine.py" in said
    with (tmp_path / "mine_held_out.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["truth"] for row in rows] == [n for n, h in zip(names, held, strict=True) if h]
    right = sum(row["guess"] == row["truth"] for row in rows)
    assert 3 <= right < len(rows) == 6
    assert f"accuracy {right / 6:.0%}, {right} of 6 rows" in said
    sure = sum(float(row["mean"]) for row in rows) / 6
    assert f"mean probability of the guess {sure:.0%}" in said
    with Image.open(tmp_path / "mine.png") as picture:
        assert picture.size == (910, 520)


@pytest.mark.parametrize(
    ("text", "target", "likelihood"),
    [
        ("a,b\n" + "1.5,0\n2.5,1\n" * 10, None, "classification"),
        ("a,b\n" + "1.5,yes\n2.5,no\n" * 10, "b", "classification"),
        ("a,b\n" + "".join(f"{i},{i}\n" for i in range(20)), "a", "regression"),
        ("a,b\n" + "0,0.5\n1,1.5\n" * 10, "b", "regression"),
    ],
)
def test_the_kind_of_target_is_seen(tmp_path, text, target, likelihood):
    file = tmp_path / "t.csv"
    file.write_text(text)
    table = read_table(file, target)
    assert (table.likelihood, table.rows) == (likelihood, 20)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "0 columns"),
        ("a;b\n1;2\n", "separate them with commas"),
        ("a,a\n1,2\n", "name every column once"),
        ("a,b\n1,2\n", "1 complete rows"),
        ("a,b\n" + "x,2\n" * 20, "no column of numbers"),
        ("a,b\n" + "inf,2\n" * 20, "no column of numbers"),
    ],
)
def test_a_table_that_will_not_do_is_refused(tmp_path, text, said):
    file = tmp_path / "t.csv"
    file.write_text(text)
    with pytest.raises(TableError, match=said):
        read_table(file, None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--csv", "none.csv"), "cannot be read"),
        (("--csv", "t.csv", "--target", "c"), "no column 'c'; there are a, b"),
        (("--target", "b"), "give --csv too"),
    ],
)
def test_init_tells_what_is_wrong_in_one_line(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,b\n" + "1,2\n" * 20)
    result = CliRunner().invoke(app, ["init", "x.py", *options])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert said in result.stderr
    assert not Path("x.py").exists()


def test_names_in_the_table_stay_text(tmp_path, monkeypatch):
    """A column may be called anything: the program holds it as text, not as code."""
    monkeypatch.chdir(tmp_path)
    name = 'a"+print(1)+{x}'
    quoted = '"' + name.replace('"', '""') + '"'
    Path("t.csv").write_text(f"{quoted},b\n" + "1.5,2.5\n2.5,3.5\n" * 10)
    assert CliRunner().invoke(app, ["init", "x.py", "--csv", "t.csv"]).exit_code == 0
    names: dict[str, object] = {"__name__": "x", "__file__": str(tmp_path / "x.py")}
    exec(compile(Path("x.py").read_text(), "x.py", "exec"), names)
    assert (names["INPUTS"], names["TARGET"]) == ([name], "b")
