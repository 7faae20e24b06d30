"""What earlier versions wrote can be read, and their runs go on.

`tests/fixtures/make.py` made the files.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from old_problem import CHUNK, DRAWS, FIXTURES, RUNS, data, network, posterior

import dims
from cases import slow
from dims.sampling.engine import Work
from dims.sampling.samplers import DiMS

CLOSE = {"rtol": 1e-8, "atol": 1e-8}


@pytest.fixture(scope="module")
def fitted() -> dims.Posterior:
    return posterior()


def copied(name: str, tmp_path: Path) -> Path:
    """A store of the fixtures, to write to; skipped where its manifest names another torch."""
    store = tmp_path / name
    shutil.copytree(FIXTURES / name, store)
    return store


def same_torch(store: Path) -> bool:
    return json.loads((store / "manifest.json").read_text())["torch"] == torch.__version__


def resume(fitted: dims.Posterior, store: Path, name: str, settle: str, **more) -> dims.Draws:
    how = {"chunk_size": CHUNK, "progress": False, "settle": settle, "metric": "euclidean"}
    how["certify"] = settle != "none"
    how |= RUNS[name] | more
    return fitted.sample(DRAWS, store=store, **how)


def test_a_file_of_draws_is_read():
    draws = dims.load(FIXTURES / "draws.safetensors", network(), data())
    assert len(draws) == DRAWS
    assert draws.method == "dims"
    assert draws.seed == RUNS["finished"]["seed"]
    assert draws.settings["settle"] == "stiff"
    assert draws.times.tolist() == []
    torch.testing.assert_close(draws.loss, draws.surface.value(draws.parameters), **CLOSE)
    assert DiMS.from_settings(draws.settings) == DiMS(
        friction=0.5, max_time=0.5, metric="euclidean", settle="stiff", certify=True
    )
    assert "verdicts" in draws.summary()
    assert draws.predict(data()[0]).mean.shape == (13, 1)


@pytest.mark.parametrize(("name", "settle"), [slow("finished", "stiff"), ("unsettled", "none")])
def test_a_finished_store_is_taken_as_it_is(fitted, tmp_path, monkeypatch, name, settle):
    def forbidden(*_: object) -> None:
        raise AssertionError("computed although it is stored")

    store = copied(name, tmp_path)
    if not same_torch(store):
        with pytest.raises(dims.StoreError, match="torch"):
            resume(fitted, store, name, settle)
        return
    before = {path.name: path.read_bytes() for path in store.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(Work, "compute", forbidden)
        draws = resume(fitted, store, name, settle)
    added = ("lock", "findings.json")
    assert {p.name: p.read_bytes() for p in store.iterdir() if p.name not in added} == before
    fresh = resume(fitted, tmp_path / "fresh", name, settle)
    torch.testing.assert_close(draws.parameters, fresh.parameters, **CLOSE)
    assert draws.settings == fresh.settings
    assert draws.settings["settle"] == settle
    # A chunk that is lost is made again, in the run of the old manifest.
    (store / "chunk_00001.safetensors").unlink()
    again = resume(fitted, store, name, settle)
    torch.testing.assert_close(again.parameters, draws.parameters, **CLOSE)
    assert json.loads((store / "manifest.json").read_text()) == json.loads(before["manifest.json"])


def test_an_interrupted_run_goes_on_where_it_stopped(fitted, tmp_path):
    store = copied("interrupted", tmp_path)
    if not same_torch(store):
        with pytest.raises(dims.StoreError, match="torch"):
            resume(fitted, store, "interrupted", "none")
        return
    reports: list[float] = []
    draws = resume(
        fitted, store, "interrupted", "none", progress=lambda now: reports.append(now.mean_time)
    )
    assert reports[0] > 0.2  # not from the start
    whole = resume(fitted, tmp_path / "whole", "interrupted", "none")
    for name in ("parameters", "loss", "kinetic_energy", "energy_violation", "arc_length"):
        torch.testing.assert_close(getattr(draws, name), getattr(whole, name), **CLOSE)
    assert torch.equal(draws.evaluations, whole.evaluations)
    assert draws.settings == whole.settings
    assert not list(store.glob("partial_*"))
    # And as the version that began it would have ended it.
    shutil.copytree(FIXTURES / "whole", tmp_path / "old")
    old = resume(fitted, tmp_path / "old", "interrupted", "none")
    torch.testing.assert_close(draws.parameters, old.parameters, **CLOSE)


@pytest.mark.parametrize(
    "change", [{"settle": "full"}, {"friction": 2.0}, {"save_at": [0.1]}, {"metric": "moving"}]
)
def test_other_settings_than_the_old_ones_are_refused(fitted, tmp_path, change):
    store = copied("unsettled", tmp_path)
    ((name, value),) = change.items()
    with pytest.raises(dims.StoreError, match=rf"{name} is .* and {re.escape(json.dumps(value))}"):
        resume(fitted, store, "unsettled", **{"settle": "none"} | change)


def test_another_torch_is_refused_by_name(fitted, tmp_path):
    store = copied("interrupted", tmp_path)
    manifest = json.loads((store / "manifest.json").read_text()) | {"torch": "0.4"}
    (store / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(dims.StoreError, match=r'torch is "0.4" there and'):
        resume(fitted, store, "interrupted", "none")


def test_an_old_run_is_extended(fitted, tmp_path):
    store = copied("unsettled", tmp_path)
    if not same_torch(store):
        pytest.skip("the fixture is of another torch")
    old = {path.name: path.read_bytes() for path in store.glob("chunk_*")}
    how = {"chunk_size": CHUNK, "progress": False, "settle": "none", "metric": "euclidean"}
    how |= RUNS["unsettled"]
    longer = fitted.sample(DRAWS + 2, store=store, **how)
    assert {name: (store / name).read_bytes() for name in old} == old
    assert json.loads((store / "manifest.json").read_text())["draws"] == [DRAWS, DRAWS + 2]
    fresh = fitted.sample(DRAWS + 2, store=tmp_path / "fresh", **how)
    torch.testing.assert_close(longer.parameters, fresh.parameters, **CLOSE)
