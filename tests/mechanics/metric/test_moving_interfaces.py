"""`metric="moving"` through `integrate`, the samplers, settings and files."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from test_store import make_posterior
from torch import Tensor

import dims
import problems
from dims.mechanics.integrate import LONGER_STEPS, resolve_solver

pytestmark = pytest.mark.usefixtures("without_shape_checks")

QUICK = {"friction": 0.5, "max_time": 0.2, "settle": "none", "certify": False}
METRIC = dims.MovingMetric(turn=0.05, rank=4, points=6)


@pytest.fixture(scope="module")
def posterior() -> dims.Posterior:
    return make_posterior()


@pytest.fixture(scope="module")
def draws(posterior) -> dims.Draws:
    return posterior.sample(4, progress=False, metric=METRIC, save_at=(0.05, 0.15), **QUICK)


def start() -> tuple[dims.Surface, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    velocity = torch.randn(3, 2, generator=generator, dtype=torch.float64)
    return problems.two_basins(), torch.tensor([-1.0, 0.0]).double(), velocity


def test_a_name_means_the_default_settings():
    how = {"max_time": 0.5}
    named = dims.integrate(*start(), metric="moving", **how)
    object_ = dims.integrate(*start(), metric=dims.MovingMetric(), **how)
    plain = dims.integrate(*start(), **how)
    assert torch.equal(named.end, object_.end)
    assert (named.end - plain.end).abs().max() > 1e-3
    assert resolve_solver("rattle", None, "moving") == LONGER_STEPS
    assert resolve_solver("rattle", None, dims.MovingMetric()) == LONGER_STEPS
    assert resolve_solver("rattle", 1e-3, "moving") == replace(LONGER_STEPS, tolerance=1e-3)
    assert resolve_solver("rattle", None) == dims.Rattle()
    # A solver object is what it is.
    given = dims.Rattle(tolerance=1e-3)
    assert resolve_solver(given, None, "moving") is given


def test_all_ways_to_ask_for_it_are_the_same(posterior, draws):
    sampler = dims.DiMS(metric=METRIC, save_at=(0.05, 0.15), **QUICK)
    again = posterior.sample(4, sampler, progress=False)
    assert torch.equal(again.parameters, draws.parameters)
    assert again.settings == draws.settings
    plain = posterior.sample(4, progress=False, **QUICK)
    assert (plain.parameters - draws.parameters).abs().max() > 1e-3
    # Draw i depends on (seed, i) alone: the same in chunks of two, to rounding.
    few = posterior.sample(2, sampler, progress=False)
    torch.testing.assert_close(few.parameters, draws.parameters[:2], rtol=1e-6, atol=1e-6)


def test_draws_in_chunks_have_their_own_numbers(posterior, draws, tmp_path):
    """Points are chosen by the number of the draw in the run, not in its chunk."""
    sampler = dims.DiMS(metric=METRIC, save_at=(0.05, 0.15), **QUICK)
    how = {"progress": False, "store": tmp_path / "run", "chunk_size": 2}
    chunked = posterior.sample(4, sampler, **how)
    torch.testing.assert_close(chunked.parameters, draws.parameters, rtol=1e-6, atol=1e-6)


def test_rla_too(posterior):
    moving = posterior.sample(3, "rla", metric="moving", progress=False)
    plain = posterior.sample(3, "rla", progress=False)
    assert all(status.ok for status in moving.status)
    assert (moving.parameters - plain.parameters).abs().max() > 1e-4
    # A geodesic has constant speed in its metric: √(2T) over the time of one.
    speed = (2 * moving.kinetic_energy).sqrt()
    torch.testing.assert_close(moving.metric_length, speed, rtol=1e-2, atol=0)
    assert (plain.metric_length == plain.arc_length).all()


def test_draws_tell_of_the_metric(posterior, draws):
    assert (draws.metric_length >= draws.arc_length * (1 - 1e-9)).all()
    assert not torch.equal(draws.metric_length, draws.arc_length)
    assert (draws.gradient_equivalents > draws.evaluations).all()
    summary = draws.summary()
    assert "length, moving metric" in summary
    assert "with the work of the moving metric" in summary
    assert draws.saved_kinetic_energy.shape == (4, 2)
    # What friction takes between the saved times is taken from E = T + κL.
    energy = draws.saved_kinetic_energy + draws.saved_loss
    assert (energy[:, 1] < energy[:, 0]).all()


def test_files_keep_the_lengths_and_the_costs(posterior, draws, tmp_path):
    draws.save(tmp_path / "draws.safetensors")
    again = dims.load(tmp_path / "draws.safetensors", posterior.surface.module)
    for name in ("metric_length", "gradient_equivalents", "arc_length", "evaluations"):
        assert torch.equal(getattr(again, name), getattr(draws, name)), name
    assert again.settings == draws.settings
    assert dims.DiMS.from_settings(again.settings).metric == METRIC


@pytest.mark.parametrize("kind", [dims.DiMS, dims.RLA])
@pytest.mark.parametrize(
    "metric", ["euclidean", "moving", dims.MovingMetric(turn=3.0, rank=7, flat_curvature=0.2)]
)
def test_settings_survive_json(kind, metric):
    sampler = kind(metric=metric)
    assert kind.from_settings(json.loads(json.dumps(sampler.settings))) == sampler


def test_settings_of_before_mean_the_euclidean_metric():
    for kind in (dims.DiMS, dims.RLA):
        settings = dict(kind().settings)
        del settings["metric"]
        assert kind.from_settings(settings).metric == "euclidean"


@dataclass(frozen=True)
class Plain(dims.Rattle):
    """A solver that was written before there was another metric."""

    any_metric: ClassVar[bool] = False


@pytest.mark.parametrize("metric", ["moving", dims.MovingMetric(rank=3)])
def test_a_solver_without_frames_is_refused(metric):
    message = r"metric: Plain works in the euclidean metric only.*restart"
    with pytest.raises(ValueError, match=message):
        dims.integrate(*start(), solver=Plain(), metric=metric, max_time=0.1)
    for kind in (dims.DiMS, dims.RLA):
        with pytest.raises(ValueError, match=message):
            kind(solver=Plain(), metric=metric)
    path = dims.integrate(*start(), solver=Plain(), max_time=0.1)
    assert path.status == [dims.Status.FINISHED] * 3


def test_the_moving_metric_is_the_default_of_dims():
    assert dims.DiMS().metric == dims.DiMS(metric=None).metric == "moving"
    assert dims.DiMS(solver="dopri5").metric == "moving"
    assert dims.DiMS(solver=Plain()).metric == "euclidean"
    assert dims.RLA().metric == "euclidean"
    with pytest.raises(ValueError, match=r"metric: None is unknown"):
        dims.integrate(*start(), metric=None, max_time=0.1)


@pytest.mark.parametrize("metric", ["riemannian", "Moving", 3])
def test_unknown_metrics_are_refused(metric):
    message = r"metric: .* is unknown; give euclidean, moving or dims.MovingMetric"
    with pytest.raises(ValueError, match=message):
        dims.integrate(*start(), metric=metric, max_time=0.1)
    with pytest.raises(ValueError, match=message):
        dims.DiMS(metric=metric)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("turn", 0.0),
        ("turn", float("nan")),
        ("floor", -1.0),
        ("rank", 0),
        ("rank", 2.5),
        ("points", 0),
        ("flat_curvature", 0.0),
        ("flat_curvature", float("inf")),
        ("sweeps", 0),
        ("seed", -1),
    ],
)
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}: "):
        dims.MovingMetric(**{name: value})


def test_methods_without_trajectories_have_no_metric(posterior):
    with pytest.raises(ValueError, match="metric: it has no meaning for method 'la'"):
        posterior.sample(2, "la", metric="moving", progress=False)
    with pytest.raises(ValueError, match="metric: give it to the sampler itself"):
        posterior.sample(2, dims.DiMS(), metric="moving", progress=False)


@pytest.mark.parametrize("numbers", [[1, 2], [0, 1, -1], [0.5, 1, 2]])
def test_every_row_has_a_number(numbers):
    with pytest.raises(ValueError, match="numbers: "):
        dims.integrate(*start(), metric="moving", numbers=numbers, max_time=0.1)
