"""What was learned from a table is kept, and taken again where nothing has changed."""

from __future__ import annotations

import json
import random
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import dims
from dims.commands import app
from dims.estimators import tables

pytestmark = pytest.mark.filterwarnings("ignore::dims.DimsWarning")
KINDS = {"size": "number", "side": "category"}
QUICK: dict[str, Any] = {
    "hidden": (3,),
    "epochs": 40,
    "draws": 3,
    "method": "la",
    "refine": False,
    "random_state": 0,
}


def table(folder: Path, rows: int = 40, classes: bool = False) -> tables.Table:
    draw = random.Random(0)
    lines = ["size,side,price"]
    for _ in range(rows):
        size, side = draw.uniform(30, 150), draw.choice("NESW")
        price = 3 * size + 50 * (side == "S") + draw.gauss(0, 20)
        answer = ("dear" if price > 280 else "cheap") if classes else f"{price:.0f}"
        lines.append(f"{size:.1f},{side},{answer}")
    (folder / "t.csv").write_text("\n".join(lines))
    task = "classification" if classes else "regression"
    return tables.read(folder / "t.csv", KINDS, "price", task)


def pipeline(kind: type = dims.DimsRegressor, **settings: Any) -> Any:
    return make_pipeline(tables.preparation(KINDS), kind(**QUICK | settings))


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for each fit."""
    done: list[str] = []
    for kind in (dims.DimsRegressor, dims.DimsClassifier):
        real = kind.fit

        def counted(self: Any, X: Any, y: Any, _real: Any = real) -> Any:
            done.append(type(self).__name__)
            return _real(self, X, y)

        monkeypatch.setattr(kind, "fit", counted)
    return done


@pytest.mark.parametrize(
    ("classes", "rows", "settings"),
    [
        (False, 40, {}),
        (True, 40, {}),
        (False, 40, {"skip": True}),
        (
            False,
            120,
            {"method": "dims", "max_time": 0.3, "refine": True},
        ),  # with a mixture by held-out rows, and widened
    ],
)
def test_the_same_rows_are_not_learned_twice(tmp_path, capsys, fits, classes, rows, settings):
    """All answers are bitwise identical: of draws, network, intervals or classes."""
    known = table(tmp_path, rows, classes)
    kind = dims.DimsClassifier if classes else dims.DimsRegressor
    one = tables.learned(pipeline(kind, **settings), known, tmp_path / "kept")
    assert capsys.readouterr().out == ""
    other = tables.learned(pipeline(kind, **settings), known, tmp_path / "kept")
    said = capsys.readouterr().out
    assert said.startswith(f"Not trained again: {tmp_path / 'kept'} has it")
    assert "delete that folder to train again" in said
    assert said.count("\n") == len(fits) == 1
    first, second = (tables.evaluate(model, known, known) for model in (one, other))
    assert first.predictions.equals(second.predictions)
    assert first.summary() == second.summary()
    ahead, alone = (model[-1].network_only() for model in (one, other))
    features = one[:-1].transform(known.inputs)
    assert np.array_equal(ahead.predict(features), alone.predict(features))
    for name in ("epochs_", "judgement_"):
        assert getattr(one[-1], name) == pytest.approx(getattr(other[-1], name))


def test_files_are_json_and_safetensors(tmp_path):
    tables.learned(pipeline(), table(tmp_path), tmp_path / "a" / "kept")
    files = sorted((tmp_path / "a" / "kept").iterdir())
    assert [path.name for path in files] == [
        "draws.safetensors",
        "learned.json",
        "network.safetensors",
    ]
    json.loads(files[1].read_text())
    for path in (files[0], files[2]):
        with safe_open(path, framework="pt") as opened:
            assert "parameters" in opened.keys()  # noqa: SIM118


def changed_row(known: tables.Table) -> tables.Table:
    known.inputs.iloc[0, 0] += 0.1
    return known


@pytest.mark.parametrize(
    ("change", "settings"),
    [
        (changed_row, {}),
        (lambda known: known.split(0.1)[0], {}),
        (lambda known: known, {"draws": 4}),
        (lambda known: known, {"random_state": 1}),
        (lambda known: known, {"hidden": (4,)}),
    ],
    ids=["cell", "rows", "draws", "seed", "network"],
)
def test_other_rows_or_settings_are_learned(tmp_path, fits, change, settings):
    known = table(tmp_path)
    tables.learned(pipeline(), known, tmp_path / "kept")
    tables.learned(pipeline(**settings), change(known), tmp_path / "kept")
    assert len(fits) == 2


def test_another_version_learns_again(tmp_path, fits, monkeypatch):
    known = table(tmp_path)
    tables.learned(pipeline(), known, tmp_path / "kept")
    monkeypatch.setattr(dims, "__version__", "99")
    tables.learned(pipeline(), known, tmp_path / "kept")
    assert len(fits) == 2
    tables.learned(pipeline(verbose=True), known, tmp_path / "kept")
    assert len(fits) == 2


@pytest.mark.parametrize("settings", [{"method": dims.LA()}, {"random_state": None}])
def test_settings_that_cannot_be_compared_are_not_kept(tmp_path, fits, settings):
    known = table(tmp_path)
    for _ in range(2):
        tables.learned(pipeline(**settings), known, tmp_path / "kept")
    assert len(fits) == 2
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("name", ["draws.safetensors", "network.safetensors", "learned.json"])
@pytest.mark.parametrize("content", [None, b"", b"{}", b"[]", bytes(500)])
def test_what_is_damaged_is_learned_again(tmp_path, fits, capsys, name, content):
    known = table(tmp_path)
    tables.learned(pipeline(), known, tmp_path / "kept")
    damaged = tmp_path / "kept" / name
    if content is None:
        damaged.unlink()
    else:
        damaged.write_bytes(content)
    again = tables.learned(pipeline(), known, tmp_path / "kept")
    assert len(fits) == 2
    assert hasattr(again[-1], "posterior_")
    assert ("cannot be used" in capsys.readouterr().out) == (name != "learned.json")
    tables.learned(pipeline(), known, tmp_path / "kept")
    assert len(fits) == 2


def test_warnings_of_the_fit_are_given_each_time(tmp_path):
    """An answer that is not to be trusted does not look better the second time."""
    known = table(tmp_path)
    known.target[:] = np.random.RandomState(0).randn(len(known))
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tables.learned(pipeline(), known, tmp_path / "kept")
        told = [each for each in caught if each.category is dims.WorseThanBaselineWarning]
        assert len(told) == 1
        assert "do not trust it" in str(told[0].message)


def test_a_new_file_does_not_train_again(tmp_path, monkeypatch, capsys, fits):
    """The first one learns all rows; the second only reads."""
    monkeypatch.chdir(tmp_path)
    table(tmp_path)
    assert CliRunner().invoke(app, ["init", "mine.py", "--csv", "t.csv"]).exit_code == 0
    small = 'hidden=(3,), method="la", refine=False'
    text = Path("mine.py").read_text().replace("hidden=(16,)", small)
    Path("mine.py").write_text(text.replace("epochs=300", "epochs=40"))

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["mine.py", *words])
        runpy.run_path("mine.py", run_name="__main__")
        return capsys.readouterr().out

    Path("new.csv").write_text("size,side\n90,N\n120,S\n")
    assert "Not trained again" not in run()
    rest = "held-out rows, not used in training"
    said = run("new.csv")
    assert (said.count("Not trained again"), said.count(rest)) == (1, 1)
    assert len(fits) == 2
    first = Path("new_predicted.csv").read_text()
    said = run("new.csv")
    assert (said.count("Not trained again"), said.count(rest)) == (2, 0)
    assert all(each not in said for each in ("note:", "learned from  ", "Figure"))
    assert "Verdict by 8 held-out rows: " in said
    assert "VERBOSE = True" in said
    assert run().count(rest) == 1
    Path("mine.py").write_text(
        Path("mine.py").read_text().replace("VERBOSE = False", "VERBOSE = True")
    )
    assert run("new.csv").count(rest) == 1
    assert len(fits) == 2
    assert Path("new_predicted.csv").read_text() == first
    Path("t.csv").write_text(Path("t.csv").read_text() + "\n50,N,170")
    assert "Not trained again" not in run("new.csv")
    assert len(fits) == 4
