"""Weights of draws: kept in files, selections and joins, shown, and used by predictions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

import dims
from dims.sampling.draws import storage
from dims.sampling.store.chunks import join
from draws_problems import assert_same, draws_of, mlp, problem

WEIGHTS = torch.tensor([0.1, 0.0, 0.4, 0.3, 0.2], dtype=torch.float64)


def weighted(kind: str = "one output", **fields: Any) -> tuple[dims.Draws, Tensor]:
    surface, x = problem(kind)
    return replace(draws_of(surface), weights=WEIGHTS, **fields), x


@pytest.mark.parametrize("kind", ["three outputs", "one logit", "four classes"])
def test_predictions_use_the_weights_of_the_draws(kind: str) -> None:
    draws, x = weighted(kind)
    p = draws.predict(x)
    torch.testing.assert_close(p.mean, torch.einsum("s,snc->nc", WEIGHTS, p.samples))
    equal = draws.predict(x, weights="equal")
    assert equal.weights is None
    assert torch.equal(equal.mean, replace(draws, weights=None).predict(x).mean)
    other = WEIGHTS.flip(0)
    torch.testing.assert_close(
        draws.predict(x, weights=other).mean, torch.einsum("s,snc->nc", other, p.samples)
    )
    with pytest.raises(ValueError, match="weights: 'even' is unknown; give 'equal'"):
        draws.predict(x, weights="even")


def test_files_keep_weights(tmp_path: Path) -> None:
    draws, x = weighted()
    draws.save(tmp_path / "run")
    loaded = dims.load(tmp_path / "run", mlp(3, 1, seed=9))
    assert_same(loaded, draws)
    assert torch.equal(loaded.predict(x).mean, draws.predict(x).mean)
    plain = replace(draws, weights=None)
    plain.save(tmp_path / "plain")
    with safe_open(tmp_path / "plain", framework="pt") as file:
        assert "weights" not in file.keys()  # noqa: SIM118
    assert dims.load(tmp_path / "plain", mlp(3, 1)).weights is None


@pytest.mark.parametrize("bad", [torch.ones(5), -WEIGHTS, WEIGHTS[:4], torch.full((5,), torch.nan)])
def test_weights_of_a_file_are_checked(bad: Tensor, tmp_path: Path) -> None:
    weighted()[0].save(tmp_path / "run")
    header, tensors = storage.read(tmp_path / "run")
    storage.write(tmp_path / "bad", {**tensors, "weights": bad}, header, overwrite=False)
    with pytest.raises(dims.DrawsFileError, match="bad: tensor 'weights' cannot be used: weights:"):
        dims.load(tmp_path / "bad", mlp(3, 1))


def test_a_selection_divides_weights_by_their_sum() -> None:
    draws, _ = weighted()
    assert draws.select([2, 4]).weights.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert draws.select(draws.weights > 0.1).weights.tolist() == pytest.approx(
        [4 / 9, 3 / 9, 2 / 9]
    )
    assert draws.select([2, 2]).weights.tolist() == [0.5, 0.5]
    assert draws.select([1]).weights is None  # a draw of weight 0 alone is that draw
    assert draws.select([]).weights is None
    assert replace(draws, weights=None).select([0, 1]).weights is None


def test_joined_draws_count_by_their_number() -> None:
    draws, _ = weighted()
    plain = replace(draws, weights=None)
    assert join([plain, plain]).weights is None
    both = join([draws, plain.select([0, 1, 2])])
    assert both.weights.tolist() == pytest.approx([*(5 / 8 * WEIGHTS).tolist(), *[1 / 8] * 3])
    # Parts of a weighted set, with the weights they had, are the set again.
    assert both.select(slice(0, 5)).weights.tolist() == pytest.approx(WEIGHTS.tolist())


def test_saved_times_have_no_weights() -> None:
    rows, size = 5, problem("one output")[0].size
    saved = torch.zeros(rows, 1, size, dtype=torch.float64)
    each = torch.zeros(rows, 1, dtype=torch.float64)
    draws, _ = weighted(
        times=torch.tensor([3.0], dtype=torch.float64),
        saved=saved,
        saved_loss=each,
        saved_gradient_norm=each,
        saved_kinetic_energy=each,
        settings={"max_time": 50.0},
    )
    assert draws.at(3.0).weights is None
    assert torch.equal(draws.at(50.0).weights, WEIGHTS)


def test_the_summary_shows_weights() -> None:
    draws, _ = weighted()
    expected = 1 / (0.01 + 0.16 + 0.09 + 0.04)
    assert f"as good as {expected:.1f} draws that count alike; the largest 0.4" in draws.summary()
    assert "weights: all draws count alike" in replace(draws, weights=None).summary()


def test_weights_are_in_the_datatree() -> None:
    pytest.importorskip("arviz_base")
    draws, _ = weighted()
    found = draws.to_datatree()["sample_stats/weights"].values
    assert found.tolist() == [WEIGHTS.tolist()]
    assert "weights" not in replace(draws, weights=None).to_datatree()["sample_stats"]


def test_bad_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="weights: they sum to 5, not 1"):
        replace(weighted()[0], weights=torch.ones(5))
