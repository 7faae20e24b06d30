"""A chunk that is stopped in the middle goes on there, with the same bits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from old_problem import Stop
from test_store import COUNT, assert_same, make_posterior, sample

import dims
from cases import first
from dims.sampling.draws.storage import read, write

PARTIAL = "partial_00000.safetensors"


@pytest.fixture(scope="module")
def posterior() -> dims.Posterior:
    return make_posterior()


@pytest.fixture(autouse=True)
def _at_every_look(monkeypatch) -> None:
    monkeypatch.setattr("dims.sampling.store.checkpoint.EVERY", 0.0)
    monkeypatch.setattr("dims.sampling.store.checkpoint.LARGEST_SHARE", float("inf"))


def run(posterior: dims.Posterior, store: Path, stop: Stop, **more) -> dims.Draws:
    how = {"friction": 0.3, "max_time": 2.0, "settle": "none", "certify": False} | more
    return posterior.sample(COUNT, store=store, chunk_size=COUNT, progress=stop, **how)


def stopped(posterior: dims.Posterior, store: Path, at: int, **more) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(posterior, store, Stop(at), **more)


@pytest.mark.parametrize("how", first([{}, {"solver": "dopri5"}, {"tolerance": 1e-3}]), ids=str)
def test_a_chunk_goes_on_where_it_stopped_with_the_same_bits(posterior, tmp_path, how):
    whole = Stop(-1)
    draws = run(posterior, tmp_path / "quiet", whole, **how)
    store = tmp_path / "stopped"
    half = whole.seen // 2
    assert half >= 3
    stopped(posterior, store, half, **how)
    assert (store / PARTIAL).exists()
    rest = Stop(-1)
    again = run(posterior, store, rest, **how)
    assert_same(again, draws)
    for name in ("energy_violation", "energy_balance", "arc_length", "kinetic_energy"):
        assert torch.equal(getattr(again, name), getattr(draws, name)), name
    # The report that stopped it came before its state was kept, hence one more.
    assert rest.seen <= whole.seen - half + 2
    assert not (store / PARTIAL).exists()


def test_stopped_again_and_again_it_still_ends(posterior, tmp_path):
    whole = Stop(-1)
    draws = run(posterior, tmp_path / "quiet", whole)
    assert whole.seen >= 10  # twice stopped
    for _ in range(whole.seen // 5):
        stopped(posterior, tmp_path / "stopped", 5)
    assert_same(run(posterior, tmp_path / "stopped", Stop(-1)), draws)


def damaged(store: Path) -> None:
    content = bytearray((store / PARTIAL).read_bytes())
    content[-3] ^= 1
    (store / PARTIAL).write_bytes(content)


def of_another_run(store: Path) -> None:
    text, tensors = read(store / PARTIAL)
    other = json.loads(text) | {"run": "0" * 64}
    write(store / PARTIAL, tensors, json.dumps(other), overwrite=True)


def without_a_tensor(store: Path) -> None:
    text, tensors = read(store / PARTIAL)
    del tensors["state.velocity"]
    write(store / PARTIAL, tensors, text, overwrite=True)


def with_false_rows(store: Path) -> None:
    text, tensors = read(store / PARTIAL)
    tensors["rows"] += 2**40
    write(store / PARTIAL, tensors, text, overwrite=True)


def with_false_lengths(store: Path) -> None:
    text, tensors = read(store / PARTIAL)
    tensors["page_lengths"] *= -1
    write(store / PARTIAL, tensors, text, overwrite=True)


def a_link(store: Path) -> None:
    (store / PARTIAL).rename(store.parent / "outside")
    (store / PARTIAL).symlink_to(store.parent / "outside")


RARE = [without_a_tensor, with_false_rows, with_false_lengths, a_link]


@pytest.mark.parametrize(
    "harm",
    first([damaged, of_another_run, *RARE]),
)
def test_a_false_state_is_named_and_not_used(posterior, tmp_path, harm):
    draws = run(posterior, tmp_path / "quiet", Stop(-1))
    store = tmp_path / "stopped"
    stopped(posterior, store, 4)
    harm(store)
    with pytest.warns(dims.StoreWarning, match=f"{PARTIAL}.*starts anew"):
        assert_same(run(posterior, store, Stop(-1)), draws)


def test_a_state_that_cannot_be_kept_does_not_stop_the_run(posterior, tmp_path, monkeypatch):
    def no_space(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dims.sampling.store.checkpoint.write", no_space)
    with pytest.warns(dims.StoreWarning, match="No space left on device.*goes on without") as seen:
        draws = sample(posterior, tmp_path / "run")
    assert len(seen) == 3  # once a chunk
    assert len(draws) == COUNT


def test_a_worker_that_does_not_see_the_store_does_without(posterior, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "dims.sampling.store.checkpoint.FileCheckpoint._sees_the_store", lambda _: False
    )
    stopped(posterior, tmp_path / "run", 4)
    assert not (tmp_path / "run" / PARTIAL).exists()
