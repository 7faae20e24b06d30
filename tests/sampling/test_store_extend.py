"""A run that is there gets more draws: what was computed stays, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from test_store import chunks, make_posterior

import dims
from cases import first, slow
from dims.sampling.engine import Work
from dims.sampling.store.chunks import jobs_of
from dims.sampling.store.manifest import extended

pytestmark = pytest.mark.usefixtures("without_shape_checks")


@pytest.fixture(scope="module")
def posterior() -> dims.Posterior:
    return make_posterior()


def sample(posterior: dims.Posterior, draws: int, store: Path, **more) -> dims.Draws:
    how = {"friction": 1.0, "max_time": 0.5, "settle": "none", "certify": False} | more
    return posterior.sample(draws, store=store, chunk_size=3, progress=False, **how)


def contents(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (*chunks(store), store / "manifest.json")}


def counted(monkeypatch) -> list[int]:
    """The rows that are computed from now on."""
    rows: list[int] = []
    compute = Work.compute

    def count(self, job, report=None):
        rows.extend(job.rows)
        return compute(self, job, report)

    monkeypatch.setattr(Work, "compute", count)
    return rows


@pytest.mark.parametrize(("first", "more", "ends"), [(4, 6, [4, 6]), slow(3, 7, [7])])
def test_a_finished_run_gets_more_draws(posterior, tmp_path, monkeypatch, first, more, ends):
    few = sample(posterior, first, tmp_path)
    before = contents(tmp_path)
    rows = counted(monkeypatch)
    many = sample(posterior, more, tmp_path)
    assert rows == list(range(first, more))
    assert torch.equal(many.parameters[:first], few.parameters)
    after = contents(tmp_path)
    assert all(after[name] == before[name] for name in before if name != "manifest.json")
    assert json.loads(after["manifest.json"])["draws"] == ends
    # The same as all at once: to rounding where a chunk was cut, else byte for byte.
    whole = sample(posterior, more, tmp_path / "whole")
    torch.testing.assert_close(many.parameters, whole.parameters)
    assert (contents(tmp_path / "whole") == after) == (ends == [more])


def test_fewer_draws_are_the_first_ones(posterior, tmp_path, monkeypatch):
    many = sample(posterior, 7, tmp_path)
    before = contents(tmp_path)
    rows = counted(monkeypatch)
    few = sample(posterior, 5, tmp_path)
    assert (len(few), rows) == (5, [])
    assert torch.equal(few.parameters, many.parameters[:5])
    assert contents(tmp_path) == before


def test_an_extension_of_a_cut_chunk_is_extended_again(posterior, tmp_path):
    for draws in (4, 5, 9):
        made = sample(posterior, draws, tmp_path)
    assert json.loads((tmp_path / "manifest.json").read_text())["draws"] == [4, 5, 9]
    chunks(tmp_path)[2].unlink()
    assert torch.equal(sample(posterior, 9, tmp_path).parameters, made.parameters)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_extensions_never_move_a_chunk(size):
    """Whatever the stages: the chunks of before stay, and every draw is in exactly one."""
    ends = [4]
    for draws in (5, 6, 11, 20, 21):
        before = [job.rows for job in jobs_of(ends, size)]
        ends = extended(ends, draws, size)
        after = [job.rows for job in jobs_of(ends, size)]
        assert after[: len(before)] == before
        assert [row for rows in after for row in rows] == list(range(draws))
        assert max(map(len, after)) <= size


@pytest.mark.parametrize("draws", first([[7, 5], [], [0], [7.0], [True], 7, None, "7", [[7]]], 2))
def test_a_false_number_of_draws_is_refused(posterior, tmp_path, draws):
    sample(posterior, 3, tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text()) | {"draws": draws}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(dims.StoreError, match="no number of draws"):
        sample(posterior, 3, tmp_path)
