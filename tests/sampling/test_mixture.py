"""Predictions by the network and several times: averages, stacking, files, and diversity."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

import dims
from dims.prediction.stacking import stack
from draws_problems import draws_of, mlp, problem, random_inputs

TIMES = (1.0, 3.0)


def draws_with_times(kind: str = "two logits") -> tuple[dims.Draws, Tensor]:
    """Draws at two saved times and an end, all different, with the time 10 as their end."""
    surface, new = problem(kind)
    draws = draws_of(surface, rows=4, scale=0.3)
    saved = torch.stack([draws.parameters + 0.5, draws.parameters - 0.4], dim=1)
    numbers = torch.ones(4, 2, dtype=torch.float64)
    settled = dataclasses.replace(
        draws,
        times=torch.tensor(TIMES),
        saved=saved,
        saved_loss=numbers,
        saved_gradient_norm=numbers,
        saved_kinetic_energy=numbers,
        settings={"max_time": 10.0},
    )
    return settled, new


def held_out(draws: dims.Draws, rows: int = 40) -> tuple[Tensor, Tensor]:
    """Targets that the draws at t = 3 would give, so that they deserve the weight."""
    x = random_inputs(rows, 3)
    probabilities = draws.at(3.0).predict(x).mean
    return x, torch.multinomial(probabilities, 1, generator=torch.Generator().manual_seed(0))[:, 0]


def test_the_average_over_times_is_that_of_the_predictives_at_each_time() -> None:
    draws, new = draws_with_times()
    plain = draws.predict(new).mean
    expected = (draws.at(1.0).predict(new).mean + draws.at(3.0).predict(new).mean + plain) / 3
    averaged = draws.across_times()
    torch.testing.assert_close(averaged.predict(new).mean, expected)
    assert torch.equal(averaged.predict(new, weights="equal").mean, plain)
    two = (draws.at(1.0).predict(new).mean + draws.at(10.0).predict(new).mean) / 2
    torch.testing.assert_close(draws.across_times((1.0, 10.0)).predict(new).mean, two)


def test_times_that_were_not_saved_are_refused() -> None:
    draws, _ = draws_with_times()
    with pytest.raises(ValueError, match="were not saved"):
        draws.across_times((2.0,))
    with pytest.raises(ValueError, match="save_at"):
        draws.at(3.0).across_times()


def test_stacking_weighs_network_times_and_end_by_their_log_scores() -> None:
    draws, new = draws_with_times()
    x, y = held_out(draws)
    network = dims.Draws.from_parameters(draws.surface, draws.surface.initial[None])
    groups = [network, draws.at(1.0), draws.at(3.0), draws.at(10.0)]
    scores = torch.cat([group.predict(x).log_scores(y) for group in groups]).T
    labels = ["network"] + [name for name in "abc" for _ in range(4)]
    expected = stack(scores, labels).group_weights
    mixture = draws.stacked((x, y)).mixture
    assert mixture is not None
    assert mixture.held_out == 40
    torch.testing.assert_close(mixture.weights, torch.tensor([*expected.values()]).double())
    assert mixture.weights[2] == mixture.weights.max()
    means = torch.stack([group.predict(new).mean for group in groups])
    predicted = draws.stacked((x, y)).predict(new).mean
    torch.testing.assert_close(predicted, torch.tensordot(mixture.weights, means, dims=1))


def test_weights_of_single_draws_count_within_each_time() -> None:
    draws, new = draws_with_times()
    own = torch.tensor([0.7, 0.1, 0.1, 0.1]).double()
    weighted = dataclasses.replace(draws, weights=own).across_times((1.0, 3.0))
    parts = [draws.at(t).predict(new, weights=own).mean for t in TIMES]
    torch.testing.assert_close(weighted.predict(new).mean, sum(parts) / 2)


def test_chosen_rows_keep_the_weights_of_their_times() -> None:
    draws, new = draws_with_times()
    chosen = draws.across_times().select([0, 2])
    expected = [part.select([0, 2]).predict(new).mean for part in (draws.at(1.0), draws.at(3.0))]
    expected.append(draws.select([0, 2]).predict(new).mean)
    torch.testing.assert_close(chosen.predict(new).mean, sum(expected) / 3)


def test_linearised_draws_are_weighed_with_the_network() -> None:
    surface, new = problem("one output")
    draws = draws_of(surface, method="linla", rows=3)
    stacked = draws.stacked((random_inputs(20, 3), random_inputs(20, 1)))
    assert stacked.mixture is not None
    first, last = stacked.mixture.weights.tolist()
    network = surface.predict(surface.initial[None], new)[0]
    expected = first * network + last * draws.predict(new).mean
    torch.testing.assert_close(stacked.predict(new).mean, expected)


def test_a_file_keeps_the_mixture(tmp_path: Path) -> None:
    draws, new = draws_with_times()
    stacked = draws.stacked(held_out(draws))
    stacked.save(tmp_path / "draws.safetensors")
    loaded = dims.load(tmp_path / "draws.safetensors", model=mlp(3, 2))
    assert loaded.mixture is not None
    assert stacked.mixture is not None
    assert torch.equal(loaded.mixture.weights, stacked.mixture.weights)
    assert (loaded.mixture.held_out, loaded.mixture.gain) == (40, stacked.mixture.gain)
    assert torch.equal(loaded.predict(new).mean, stacked.predict(new).mean)


@pytest.mark.parametrize("damage", ["no tensor", "bad weights", "bad header"])
def test_a_damaged_mixture_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "draws.safetensors"
    draws, _ = draws_with_times()
    draws.across_times().save(path)
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    if damage == "no tensor":
        del tensors["mixture_network"]
    elif damage == "bad weights":
        tensors["mixture_weights"] = tensors["mixture_weights"][1:]
    else:
        (key,) = [k for k, v in metadata.items() if v.startswith("{")]
        metadata[key] = json.dumps(json.loads(metadata[key]) | {"mixture": {"held_out": -1}})
    save_file(tensors, path, metadata)
    with pytest.raises(dims.DrawsFileError, match="mixture"):
        dims.load(path, model=mlp(3, 2))


def small_posterior(**options: object) -> dims.Posterior:
    surface, _ = problem("one output")
    given = {"prior_precision": 1.0, "noise_std": 2.0, "refine": True}
    return dims.fit(mlp(3, 1), tuple(surface.data), "regression", **(given | options))


def test_held_out_rows_of_a_posterior_weigh_its_draws() -> None:
    rows = (random_inputs(15, 3), random_inputs(15, 1))
    posterior = small_posterior(validation=rows)
    assert "15 held-out rows" in posterior.summary()
    draws = posterior.sample(2, max_time=0.5, certify=False, progress=False)
    assert draws.times.tolist() == pytest.approx([0.5 / 3])
    assert draws.mixture is not None
    network = posterior.surface.initial
    assert torch.equal(draws.mixture.network, network)
    assert not torch.equal(posterior.map_parameters, network)
    summary = draws.summary()
    assert "weights: by 15 held-out rows: network 0." in summary
    assert "cross-validated" in summary
    # A sampler object decides its own times.
    own = posterior.sample(2, dims.DiMS(max_time=0.1, certify=False), progress=False)
    assert len(own.times) == 0
    assert own.mixture is not None
    assert len(own.mixture.weights) == 2


def test_without_held_out_rows_nothing_changes() -> None:
    posterior = small_posterior()
    draws = posterior.sample(2, max_time=0.1, certify=False, progress=False)
    assert draws.mixture is None
    assert len(draws.times) == 0
    assert "no held-out rows" in posterior.summary()
    assert "all draws count alike" in draws.summary()


def test_a_fraction_is_refused_because_the_network_has_seen_it() -> None:
    with pytest.raises(ValueError, match="has already seen all of it"):
        small_posterior(validation=0.2)
    with pytest.raises(ValueError, match="targets"):
        small_posterior(validation=(random_inputs(15, 3), random_inputs(15, 2)))


def test_draws_that_cannot_be_weighed_are_not_lost() -> None:
    far = torch.full((3, 1), 1e200, dtype=torch.float64)  # no density under any draw
    posterior = small_posterior(validation=(random_inputs(3, 3), far))
    with pytest.warns(dims.StackingWarning, match="no density"):
        draws = posterior.sample(2, "la")
    assert len(draws) == 2
    assert draws.mixture is None


def test_a_time_that_is_no_number_is_named_where_rows_weigh_times(unchecked: None) -> None:
    posterior = small_posterior(validation=(random_inputs(3, 3), random_inputs(3, 1)))
    with pytest.raises(TypeError, match="max_time: expected a number"):
        posterior.sample(2, max_time="3")


def test_diversity_is_the_share_of_disagreement() -> None:
    surface, new = problem("one output")
    draws = draws_of(surface, rows=5)
    outputs = draws.predict(new).samples
    epistemic = outputs.var(dim=0, correction=0).mean()
    found = draws.diversity(new)
    assert found.on_data == pytest.approx(float(epistemic / (epistemic + 0.3**2)))
    assert 0 < found.far < 1
    assert "disagreement of draws: " in draws.summary()
    assert "answer as one" not in draws.summary()


@pytest.mark.parametrize("kind", ["one output", "four classes"])
def test_draws_that_collapsed_into_one_are_named(kind: str) -> None:
    surface, _ = problem(kind)
    draws = draws_of(surface, rows=12, scale=1e-4)
    assert draws.diversity().collapsed
    assert "the draws answer as one" in draws.summary()
    assert "across_times" in draws.summary()
