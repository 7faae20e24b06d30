"""The release: what sdist and wheels hold, and that they work in an empty environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))


def run(*words: object, cwd: Path = ROOT, timeout: float = 300, **more: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | more
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(folder: Path, source: str) -> Path:
    """The folder with sdist and wheel, made as a release makes them."""
    options = ("--no-isolation", "--outdir", folder)
    run(sys.executable, "-m", "build", *options, source)
    return folder


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    return built(tmp_path_factory.mktemp("release"), ".")


@pytest.fixture(scope="module")
def wheel(release) -> Path:
    (made,) = release.glob("*.whl")
    return made


def files_of(archive: Path) -> dict[str, bytes]:
    """The files of a wheel or an sdist, whose names begin below its own folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return {name: opened.read(name) for name in opened.namelist()}
    with tarfile.open(archive) as opened:
        return {
            member.name.split("/", 1)[1]: opened.extractfile(member).read()
            for member in opened.getmembers()
            if member.isfile()
        }


def tracked(folder: str) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(listed.stdout.split())


def test_a_release_has_the_version_of_the_library(release):
    from dims import __version__

    names = {path.name for path in release.iterdir()} - {".gitignore"}
    assert names == {f"dims-{__version__}.tar.gz", f"dims-{__version__}-py3-none-any.whl"}
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", __version__)


def test_the_wheel_holds_every_file_of_the_package(wheel):
    files = files_of(wheel)
    sources = tracked("src/dims")
    assert len(sources) > 100
    assert {name.removeprefix("src/") for name in sources} <= set(files)
    assert {"dims/commands/csv_template.txt", "dims/py.typed"} <= set(files)
    places = {name.split("/")[0] for name in files}
    assert {place for place in places if not place.endswith(".dist-info")} == {"dims"}


def test_the_sdist_holds_sources_pages_and_the_paper(release):
    (sdist,) = release.glob("*.tar.gz")
    files = files_of(sdist)
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", "docs/index.md"} <= set(files)
    assert {
        "paper/dims_paper/snelson_map.safetensors",
        "src/dims/commands/csv_template.txt",
    } <= set(files)
    assert tracked("src") | tracked("notebooks") <= set(files)


def test_licence_and_citation_are_in_both(release):
    for archive in (*release.glob("*.tar.gz"), *release.glob("*.whl")):
        files = files_of(archive)
        for name in ("LICENSE", "CITATION.cff"):
            (found,) = [n for n in files if n == name or n.endswith(f".dist-info/licenses/{name}")]
            assert files[found] == (ROOT / name).read_bytes()


def test_metadata_say_what_an_installer_needs(wheel):
    files = files_of(wheel)
    (name,) = [n for n in files if n.endswith("METADATA")]
    text = files[name].decode()
    assert "Requires-Python: >=3.11" in text
    assert "License-Expression: MIT" in text
    needed = re.findall(r"^Requires-Dist: ([a-z]+)[^;\n]*$", text, re.M)
    assert sorted(needed) == ["numpy", "safetensors", "torch"]


@pytest.mark.slow
def test_the_contents_of_the_wheel_import_and_sample(wheel):
    from wheel_check import check

    told = check(wheel, devices=("cpu",))
    assert re.search(r"^cpu: 4 draws, spread [\d.e-]+ on the data, [\d.e-]+ away$", told, re.M)
    assert "dims 0" in told


@pytest.mark.slow
def test_a_wheel_with_a_missing_file_is_noticed(wheel, tmp_path):
    from wheel_check import check

    broken = tmp_path / wheel.name
    with zipfile.ZipFile(broken, "w") as archive:
        for name, content in files_of(wheel).items():
            if name != "dims/sampling/posterior.py":
                archive.writestr(name, content)
    with pytest.raises(RuntimeError, match=r"dims\.sampling\.posterior"):
        check(broken, devices=("cpu",))


def entry_points(place: Path) -> list[str]:
    look = (
        "from importlib.metadata import distributions;"
        f"d = [d for d in distributions(path=[{str(place)!r}])];"
        "e = [e.name for x in d for e in x.entry_points if e.group == 'dims.commands'];"
        "print(*e)"
    )
    return run(sys.executable, "-c", look).split()


@pytest.mark.slow
def test_the_paper_adds_its_commands(wheel, tmp_path):
    place = tmp_path / "installed"
    install = ("-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", place)
    run(sys.executable, *install, wheel)
    assert entry_points(place) == []
    (paper,) = built(tmp_path / "paper", "./paper").glob("*.whl")
    run(sys.executable, *install, paper)
    assert entry_points(place) == ["data", "demo", "reproduce"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_empty_environment_imports_samples_and_runs_the_demo(wheel, tmp_path):
    (paper,) = built(tmp_path / "paper", "./paper").glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "empty")
    programs = tmp_path / "empty" / "bin"
    # The versions that were tried; an installer would otherwise take newer ones.
    pinned = ("-c", ROOT / "constraints.txt")
    install = (programs / "python", "-m", "pip", "install", "--quiet", *pinned)
    run(*install, wheel, timeout=900)
    place = run(programs / "python", "-c", "import dims; print(dims.__file__)", cwd=tmp_path)
    assert place.startswith(str(tmp_path / "empty"))
    run(programs / "python", ROOT / "benchmarks/wheel_check.py", wheel, cwd=tmp_path)
    run(*install, f"{wheel}[cli]", paper, timeout=900)
    told = run(programs / "dims", "demo", "--draws", "2", cwd=tmp_path, timeout=900)
    assert "Figure" in told
    assert (tmp_path / "demo" / "demo.png").stat().st_size > 10_000


@pytest.mark.slow
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
