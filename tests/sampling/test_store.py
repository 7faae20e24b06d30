"""Runs in a folder: whatever interrupts or damages them, the draws are those of a quiet run."""

from __future__ import annotations

import fcntl
import functools
import json
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import dims
from dims.sampling.engine import Work
from dims.sampling.store import differences
from dims.sampling.store.chunks import failed_rows

COUNT, CHUNK = 7, 3
# That of `cases`, which programs that import this file do not find.
slow = functools.partial(pytest.param, marks=pytest.mark.slow)


def make_posterior(
    prior: float = 0.5, refine: bool = False, seed: int = 0, data: int = 10, hidden: int = 3
) -> dims.Posterior:
    torch.manual_seed(seed)
    inputs = torch.linspace(-1, 1, data, dtype=torch.float64).unsqueeze(-1)
    model = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, 1)).double()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dims.NotAMinimumWarning)
        return dims.fit(
            model,
            (inputs, inputs.sin()),
            "regression",
            tune=False,
            prior_precision=prior,
            noise_std=0.3,
            refine=refine,
        )


@pytest.fixture(scope="module")
def posterior() -> dims.Posterior:
    return make_posterior()


def sample(posterior: dims.Posterior, store: Path | None, seed: int = 0, **more) -> dims.Draws:
    settings = {"friction": 1.0, "max_time": 0.2, "settle": "none", "certify": False} | more
    chunk = {} if store is None else {"store": store, "chunk_size": CHUNK}
    return posterior.sample(COUNT, seed=seed, progress=False, **settings, **chunk)


def chunks(store: Path) -> list[Path]:
    return sorted(store.glob("chunk_*.safetensors"))


def assert_same(one: dims.Draws, other: dims.Draws) -> None:
    assert torch.equal(one.parameters, other.parameters)
    assert torch.equal(one.loss, other.loss)
    assert torch.equal(one.evaluations, other.evaluations)
    assert one.status == other.status
    assert one.settings == other.settings


@pytest.fixture(scope="module")
def made_once(posterior, tmp_path_factory) -> tuple[Path, dims.Draws]:
    store = tmp_path_factory.mktemp("made") / "run"
    return store, sample(posterior, store)


@pytest.fixture
def finished(made_once, tmp_path) -> tuple[Path, dims.Draws]:
    """A copy of the run, to do with as one likes."""
    store, draws = made_once
    return Path(shutil.copytree(store, tmp_path / "run")), draws


def test_a_store_holds_the_draws_in_chunks(posterior, finished):
    store, draws = finished
    assert len(draws) == COUNT
    assert [path.name for path in chunks(store)] == [f"chunk_0000{i}.safetensors" for i in range(3)]
    # Rows come out the same alone and in a batch to rounding; here nothing is chaotic.
    torch.testing.assert_close(draws.parameters, sample(posterior, None).parameters)
    assert draws.surface is posterior.surface
    assert "store_rows" not in draws.settings


def test_a_second_call_computes_nothing(posterior, finished, monkeypatch):
    store, draws = finished
    monkeypatch.setattr(Work, "compute", forbidden)
    assert_same(sample(posterior, store), draws)


def forbidden(self, job, report=None):
    raise AssertionError("computed although it is stored")


def test_missing_chunks_are_made_and_have_the_same_bits(posterior, finished):
    store, draws = finished
    kept = chunks(store)[0].stat().st_mtime_ns
    chunks(store)[1].unlink()
    assert_same(sample(posterior, store), draws)
    assert chunks(store)[0].stat().st_mtime_ns == kept


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def swap(path: Path) -> None:
    path.write_bytes(path.with_name("chunk_00000.safetensors").read_bytes())


@pytest.mark.parametrize("damage", [flip_a_bit, swap, slow(cut_short), slow(empty)])
def test_damaged_and_swapped_chunks_are_named_and_made_again(posterior, finished, damage):
    store, draws = finished
    damage(chunks(store)[1])
    with pytest.warns(dims.StoreWarning, match="chunk_00001"):
        again = sample(posterior, store)
    assert_same(again, draws)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(sample(posterior, store), draws)


def test_a_chunk_of_another_run_is_not_used(posterior, finished, tmp_path):
    store, draws = finished
    other = tmp_path / "other"
    sample(posterior, other, seed=1)
    chunks(store)[2].write_bytes(chunks(other)[2].read_bytes())
    with pytest.warns(dims.StoreWarning, match="chunk_00002"):
        assert_same(sample(posterior, store), draws)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "seed is 0 there and 1 here"),
        slow({"friction": 2.0}, "friction is 1.0 there and 2.0 here"),
        slow({"max_time": 1.0}, "max_time is 0.2 there and 1.0 here"),
        slow(
            {"friction": dims.ConstantFriction(1.0)}, 'friction is 1.0 there and {"class": "Const'
        ),
        ({"metric": dims.MovingMetric()}, 'metric is "moving" there'),
    ],
)
def test_another_run_is_refused_by_name(posterior, finished, change, named):
    store, _ = finished
    before = {path: path.read_bytes() for path in store.iterdir()}
    with pytest.raises(dims.StoreError, match=named):
        sample(posterior, store, **change)
    assert {path: path.read_bytes() for path in store.iterdir()} == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        slow({"prior": 0.6}, "the prior, the noise or the likelihood changed; train once and load"),
        ({"seed": 1}, "the trained weights changed; train once and load the weights"),
        ({"seed": 1}, ".*`dims init` without --csv does .with --csv it trains again: keep its"),
        slow({"data": 11}, "the training data changed; undo that, or give another folder$"),
        slow({"hidden": 4}, "the layers of the network.* changed, .*; undo that, or give another"),
    ],
)
def test_another_posterior_is_refused_and_what_changed_is_named(finished, change, said):
    store, _ = finished
    with pytest.raises(dims.StoreError, match=f"holds another run: {said}"):
        sample(make_posterior(**change), store)


def test_a_manifest_of_the_first_version_says_that_something_changed(finished):
    store, _ = finished
    manifest = json.loads((store / "manifest.json").read_text())
    old = {**manifest, "version": 1, "count": COUNT}
    del old["parts"], old["draws"]
    (store / "manifest.json").write_text(json.dumps(old))
    with pytest.raises(dims.StoreError, match="the network, its weights or its data changed"):
        sample(make_posterior(seed=1), store)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"max_time": -1.0}, {"max_time": float("nan")}, {"seed": -1}, {"seed": 2**64}),
        *({"tolerance": -1.0}, {"save_at": (3.0,)}, {"solver": "euler"}, {"engine": "spark"}),
    ],
    ids=str,
)
def test_refused_arguments_leave_nothing_behind(posterior, tmp_path, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        sample(posterior, tmp_path / "run", **wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_at_its_first_chunk_leaves_no_manifest(posterior, tmp_path, monkeypatch):
    def refuse(self, job, report=None):
        raise ValueError("my_solver: no such setting")

    with monkeypatch.context() as patch:
        patch.setattr(Work, "compute", refuse)
        with pytest.raises(ValueError, match="my_solver"):
            sample(posterior, tmp_path)
    assert not (tmp_path / "manifest.json").exists()
    assert len(sample(posterior, tmp_path, seed=1)) == COUNT


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "x" * (2**20 + 1), '{"count": 1}'])
def test_a_false_manifest_is_refused(posterior, tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(dims.StoreError, match=str(tmp_path)):
        sample(posterior, tmp_path)
    assert chunks(tmp_path) == []


def test_chunks_without_a_manifest_are_left_alone(posterior, tmp_path):
    (tmp_path / "chunk_00000.safetensors").write_text("mine")
    with pytest.raises(dims.StoreError, match="without a manifest"):
        sample(posterior, tmp_path)


def test_two_processes_do_not_write_at_once(posterior, finished):
    store, draws = finished
    with (store / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(dims.StoreError, match="another process"):
            sample(posterior, store)
    assert_same(sample(posterior, store), draws)


def test_threads_are_those_of_the_manifest_inside_and_the_callers_outside(posterior, tmp_path):
    before = torch.get_num_threads()
    sample(posterior, tmp_path / "run")
    assert torch.get_num_threads() == before
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["threads"] == before


def failing(rows: set[int], even_finer: set[int] = frozenset()):
    """`Work.compute` with draws that stall: at first, or again when they are retried."""
    compute = Work.compute

    def fake(self, job, report=None):
        draws = compute(self, job, report)
        bad = even_finer if job.finer else rows
        status = [
            dims.Status.STALLED if row in bad else status
            for row, status in zip(job.rows, draws.status, strict=True)
        ]
        return replace(draws, status=status)

    return fake


def test_failed_draws_are_kept_and_tried_again_when_asked(posterior, tmp_path, monkeypatch):
    store = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Work, "compute", failing({1, 4, 5}, even_finer={4}))
        first = sample(posterior, store)
        assert failed_rows(first) == [1, 4, 5]
        again = sample(posterior, store, retry_failed=True)
    assert failed_rows(again) == [4]
    fine = [0, 2, 3, 4, 6]  # what did not fail, and what failed again, stays as it was
    assert torch.equal(again.parameters[fine], first.parameters[fine])
    # A tenth of the tolerance: nearby, and more work.
    torch.testing.assert_close(again.parameters, first.parameters, atol=0.05, rtol=0.05)
    assert all(again.evaluations[row] > first.evaluations[row] for row in (1, 5))
    assert sorted(path.name for path in store.glob("retry_*")) == [
        "retry_00000.safetensors",
        "retry_00001.safetensors",
    ]
    monkeypatch.setattr(Work, "compute", forbidden)
    assert_same(sample(posterior, store, retry_failed=True), again)
    assert_same(sample(posterior, store), first)


def test_a_retry_needs_a_store(posterior):
    with pytest.raises(ValueError, match=r"retry_failed: .* give its folder"):
        sample(posterior, None, retry_failed=True)


def test_a_run_goes_on_with_the_threads_it_was_begun_with(posterior, finished):
    store, draws = finished
    manifest = json.loads((store / "manifest.json").read_text())
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    chunks(store)[1].unlink()
    again = sample(posterior, store)
    assert torch.get_num_threads() == before + 1
    torch.set_num_threads(before)
    assert_same(again, draws)
    assert json.loads((store / "manifest.json").read_text()) == manifest


@pytest.mark.parametrize(
    ("there", "here"),
    [("a" * 60 + "x" + "b" * 60, "a" * 60 + "y" + "b" * 60), ([0.1] * 30, [0.1] * 29)],
    ids=["text", "numbers"],
)
def test_long_values_are_told_from_where_they_differ(there, here):
    (told,) = dict(differences._differences("note", there, here)).values()
    one, other = told.removeprefix("note is ").removesuffix(" here").split(" there and ")
    assert one != other
    assert all(len(value) < 45 for value in (one, other))
    assert one.startswith("…")
