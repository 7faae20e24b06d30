"""Several trained networks, from the minimum of each of which draws start in turn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import dims
from dims.commands.pages.predicted import predicted
from dims.curvature import fit_curvature
from dims.sampling.draws.unseen import checked_unseen
from draws_problems import random_inputs

QUICK = {"max_time": 0.5, "progress": False}
FITTED = {"prior_precision": 1.0, "noise_std": 0.5, "tune": "minimum", "progress": False}


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    layers = nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)
    return nn.Sequential(*layers).double()


def rows(count: int = 25) -> tuple[Tensor, Tensor]:
    inputs = random_inputs(count, 3)
    return inputs, inputs[:, :1].sin() + 0.3 * random_inputs(count, 1)


def several(*seeds: int, **options: object) -> dims.Posterior:
    models = [network(seed) for seed in seeds]
    return dims.fit(models, rows(), "regression", **{**FITTED, **options})


def test_each_draw_is_that_of_its_own_network() -> None:
    """Draw i of M networks is draw i of network i mod M alone, up to the rounding of a batch."""
    alone = [
        dims.fit(network(seed), rows(), "regression", **FITTED).sample(7, seed=3, **QUICK)
        for seed in (0, 1, 2)
    ]
    found = several(0, 1, 2).sample(7, seed=3, **QUICK)
    for draw in range(7):
        expected = alone[draw % 3]
        torch.testing.assert_close(found.parameters[draw], expected.parameters[draw])
        torch.testing.assert_close(found.loss[draw], expected.loss[draw])
        assert found.evaluations[draw] == expected.evaluations[draw]


def test_the_others_are_at_minima_under_the_prior_of_the_first() -> None:
    posterior = several(0, 1, prior_precision=None)
    assert len(posterior.others) == 1
    (other,) = posterior.others
    surface = posterior.surface
    _, gradient = surface.value_and_grad(other.map_parameters[None])
    precision = fit_curvature(surface, other.map_parameters).precision_for(surface)
    assert 0.5 * float(gradient[0] @ precision.solve(gradient[0])) < 0.05  # nats
    assert torch.equal(other.gradient, gradient[0])
    assert (other.map_parameters - posterior.map_parameters).norm() > 0.1
    assert "2 networks" in posterior.summary()


def test_a_second_copy_of_the_same_network_adds_draws_of_the_same_minimum() -> None:
    posterior = several(0, 0)
    torch.testing.assert_close(posterior.others[0].map_parameters, posterior.map_parameters)


def test_trained_networks_share_the_weight_of_one() -> None:
    posterior = several(0, 1)
    draws = posterior.sample(4, **QUICK)
    assert draws.mixture is not None
    assert draws.mixture.networks.shape == (2, posterior.surface.size)
    weights = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    only = dims.Draws.from_parameters(posterior.surface, draws.mixture.networks)
    x = random_inputs(6, 3)
    alone = replace(draws, mixture=replace(draws.mixture, weights=weights))
    torch.testing.assert_close(alone.predict(x).mean, only.predict(x).mean)


def test_held_out_rows_weigh_and_are_learnt_by_all() -> None:
    held_out = rows(12)
    posterior = several(0, 1, prior_precision=1.0, validation=held_out, refit=True)
    assert posterior.before is not None
    assert len(posterior.others) == len(posterior.before.others) == 1
    both = torch.cat([rows()[0], held_out[0]]), torch.cat([rows()[1], held_out[1]])
    whole = dims.fit(network(1), both, "regression", **FITTED)
    # The same valley, reached over another minimum.
    here = posterior.others[0].map_parameters
    loss = float(whole.surface.value(here[None])[0])
    assert loss == pytest.approx(float(whole.surface.value(whole.map_parameters[None])[0]), abs=0.1)
    draws = posterior.sample(6, **QUICK)
    assert draws.mixture is not None
    assert draws.mixture.held_out == 12
    assert len(draws.mixture.networks) == 2


def test_draws_of_several_networks_survive_a_store_and_a_file(tmp_path: Path) -> None:
    posterior = several(0, 1)
    whole = posterior.sample(6, **QUICK)
    posterior.sample(3, store=tmp_path / "run", chunk_size=2, **QUICK)
    longer = posterior.sample(6, store=tmp_path / "run", chunk_size=2, **QUICK)
    torch.testing.assert_close(longer.parameters, whole.parameters)
    again = dims.load(tmp_path / "run", network(0))
    assert torch.equal(again.parameters, longer.parameters)
    whole.save(tmp_path / "draws.safetensors")
    read = dims.load(tmp_path / "draws.safetensors", network(5))
    x = random_inputs(6, 3)
    torch.testing.assert_close(read.predict(x).mean, whole.predict(x).mean)
    with pytest.raises(dims.StoreError, match="weights"):
        several(0, 2).sample(6, store=tmp_path / "run", chunk_size=2, **QUICK)


def test_progress_counts_the_draws_of_all_networks() -> None:
    told = []
    several(0, 1, 2).sample(5, max_time=0.5, progress=told.append)
    assert [now.rows for now in told] == [5] * len(told)
    done = [now.done for now in told]
    assert done == sorted(done)
    assert done[-1] == 5


def test_what_belongs_to_one_network_is_refused() -> None:
    posterior = several(0, 1)
    with pytest.raises(ValueError, match="linearised at one"):
        posterior.sample(3, "linla", progress=False)
    with pytest.raises(ValueError, match="parameters: it belongs to one network"):
        several(0, 1, parameters=["2.*"])
    other = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    with pytest.raises(ValueError, match="one architecture"):
        dims.fit([network(0), other], rows(), "regression", **FITTED)
    with pytest.raises(TypeError, match="a list of some"):
        dims.fit([], rows(), "regression", **FITTED)


def test_a_summary_compares_with_all_networks() -> None:
    held_out = rows(12)
    draws = several(0, 1, validation=held_out).sample(6, **QUICK)
    assert "log score against the 2 networks alone" in draws.summary()
    page = predicted(draws, draws.surface.data, checked_unseen(held_out, draws.surface))
    networks = draws.mixture.networks
    alone = dims.Draws.from_parameters(draws.surface, networks).predict(held_out[0])
    expected = alone.metrics(held_out[1])["ensemble"]["nll"]
    shown = {each["method"]: each["nll"] for each in page["scores"]}
    assert shown["network alone"] == pytest.approx(expected, rel=1e-4)
