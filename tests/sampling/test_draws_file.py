"""Draws on disk: the same bits back, no half file, nothing overwritten, no other model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

import dims
from dims.sampling import files
from dims.sampling.draws import storage
from draws_problems import KINDS, Pair, assert_same, draws_of, mlp, problem, random_inputs

# Round trips


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", ["dims", "linla"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_round_trip_keeps_every_bit(
    kind: str, method: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    surface, x = problem(kind, dtype, effective_points=5.5, loss_scale=0.1)
    draws = draws_of(surface, method)
    draws.save(tmp_path / "run.safetensors")
    fresh = mlp(3, surface.outputs, dtype, seed=99)  # untrained: θ* is in the file
    before = {name: tensor.clone() for name, tensor in fresh.state_dict().items()}
    loaded = dims.load(tmp_path / "run.safetensors", model=fresh)
    assert_same(loaded, draws)
    assert torch.equal(loaded.predict(x).samples, draws.predict(x).samples)
    assert torch.equal(loaded.surface.initial, draws.map_parameters)
    assert all(torch.equal(fresh.state_dict()[name], before[name]) for name in before)
    assert all(p.requires_grad for p in fresh.parameters())
    # Saved again without its data, the file says the same.
    loaded.save(tmp_path / "again.safetensors")
    first, second = (storage.read(tmp_path / f"{n}.safetensors")[0] for n in ("run", "again"))
    assert json.loads(first) == json.loads(second)
    assert_same(dims.load(tmp_path / "again.safetensors", fresh), draws)


def test_with_data_the_surface_comes_back(tmp_path: Path) -> None:
    prior = torch.linspace(0.1, 1.0, 36, dtype=torch.float64)
    surface = problem("one output")[0].with_settings(prior_precision=prior)
    draws = draws_of(surface)
    draws.save(tmp_path / "run")
    model, (x, y) = mlp(3, 1, seed=5), surface.data
    loaded = dims.load(tmp_path / "run", model, (x, y))
    assert isinstance(loaded.surface, dims.LossSurface)
    assert torch.equal(loaded.surface.value(loaded.parameters), draws.loss)
    with pytest.raises(dims.DrawsFileError, match="data: 11 points, but the draws were made with"):
        dims.load(tmp_path / "run", model, (x[1:], y[1:]))
    with pytest.raises(dims.DrawsFileError, match="data: the loss at θ"):
        dims.load(tmp_path / "run", model, (10 * x, y))


def test_inputs_of_several_parts_and_frozen_weights(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Pair().double()
    model.words.requires_grad_(False)
    inputs = {"x": random_inputs(8, 2), "words": torch.arange(24).reshape(8, 3) % 5}
    data = (inputs, torch.arange(8) % 2)
    draws = draws_of(dims.LossSurface(model, data, "classification", parameters=["left"]))
    draws.save(tmp_path / "run")
    expected = draws.predict(inputs).samples
    model.requires_grad_(True)  # which weights are sampled, the file knows
    for given_data in (None, data):
        loaded = dims.load(tmp_path / "run", model, given_data)
        assert loaded.surface.vector.names == ("left.weight", "left.bias")
        assert torch.equal(loaded.predict(inputs).samples, expected)
    with torch.no_grad():
        model.words.weight[0, 0] += 1e-9
    with pytest.raises(dims.DrawsFileError, match=r"'words.weight' .* has other values"):
        dims.load(tmp_path / "run", model)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x)))


def test_shared_weights_and_buffers(tmp_path: Path) -> None:
    x = random_inputs(8, 3)
    torch.manual_seed(0)
    model = nn.Sequential(Tied(), nn.BatchNorm1d(3)).double()
    model(x)
    model.eval()
    draws = draws_of(dims.LossSurface(model, (x, torch.arange(8) % 3), "classification"))
    draws.save(tmp_path / "run")
    assert torch.equal(dims.load(tmp_path / "run", model).parameters, draws.parameters)
    fresh = nn.Sequential(Tied(), nn.BatchNorm1d(3)).double().eval()
    with pytest.raises(dims.DrawsFileError, match=r"buffer '1.running_mean' .* other values"):
        dims.load(tmp_path / "run", fresh)
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(
        dims.load(tmp_path / "run", fresh).predict(x).samples, draws.predict(x).samples
    )
    with pytest.raises(ValueError, match="training mode"):
        dims.load(tmp_path / "run", fresh.train())


def test_no_draws_and_shared_memory(tmp_path: Path) -> None:
    surface, _ = problem("one output")
    draws = draws_of(surface)
    draws.select([]).save(tmp_path / "none")
    assert len(dims.load(tmp_path / "none", mlp(3, 1))) == 0
    view = torch.zeros(36, 4, dtype=torch.float64).T
    dims.Draws(parameters=view, method="la", surface=surface, map_parameters=view[0]).save(
        tmp_path / "view"
    )
    assert dims.load(tmp_path / "view", mlp(3, 1)).parameters.shape == (4, 36)


def test_the_header_names_what_it_takes_to_make_the_draws_again(tmp_path: Path) -> None:
    surface, _ = problem("four classes")
    draws_of(surface).save(tmp_path / "run")
    with safe_open(tmp_path / "run", framework="pt") as file:
        metadata = file.metadata()
    header = json.loads(metadata["header"])
    assert (metadata["format"], metadata["version"]) == ("dims-draws", "1")
    assert header["versions"]["torch"] == torch.__version__
    assert header["versions"]["dims"] == dims.__version__
    assert header["seed"] == 7
    assert header["settings"]["friction"] == 0.1
    assert header["likelihood"] == "categorical"
    assert header["likelihood_settings"] == {"label_smoothing": 0.1}
    assert header["input_shapes"] == "float[3]"
    assert header["entries"][0] == ["sampled", "0.weight", "float64", [7, 3]]


# Writing


def test_nothing_is_overwritten_unless_asked(tmp_path: Path) -> None:
    surface, _ = problem("one output")
    path = tmp_path / "run.safetensors"
    draws_of(surface).save(path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="give another name, or overwrite=True"):
        draws_of(surface, rows=3).save(path)
    assert path.read_bytes() == before
    draws_of(surface, rows=3).save(str(path), overwrite=True)
    assert len(dims.load(path, mlp(3, 1))) == 3
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere; create it first"):
        draws_of(surface).save(tmp_path / "nowhere" / "run")
    assert os.listdir(tmp_path) == ["run.safetensors"]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("stage", ["save_file", "fsync"])
def test_a_failed_write_leaves_no_trace(
    overwrite: bool, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    surface, _ = problem("one output")
    path = tmp_path / "run"
    if overwrite:
        draws_of(surface).save(path)
    before = path.read_bytes() if overwrite else None

    def half(tensors: Any, target: Path, metadata: Any) -> None:
        target.write_bytes(b"half a file")
        raise OSError("disk full")

    def refuse(descriptor: int) -> None:
        raise OSError("disk full")

    if stage == "save_file":
        monkeypatch.setattr(files, "save_file", half)
    else:
        monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="disk full"):
        draws_of(surface, rows=2).save(path, overwrite=overwrite)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == (["run"] if overwrite else [])
    assert not overwrite or path.read_bytes() == before


def test_a_race_for_one_name_has_one_winner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    surface, _ = problem("one output")
    path = tmp_path / "run"
    genuine = files.save_file

    def slow(tensors: Any, target: Path, metadata: Any) -> None:
        genuine(tensors, target, metadata)
        path.write_bytes(b"another writer was first")

    monkeypatch.setattr(files, "save_file", slow)
    with pytest.raises(FileExistsError):
        draws_of(surface).save(path)
    assert path.read_bytes() == b"another writer was first"
    path.unlink()
    # A file system without links.
    monkeypatch.setattr(files, "save_file", genuine)
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError("no links")))
    draws_of(surface).save(path)
    assert len(dims.load(path, mlp(3, 1))) == 5
    assert os.listdir(tmp_path) == ["run"]


def test_a_likelihood_of_ones_own_is_not_saved(tmp_path: Path) -> None:
    class Narrow(dims.Gaussian):
        pass

    surface = problem("one output")[0].with_settings(likelihood=Narrow(0.1))
    with pytest.raises(TypeError, match="a file cannot hold Narrow"):
        draws_of(surface).save(tmp_path / "run")
