"""Wheel and sdist hold what a user needs, and `dims demo` runs from an installed wheel."""

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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "-w", folder)
    run("-m", "pip", "wheel", ".", *options)
    (built,) = folder.glob("*.whl")
    return built


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


def test_the_demo_runs_from_the_installed_wheel(wheel, tmp_path):
    place = tmp_path / "installed"
    options = ("--no-deps", "--no-index", "--quiet", "--target", place)
    run("-m", "pip", "install", *options, wheel)
    start = "import sys, dims; print(dims.__file__); from dims.commands.cli import main; main()"
    told = run(
        "-c", start, "demo", "--draws", "2", "--out", tmp_path / "demo", PYTHONPATH=str(place)
    )
    assert told.startswith(str(place))
    assert (tmp_path / "demo" / "demo.png").stat().st_size > 10_000
