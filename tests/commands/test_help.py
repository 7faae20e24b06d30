"""Every help fits a screen, gives an example that is no fiction, and the options agree."""

from __future__ import annotations

import re
import shlex

import click
import pytest
import typer
from typer.testing import CliRunner

import dims
from dims.commands import app

LINES, COLUMNS = 40, 80


def commands(
    group: click.Command, path: tuple[str, ...] = ()
) -> dict[tuple[str, ...], click.Command]:
    """All commands that help shows, with their names, groups included."""
    found = {path: group}
    for name, command in getattr(group, "commands", {}).items():
        found |= {} if command.hidden else commands(command, (*path, name))
    return found


COMMANDS = commands(typer.main.get_command(app))


def help_of(path: tuple[str, ...]) -> str:
    environment = {"COLUMNS": str(COLUMNS), "TERMINAL_WIDTH": str(COLUMNS), "NO_COLOR": "1"}
    result = CliRunner().invoke(app, [*path, "--help"], env=environment)
    assert result.exit_code == 0
    return result.stdout


def test_all_commands_are_seen():
    names = {"compare", "data", "demo", "init", "report", "reproduce", "sample"}
    assert {path[0] for path in COMMANDS if path} == names


def test_a_command_that_moved_says_where_it_is():
    done = CliRunner().invoke(app, ["bench"])
    assert done.exit_code == 2
    assert "benchmarks/solver_speed.py" in done.output


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_fits_a_screen(path):
    lines = help_of(path).splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_has_an_example_that_can_be_called(path):
    example = re.search(r"Example: dims (.*)$", COMMANDS[path].help or "", flags=re.MULTILINE)
    assert example is not None
    words = shlex.split(example[1])
    command, rest = COMMANDS[()], words
    while rest and rest[0] in getattr(command, "commands", {}):
        command, rest = command.commands[rest[0]], rest[1:]
    if not hasattr(COMMANDS[path], "commands"):
        assert command is COMMANDS[path]
    command.make_context("dims", list(rest))  # parses, or raises


def test_shared_options_are_explained_and_where_they_belong():
    where: dict[str, set[str]] = {}
    for path, command in COMMANDS.items():
        for option in command.params:
            for name in option.opts:
                where.setdefault(name, set()).add(" ".join(path))
                assert option.help or not name.startswith("--"), (path, name)
    leaves = {" ".join(path) for path, c in COMMANDS.items() if not hasattr(c, "commands")}
    experiments = {name for name in leaves if name.startswith("reproduce")}
    assert where["--quick"] == experiments
    assert where["--out"] == {*experiments, "demo", "report", "sample"}
    assert where["--json"] == {"compare", "sample", "data list"}
    # `uci` has --seeds, and two pictures have no randomness.
    drawn = experiments - {"reproduce uci", "reproduce curve", "reproduce surface-2d"}
    assert where["--seed"] == {*drawn, "compare", "demo", "sample"}


def test_exit_codes_of_the_page_are_those_of_the_program():
    from pathlib import Path

    from dims.commands import exits

    page = (Path(__file__).parents[2] / "docs/commands.md").read_text()
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", page, flags=re.MULTILINE)}
    used = {exits.CANNOT_GO_ON, exits.BAD_INPUT, exits.FAILED_DRAWS, exits.INTERRUPTED}
    assert told == {0, *used}


def test_a_file_of_the_user_is_imported_before_the_command(tmp_path):
    program = tmp_path / "my_own_metrics.py"
    program.write_text(
        "import dims\n"
        "def width(log_p, labels):\n    return log_p.exp().amax(-1).mean(-1)\n"
        "dims.metrics.register('width', width, task='classification', label='Width')\n"
    )
    file = str(tmp_path / "my_run.py")
    done = CliRunner().invoke(app, ["--import", str(program), "init", file])
    assert done.exit_code == 0, done.output
    assert dims.metrics.labels()["width"] == "Width"
    done = CliRunner().invoke(app, ["--import", str(tmp_path / "none.py"), "init", file])
    assert done.exit_code == 2
    assert "--import: there is no file" in " ".join(done.output.split())
