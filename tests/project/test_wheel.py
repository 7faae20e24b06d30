"""Wheels and sdist hold what a user needs; the command line works with and without the paper."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def run(*command: object, **more: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | more
    words = [sys.executable, *map(str, command)]
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def built(folder: Path, source: str) -> Path:
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "-w", folder)
    run("-m", "pip", "wheel", source, *options)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"), ".")


def test_the_wheel_holds_every_file_of_the_package(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(
        ["git", "ls-files", "src/dims"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(tracked) > 100
    assert {name.removeprefix("src/") for name in tracked} <= names
    data = {"dims/commands/csv_template.txt", "dims/py.typed"}
    assert data <= names
    assert not any(name.startswith(("tests/", "docs/")) for name in names)


def test_the_sdist_holds_sources_and_papers(tmp_path):
    run("-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md"} <= names
    assert {
        "paper/dims_paper/snelson_map.safetensors",
        "src/dims/commands/csv_template.txt",
    } <= names


def test_the_command_line_works_with_and_without_the_paper(wheel, tmp_path):
    place = tmp_path / "installed"
    options = ("--no-deps", "--no-index", "--quiet", "--target", place)
    run("-m", "pip", "install", *options, wheel)
    names = sorted(path.name for path in place.iterdir() if path.suffix != ".dist-info")
    assert "dims_paper" not in names
    environment = {"PYTHONPATH": str(place)}
    look = (
        "from importlib.metadata import distributions;"
        f"d = [d for d in distributions(path=[{str(place)!r}])];"
        "e = [e.name for x in d for e in x.entry_points if e.group == 'dims.commands'];"
        "print(e)"
    )
    assert run("-c", look, **environment).strip() == "[]"
    run("-m", "pip", "install", *options, built(tmp_path / "paper", "./paper"))
    assert run("-c", look, **environment).strip() == "['data', 'demo', 'reproduce']"
    start = "import dims; print(dims.__file__); from dims.commands.cli import main; main()"
    told = run("-c", start, "demo", "--draws", "2", "--out", tmp_path / "demo", **environment)
    assert told.startswith(str(place))
    assert (tmp_path / "demo" / "demo.png").stat().st_size > 10_000


def test_the_library_alone_has_a_smaller_help(monkeypatch):
    import importlib

    from typer.testing import CliRunner

    import dims.commands

    with monkeypatch.context() as patch:
        patch.setattr("importlib.metadata.entry_points", lambda **_: ())
        alone = importlib.reload(dims.commands)
        told = CliRunner().invoke(alone.app, ["--help"]).output
    importlib.reload(dims.commands)
    assert all(name in told for name in ("init", "sample", "report"))
    assert not any(name in told for name in ("reproduce", "demo"))
