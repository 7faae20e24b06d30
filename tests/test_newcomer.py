"""From a table of one's own to a picture of uncertainty, by the README's commands alone."""

from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from dims.commands import app
from dims.commands.table import TableError, read_table

ROOT = Path(__file__).parents[1]
DIMS = [sys.executable, "-c", "from dims.cli import main; main()"]


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
    assert "40 complete rows; regression of 'price' from size" in outputs[0]
    assert "left out: side" in outputs[0]
    assert "30 draws by 'dims'" in outputs[1]
    with Image.open(tmp_path / "my_run.png") as picture:
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
