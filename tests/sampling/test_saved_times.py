"""Positions at saved times: where they are, and that nothing loses them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_store import assert_same, failing, make_posterior
from test_store_checkpoint import PARTIAL, Stop

import dims
from dims.sampling.draws.fields import SAVED_TENSORS
from dims.sampling.engine import Work
from draws_problems import assert_same as assert_all_same

TIMES = (0.1, 0.3)
SAMPLER = dims.DiMS(friction=1.0, max_time=0.5, save_at=TIMES, settle="stiff", metric="euclidean")


@pytest.fixture(scope="module")
def posterior() -> dims.Posterior:
    return make_posterior()


@pytest.fixture(scope="module")
def draws(posterior) -> dims.Draws:
    return posterior.sample(5, SAMPLER, seed=1, progress=False)


def assert_saved_same(one: dims.Draws, other: dims.Draws) -> None:
    for name in ("times", *SAVED_TENSORS):
        assert torch.equal(getattr(one, name), getattr(other, name)), name


def path_of(posterior: dims.Posterior) -> dims.Trajectories:
    """The same trajectories by `integrate`."""
    start = dims.sampling.samplers.Start(
        posterior.surface, posterior.map_parameters, posterior.gradient
    )
    velocity = start.velocities(posterior.perturbations(5, seed=1), preconditioned=True)
    return dims.integrate(
        posterior.surface, posterior.map_parameters, velocity,
        dynamics=dims.dissipative(1.0, 1.0), max_time=0.5, save_at=(*TIMES, 0.5),
    )  # fmt: skip


def test_saved_positions_are_those_of_the_trajectory(posterior, draws):
    path = path_of(posterior)
    assert draws.times.tolist() == list(TIMES)
    assert draws.saved.shape == (5, 2, posterior.surface.size)
    assert draws.saved_loss.shape == draws.saved_gradient_norm.shape == (5, 2)
    for place, time in enumerate(TIMES):
        there = draws.at(time)
        assert torch.equal(there.parameters, path.positions[place])
        loss, gradient = posterior.surface.value_and_grad(path.positions[place])
        torch.testing.assert_close(there.loss, loss)
        torch.testing.assert_close(there.gradient_norm, gradient.norm(dim=-1))
    # Settling belongs to the end: what is passed on the way is as it was.
    settled = dims.settle(posterior.surface, path.positions[-1]).positions
    assert torch.equal(draws.parameters, settled)
    assert torch.equal(draws.kinetic_energy, path.kinetic_energy[-1])


def test_draws_at_a_time_are_draws(draws, posterior):
    there = draws.at(0.3)
    for name in ("smallest_eigenvalue", "displacement", "energy_violation", "arc_length"):
        assert getattr(there, name).isnan().all()
    assert torch.equal(there.kinetic_energy, draws.saved_kinetic_energy[:, 1])
    assert there.evaluations.tolist() == [0] * 5
    assert there.status == draws.status
    assert there.settings == draws.settings
    assert there.seed == 1
    assert there.times.tolist() == []
    assert there.verdict is None
    x = torch.linspace(-2, 2, 5, dtype=torch.float64).unsqueeze(-1)
    expected = posterior.surface.predict(draws.saved[:, 1], x)
    torch.testing.assert_close(there.predict(x).samples, expected)
    assert "5 draws by 'dims'" in there.summary()


def test_the_end_is_the_delivered_draws_unless_it_was_saved(posterior, draws):
    assert torch.equal(draws.at(0.5).parameters, draws.parameters)
    assert torch.equal(draws.at(0.5).loss, draws.loss)
    ended = posterior.sample(
        5, max_time=0.5, friction=1.0, save_at=(0.5,), settle="stiff", seed=1, progress=False
    )
    assert ended.times.tolist() == [0.5]
    # At the saved end the particle has not been settled.
    assert (ended.at(0.5).gradient_norm > ended.gradient_norm).all()
    begun = posterior.sample(3, max_time=0.5, save_at=(0.0,), certify=False, progress=False)
    assert torch.equal(begun.at(0.0).parameters, posterior.map_parameters.expand(3, -1))


def test_unknown_times_are_refused_and_the_known_ones_listed(draws, posterior):
    with pytest.raises(ValueError, match=r"time: 0.2 was not saved; saved times: 0.1, 0.3"):
        draws.at(0.2)
    with pytest.raises(ValueError, match=r"saved times: none; give save_at"):
        posterior.sample(2, "la", progress=False).at(1.0)


def test_selection_files_and_summaries_keep_saved_times(draws, posterior, tmp_path):
    chosen = draws.select([3, 1])
    assert torch.equal(chosen.saved, draws.saved[[3, 1]])
    assert torch.equal(chosen.at(0.1).loss, draws.saved_loss[[3, 1], 0])
    draws.save(tmp_path / "run")
    loaded = dims.load(tmp_path / "run", posterior.surface.module)
    assert_all_same(loaded, draws)
    assert_saved_same(loaded, draws)
    low, high = draws.saved_loss.median(0).values.tolist()
    assert f"saved at t = 0.1: median loss {low:.4g}" in draws.summary()
    assert f"saved at t = 0.3: median loss {high:.4g}" in draws.summary()
    tree = draws.to_datatree()
    assert tree["posterior/saved"].dims == ("chain", "draw", "time", "parameter")
    np.testing.assert_array_equal(tree["posterior/saved"].values[0], draws.saved.numpy())
    np.testing.assert_array_equal(tree["posterior/saved"]["time"].values, TIMES)
    loss = tree["sample_stats/saved_loss"]
    assert loss.dims == ("chain", "draw", "time")
    np.testing.assert_array_equal(loss.values[0], draws.saved_loss.numpy())


def test_a_file_without_saved_times_has_none_of_their_tensors(posterior, tmp_path):
    from dims.sampling.draws.storage import read

    posterior.sample(2, "la", progress=False).save(tmp_path / "run")
    assert not {"times", *SAVED_TENSORS} & set(read(tmp_path / "run")[1])


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("saved", torch.zeros(5, 3, 10).double()),
        ("saved", torch.zeros(5, 2, 10)),
        ("saved_loss", torch.zeros(5).double()),
        ("times", torch.zeros(2, 1).double()),
        ("saved_gradient_norm", None),
    ],
)
def test_a_file_with_false_saved_tensors_is_refused(draws, posterior, tmp_path, name, tensor):
    from dims.sampling.draws.storage import read, write

    draws.save(tmp_path / "run")
    header, tensors = read(tmp_path / "run")
    tensors = {k: v for k, v in tensors.items() if k != name}
    tensors |= {} if tensor is None else {name: tensor}
    write(tmp_path / "run", tensors, header, overwrite=True)
    with pytest.raises(dims.DrawsFileError, match=name):
        dims.load(tmp_path / "run", posterior.surface.module)


@pytest.mark.usefixtures("unchecked")
def test_false_saved_fields_are_named(draws):
    from dataclasses import replace

    with pytest.raises(ValueError, match=r"saved: expected shape \(5, 2, 10\), got \(5, 1, 10\)"):
        replace(draws, saved=draws.saved[:, :1])
    with pytest.raises(ValueError, match=r"times: expected shape \(times,\)"):
        replace(draws, times=draws.times[None])
    with pytest.raises(ValueError, match=r"saved_loss: expected shape \(5, 2\), got \(0,\)"):
        replace(draws, saved_loss=torch.empty(0).double())


@pytest.mark.slow
def test_stores_and_retries_keep_saved_times(posterior, tmp_path, monkeypatch):
    kept = {"store": tmp_path / "run", "chunk_size": 2, "seed": 1, "progress": False}
    with monkeypatch.context() as patch:
        patch.setattr(Work, "compute", failing({1, 4}))
        first = posterior.sample(5, SAMPLER, **kept)
        again = posterior.sample(5, SAMPLER, **kept, retry_failed=True)
    assert first.saved.shape == again.saved.shape == (5, 2, posterior.surface.size)
    fine = [0, 2, 3]
    assert torch.equal(again.saved[fine], first.saved[fine])
    assert not torch.equal(again.saved[[1, 4]], first.saved[[1, 4]])
    torch.testing.assert_close(again.saved, first.saved, atol=0.02, rtol=0.02)
    found = posterior.sample(5, SAMPLER, **kept)
    assert_same(found, first)
    assert_saved_same(found, first)


def test_a_chunk_that_is_stopped_keeps_what_it_saved(posterior, tmp_path, monkeypatch):
    monkeypatch.setattr("dims.sampling.store.checkpoint.EVERY", 0.0)
    monkeypatch.setattr("dims.sampling.store.checkpoint.LARGEST_SHARE", float("inf"))
    sampler = dims.DiMS(0.3, max_time=2.0, save_at=(0.2, 1.5), settle="none", certify=False)
    whole = Stop(-1)
    draws = posterior.sample(5, sampler, store=tmp_path / "quiet", progress=whole)
    with pytest.raises(KeyboardInterrupt):
        posterior.sample(5, sampler, store=tmp_path / "run", progress=Stop(whole.seen // 2))
    assert (tmp_path / "run" / PARTIAL).exists()
    again = posterior.sample(5, sampler, store=tmp_path / "run", progress=False)
    assert_same(again, draws)
    assert_saved_same(again, draws)


def test_draws_of_given_parameters(posterior):
    thetas = posterior.map_parameters + posterior.perturbations(4)
    draws = dims.Draws.from_parameters(posterior.surface, thetas)
    la = posterior.sample(4, "la", progress=False)
    assert draws.method == "given"
    assert torch.equal(draws.map_parameters, posterior.surface.initial)
    assert torch.equal(draws.loss, la.loss)
    assert torch.equal(draws.gradient_norm, la.gradient_norm)
    x = torch.linspace(-2, 2, 5, dtype=torch.float64).unsqueeze(-1)
    torch.testing.assert_close(draws.predict(x).samples, la.predict(x).samples)
    named = dims.Draws.from_parameters(
        posterior.surface, thetas, "linla", posterior.map_parameters, measure=False
    )
    assert named.loss.isnan().all()
    assert named.linearised
    with pytest.raises(ValueError, match=r"parameters: expected shape \(draws, 10\)"):
        dims.Draws.from_parameters(posterior.surface, thetas[:, :3])


def test_a_network_without_data_cannot_measure(posterior, tmp_path):
    posterior.sample(2, "la", progress=False).save(tmp_path / "run")
    alone = dims.load(tmp_path / "run", posterior.surface.module)
    with pytest.raises(TypeError, match="surface: it has no training data to measure on"):
        dims.Draws.from_parameters(alone.surface, alone.parameters)
    draws = dims.Draws.from_parameters(alone.surface, alone.parameters, measure=False)
    assert len(draws) == 2
