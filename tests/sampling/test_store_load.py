"""`dims.load` of a folder: what `sample` returned, from files that may be damaged or missing."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from test_store import COUNT, assert_same, chunks, failing, flip_a_bit, make_posterior, sample
from torch import nn

import dims
from cases import first
from dims.sampling.engine import Work
from dims.sampling.store.chunks import failed_rows

pytestmark = pytest.mark.usefixtures("without_shape_checks")


@pytest.fixture(scope="module")
def posterior() -> dims.Posterior:
    return make_posterior()


@pytest.fixture(scope="module")
def made_once(posterior, tmp_path_factory) -> tuple[Path, dims.Draws]:
    store = tmp_path_factory.mktemp("made") / "run"
    return store, sample(posterior, store)


@pytest.fixture
def finished(made_once, tmp_path) -> tuple[Path, dims.Draws]:
    """A copy of the run, to do with as one likes."""
    store, draws = made_once
    return Path(shutil.copytree(store, tmp_path / "run")), draws


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 1)).double()


def data() -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.linspace(-1, 1, 10, dtype=torch.float64).unsqueeze(-1)
    return inputs, inputs.sin()


def test_a_folder_is_loaded_as_what_was_sampled(finished):
    store, draws = finished
    assert_same(dims.load(store, network()), draws)
    again = dims.load(str(store), network(), data())
    torch.testing.assert_close(again.surface.value(again.parameters), draws.loss)


def test_of_an_unfinished_run_the_finished_chunks_are_loaded(finished):
    store, draws = finished
    chunks(store)[1].unlink()
    with pytest.warns(dims.StoreWarning, match=r"4 of 7 draws are there \(not draws 3 to 5\)"):
        some = dims.load(store, network())
    assert torch.equal(some.parameters, draws.parameters[[0, 1, 2, 6]])
    for path in chunks(store):
        path.unlink()
    with pytest.raises(dims.StoreError, match="no chunk is finished yet"):
        dims.load(store, network())


def test_a_damaged_chunk_is_named_with_what_to_do(finished):
    store, _ = finished
    flip_a_bit(chunks(store)[1])
    with pytest.raises(dims.DrawsFileError, match=r"chunk_00001.*damaged.*`dims sample` command"):
        dims.load(store, network())


def test_another_model_is_not_called_a_damaged_chunk(finished):
    store, _ = finished
    with pytest.raises(dims.DrawsFileError, match="model: ") as caught:
        dims.load(store, nn.Linear(1, 1).double())
    assert "dims sample" not in str(caught.value)


def test_a_chunk_of_another_run_is_refused(posterior, finished, tmp_path):
    store, _ = finished
    sample(posterior, tmp_path / "other", seed=1)
    chunks(store)[2].write_bytes(chunks(tmp_path / "other")[2].read_bytes())
    with pytest.raises(dims.DrawsFileError, match=r"chunk_00002.*another run"):
        dims.load(store, network())


def test_draws_that_were_tried_again_are_taken(posterior, tmp_path, monkeypatch):
    monkeypatch.setattr(Work, "compute", failing({1, 4, 5}, even_finer={4}))
    mended = sample(posterior, tmp_path / "run", retry_failed=True)
    loaded = dims.load(tmp_path / "run", network())
    assert failed_rows(loaded) == failed_rows(mended) == [4]
    assert_same(loaded, mended)


def test_an_extended_run_is_loaded_whole(posterior, finished):
    store, _ = finished
    settings = {"friction": 1.0, "max_time": 0.2, "settle": "none", "certify": False}
    longer = posterior.sample(COUNT + 2, store=store, chunk_size=3, progress=False, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(dims.load(store, network()), longer)


@pytest.mark.parametrize(
    "change",
    first([{"chunk_size": 0}, {"chunk_size": 10**30}, {"chunk_size": "3"}, {"draws": "x"}]),
)
def test_a_false_manifest_is_refused(finished, change):
    store, _ = finished
    manifest = json.loads((store / "manifest.json").read_text()) | change
    (store / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(dims.StoreError, match=str(store)):
        dims.load(store, network())


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(dims.StoreError, match="does not hold a run"):
        dims.load(tmp_path, network())
