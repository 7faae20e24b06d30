"""`dims init` and `dims sample`: what a shell sees, exit codes included."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import typer
from test_store import failing
from typer.testing import CliRunner

import dims
from cases import slow
from dims.commands import app, followed
from dims.commands.exits import stop
from dims.commands.pages.read import read_page
from dims.errors import EngineError, MemoryLimitError
from dims.sampling.engine import Work
from draws_problems import mlp, random_inputs

QUICK = ("--method", "la", "--draws", "3", "--chunk-size", "2", "--quiet")


def call(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def entry(tmp_path_factory) -> str:
    """The file of `dims init`, trained once."""
    file = tmp_path_factory.mktemp("entry") / "my_run.py"
    assert call("init", file)[0] == 0
    return f"{file}:problem"


@pytest.fixture(scope="module")
def fit_once() -> Callable[..., dims.Posterior]:
    """What the command fits, kept: the network of an entry and its posterior stay the same."""
    return functools.cache(sys.modules["dims.commands.sample"]._fit)


@pytest.fixture
def fitted(fit_once, monkeypatch) -> None:
    """For tests of what comes after the fit, which takes far longer than a few draws."""
    monkeypatch.setattr(sys.modules["dims.commands.sample"], "_fit", fit_once)


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def sample(entry: str, store: Path, *more: object) -> tuple[int, str, str]:
    return call("sample", entry, "--store", store, *QUICK, *more)


@pytest.mark.parametrize("fits", [1, slow(2)])
def test_what_init_writes_can_be_sampled_and_resumed(entry, tmp_path, request, fits):
    if fits == 1:  # a second one takes as long again
        request.getfixturevalue("fitted")
    store, file = tmp_path / "run", tmp_path / "draws.safetensors"
    dynamics = ("--method", "rla", "--max-time", "0.1")
    code, out, _ = sample(entry, store, *dynamics)
    assert code == 0
    assert "3 draws by 'rla'" in out
    chunk = store / "chunk_00001.safetensors"
    first = chunk.read_bytes()
    chunk.unlink()
    code, out, _ = sample(entry, store, *dynamics, "--json", "--out", file)
    assert code == 0
    facts = json.loads(out)
    assert (facts["draws"], facts["failed"], facts["status"]) == (3, [], {"finished": 3})
    assert len(chunk.read_bytes()) == len(first)
    assert len(dims.load(file, network())) == 3
    assert sample(entry, store, *dynamics, "--out", file)[0] == 2


@pytest.mark.usefixtures("fitted")
def test_saved_times_are_kept_in_the_store_and_the_file(entry, tmp_path, monkeypatch):
    monkeypatch.setattr(followed, "FRAMES", 3)
    store, file = tmp_path / "run", tmp_path / "draws.safetensors"
    how = ("--method", "dims", "--friction", "2", "--max-time", "0.1", "--settle", "none")
    code, out, _ = sample(entry, store, *how, "--save-at", "0.02,0.05", "--out", file)
    assert code == 0
    assert "saved at t = 0.02: median loss" in out
    draws = dims.load(file, network())
    assert draws.times.tolist() == [0.02, 0.05]
    assert draws.at(0.05).parameters.shape == draws.parameters.shape
    assert sample(entry, store, *how, "--save-at", "0.02,0.05", "--follow", "1")[0] == 0
    for wrong, said in (("x", "not a list of times"), ("0.2", "save_at"), ("0.05,0.02", "save_at")):
        code, _, error = sample(entry, tmp_path / "no", *how, "--save-at", wrong)
        assert (code, said in error) == (2, True), error
    assert sample(entry, tmp_path / "no", "--save-at", "0.02")[0] == 2  # la has no trajectories


HELD_OUT = """
import torch

def problem(seen=12):
    torch.manual_seed(0)
    x = torch.randn(40, 1)
    y = 2 * x + 0.1 * torch.randn(40, 1)
    return torch.nn.Linear(1, 1), (x[seen:], y[seen:]), "regression", (x[:seen], y[:seen])

def without():
    return problem()[:3]
"""


@pytest.mark.parametrize("name", ["problem", "without"])
def test_rows_that_weigh_the_draws_and_are_scored_are_named(tmp_path, name):
    (tmp_path / "held.py").write_text(HELD_OUT)
    entry, how = f"{tmp_path}/held.py:{name}", ("--method", "dims", "--max-time", "0.1")
    code, out, error = sample(entry, tmp_path / name, *how, "--save-at", "0.05")
    assert code == 0, error
    said = "the report scores the same 12 held-out rows, which flatters a little"
    assert (said in out) == (name == "problem"), out


def test_init_keeps_what_is_there(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("mine")
    wrong = {
        "mine.py": "exists",
        "no name.py": "letters, digits and _ only",
        "json.py": "is the name of a module of Python",
        "x.txt": "a name that ends in .py",
        "x7": "a name that ends in .py",
    }
    for name, said in wrong.items():
        code, _, error = call("init", tmp_path / name)
        assert (code, error[:11], said in error) == (2, "dims: FILE:", True), error
    assert file.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


FOLLOWED = ("--method", "dims", "--friction", "2", "--max-time", "0.1", "--settle", "none")


@pytest.mark.usefixtures("fitted")
def test_the_ways_of_the_first_draws_are_kept_and_end_where_the_draws_are(
    entry, tmp_path, monkeypatch
):
    monkeypatch.setattr(followed, "FRAMES", 3)
    store, file = tmp_path / "run", tmp_path / "draws.safetensors"
    code, _, _ = sample(entry, store, *FOLLOWED, "--follow", "2", "--out", file)
    assert code == 0
    kept = json.loads((store / "trajectories.json").read_text())
    assert len(kept["trajectories"]) == 2
    draws = dims.load(file, network())
    offsets = (draws.parameters - draws.map_parameters)[:2].double()
    for path, offset, arc in zip(kept["trajectories"], offsets, draws.arc_length, strict=False):
        assert (path["times"][0], path["times"][-1], path["status"]) == (0.0, 0.1, "FINISHED")
        assert path["positions"][0] == pytest.approx([0, 0], abs=1e-4)
        assert path["arc_length"] == pytest.approx(float(arc), rel=1e-2)
        assert path["energy"][-1] < path["energy"][0]
        # The plane holds nearly all of two ways: little of their ends is lost on it.
        assert torch.tensor(path["positions"][-1]).norm() < 1.01 * offset.norm()
    losses = [path["loss"][-1] for path in kept["trajectories"]]
    assert losses == pytest.approx(draws.loss[:2].tolist(), rel=1e-2)
    assert file.with_suffix(".trajectories.json").read_text() == json.dumps(kept)
    before = (store / "trajectories.json").stat().st_mtime_ns
    assert sample(entry, store, *FOLLOWED, "--follow", "2")[0] == 0
    assert (store / "trajectories.json").stat().st_mtime_ns == before
    assert sample(entry, store, *FOLLOWED, "--follow", "99")[0] == 0  # all there are
    assert len(json.loads((store / "trajectories.json").read_text())["trajectories"]) == 3
    shown = json.loads(json.dumps(read_page(store)))["runs"][0]
    assert [path["label"] for path in shown["trajectories"]] == ["DiMS 0", "DiMS 1", "DiMS 2"]
    assert len(read_page(file)["runs"][0]["trajectories"]) == 2


@pytest.mark.parametrize(
    ("method", "how"),
    [("dims", {"friction": 2.0, "settle": "none", "certify": False}), slow("rla", {})],
)
def test_a_draw_followed_again_ends_where_it_did(method, how, monkeypatch):
    monkeypatch.setattr(followed, "FRAMES", 3)
    x = random_inputs(12, 3)
    given = {"prior_precision": 1.0, "noise_std": 0.3}
    posterior = dims.fit(mlp(3, 1), (x, x[:, :1]), "regression", refine=True, **given)
    draws = posterior.sample(4, method, max_time=0.1, seed=7, progress=False, **how)
    path = followed.follow_again(posterior, draws, 3)
    far = (draws.parameters - draws.map_parameters).norm(dim=1)
    apart = (path.end[:, None] - draws.parameters).norm(dim=-1) / far
    assert apart.argmin(1).tolist() == [0, 1, 2]
    assert apart.diagonal().max() < 1e-3
    assert path.times[-1] == 0.1
    assert (path.positions[0] == draws.map_parameters).all()


FILE = """
import torch
def nothing(): return None
def pair(): return torch.nn.Linear(1, 1), "regression"
def raises(): raise KeyError("my\\nmistake")
def likelihood(): return torch.nn.Linear(1, 1), (torch.ones(3, 1), torch.ones(3, 1)), "poisson"
number = 3
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "it returned NoneType"),
        ("pair", "it returned 2 values"),
        ("raises", "line 5: KeyError"),
        ("likelihood", "poisson"),
        ("number", "no function"),
        ("a b", "is not `file.py:function`"),
        ("", "is not `file.py:function`"),
    ],
)
def test_a_wrong_entry_is_told_in_one_line(tmp_path, name, said):
    file = tmp_path / "wrong.py"
    file.write_text(FILE)
    code, _, error = sample(f"{file}:{name}", tmp_path / "run")
    assert code == 2
    assert said in error
    assert error.startswith("dims: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "entry",
    [
        "no_such_module_:f",
        "../x:f",
        "no.py:f",
        "a" * 5000 + ".py:f",
        "os:sep",
        "json.py:f",
        "\0.py:f",
    ],
)
def test_a_missing_entry_is_told_in_one_line(tmp_path, entry):
    code, _, error = sample(entry, tmp_path / "run")
    assert (code, error[:12], error.count("\n")) == (2, "dims: ENTRY:", 1)


def test_a_file_that_fails_names_its_line(tmp_path):
    (tmp_path / "broken.py").write_text("x = 1\nx.y\n")
    code, _, error = sample(f"{tmp_path / 'broken.py'}:f", tmp_path / "run")
    assert code == 2
    assert "broken.py, line 2: AttributeError" in error


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--method", "dims", "--friction", "-1"], "friction"),
        (["--friction", "1"], "no meaning"),
        (["--address", "auto"], "--engine ray"),
        (["--follow", "1"], "--follow"),
        (["--method", "dims", "--follow", "-1"], "follow"),
        (["--device", "toaster"], "--device"),
        (["--curvature", "round"], "curvature"),
        (["--draws", "0"], "draws"),
        (["--seed", "-1"], "seed"),
        (["--engine", "spark"], "engine"),
    ],
)
@pytest.mark.usefixtures("fitted")
def test_bad_input_is_exit_code_2(entry, tmp_path, more, said):
    code, _, error = sample(entry, tmp_path / "run", *more)
    assert code == 2
    assert said in error


@pytest.mark.usefixtures("fitted")
def test_another_run_in_the_store_is_exit_code_2(entry, tmp_path):
    assert sample(entry, tmp_path / "run")[0] == 0
    code, _, error = sample(entry, tmp_path / "run", "--seed", "1")
    assert code == 2
    assert "holds another run: seed is 0 there and 1 here; give the same values" in error


@pytest.mark.usefixtures("fitted")
def test_failed_draws_are_exit_code_3_until_they_are_retried(entry, tmp_path, monkeypatch):
    store = tmp_path / "run"
    monkeypatch.setattr(Work, "compute", failing({1}))
    code, out, error = sample(entry, store, "--json")
    assert code == 3
    assert json.loads(out)["failed"] == [1]
    assert "1 of 3 draws failed (1)" in error
    assert sample(entry, store)[0] == 3
    assert sample(entry, store, "--retry-failed")[0] == 0


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "the same command goes on"),
        (OSError(28, "No space left on device"), 1, "No space left"),
        (EngineError("a worker died"), 1, "a worker died"),
        (MemoryLimitError("draws: 9 at once need 1 TB"), 2, "draws: 9 at once"),
    ],
)
@pytest.mark.usefixtures("fitted")
def test_what_stops_a_run_shows_in_its_exit_code(entry, tmp_path, monkeypatch, error, code, said):
    def stop(self, job, report=None):
        raise error

    store = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Work, "compute", stop)
        found, _, told = sample(entry, store)
    assert found == code
    assert said in told
    assert told.splitlines()[-1].startswith("dims: ")
    assert sample(entry, store)[0] == 0


# Soon fitted: the signal is what matters.
LINE = """
import torch
def problem():
    x = torch.linspace(-1, 1, 9).unsqueeze(-1)
    return torch.nn.Linear(1, 1), (x, x.sin()), "regression"
"""


@pytest.mark.parametrize(
    ("engine", "number"),
    [
        ("local", signal.SIGTERM),
        pytest.param("local", signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param("ray", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("ray", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_signal_ends_a_run_so_that_it_can_go_on(tmp_path, engine, number):
    store, entry = tmp_path / "run", f"{tmp_path / 'line.py'}:problem"
    (tmp_path / "line.py").write_text(LINE)
    program = "from dims.commands.cli import main; main()"
    how = ("--draws", "2000", "--chunk-size", "1", "--friction", "0.5", "--max-time", "1")
    command = [sys.executable, "-c", program, "sample", entry, "--store", str(store)]
    child = subprocess.Popen(
        [*command, "--engine", engine, *how],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not list(store.glob("chunk_*")) and time.monotonic() < deadline:
            time.sleep(0.1)
        child.send_signal(number)
        _, told = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130
    assert told.splitlines()[-1].startswith(f"dims: stopped; what is done is in {store}")
    assert 1 <= len(list(store.glob("chunk_*"))) < 2000
    assert not list(store.glob(".*.part"))


def test_a_run_that_is_stopped_before_it_began_has_no_folder(tmp_path, capsys):
    for store, said in [(tmp_path / "none", "nothing was done yet"), (tmp_path, str(tmp_path))]:
        with pytest.raises(typer.Exit) as ended:
            stop(store)
        assert ended.value.exit_code == 130
        assert said in capsys.readouterr().err
