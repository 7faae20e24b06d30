"""Sampler objects: the contract, a sampler of a stranger, shortcuts, and old arguments."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from test_store import make_posterior
from torch import Tensor

import dims
from cases import slow
from conformance.samplers import check_sampler
from dims.mechanics.dynamics import ConstantFriction
from dims.sampling.samplers import SAMPLERS, TrajectorySampler

SHORT = {"friction": 1.0, "max_time": 0.5}
QUICK = {**SHORT, "settle": "none", "certify": False}


@pytest.fixture(scope="module")
def posterior() -> dims.Posterior:
    return make_posterior()


@dataclass(frozen=True)
class Tempered(dims.Sampler):
    """As a stranger would write it: wider or narrower Laplace draws."""

    name: ClassVar[str] = "tempered"
    temperature: float = 2.0
    signs: tuple[float, ...] = (1.0, -1.0)

    def draw(self, start, perturbations, progress=None) -> dict[str, Any]:
        thetas = start.position + self.signs[0] * self.temperature**0.5 * perturbations
        return {"parameters": thetas, **start.measure(thetas)}


@dataclass(frozen=True)
class QuadraticFriction:
    """η = c·T, a friction that dims does not have; its flow is v = v₀/√(1 + 2cT₀t)."""

    coefficient: float

    def rate(self, kinetic: Tensor) -> Tensor:
        return self.coefficient * kinetic

    def decay(self, kinetic: Tensor, time: Tensor) -> Tensor:
        return 1 / (1 + 2 * self.coefficient * kinetic * time).sqrt()

    def power(self, kinetic: Tensor) -> Tensor:
        return 2 * self.coefficient * kinetic.square()

    def power_slope(self, kinetic: Tensor) -> Tensor:
        return 4 * self.coefficient * kinetic


@pytest.mark.parametrize(
    "sampler",
    [
        dims.LA(),
        dims.LinLA(),
        slow(dims.RLA()),
        dims.RLA(max_time=0.2, solver=dims.Dopri5(tolerance=1e-5), save_at=(0.1, 0.2)),
        slow(dims.DiMS(**SHORT)),
        dims.DiMS(friction=ConstantFriction(0.5), max_time=0.2, save_at=(0.0, 0.1)),
        slow(dims.DiMS(friction=QuadraticFriction(0.5), max_time=0.2, solver=dims.Rattle(1e-3))),
        Tempered(),
    ],
    ids=str,
)
@pytest.mark.usefixtures("unchecked")
def test_every_sampler_keeps_the_contract(sampler):
    check_sampler(sampler)


def test_the_contract_finds_what_is_wrong():
    class Idle(Tempered):
        def draw(self, start, perturbations, progress=None) -> dict[str, Any]:
            return {"parameters": start.position + 0 * perturbations}

    class Mixed(Tempered):
        def draw(self, start, perturbations, progress=None) -> dict[str, Any]:
            return {"parameters": start.position + perturbations - perturbations.mean(0)}

    with pytest.raises(AssertionError, match="do not depend on the seed"):
        check_sampler(Idle())
    with pytest.raises(AssertionError, match="draw i depends on other draws"):
        check_sampler(Mixed())


def test_a_sampler_from_outside_works_with_stores_files_and_predictions(posterior, tmp_path):
    draws = posterior.sample(4, Tempered(4.0), seed=1, progress=False)
    expected = posterior.map_parameters + 2 * posterior.perturbations(4, seed=1)
    torch.testing.assert_close(draws.parameters, expected, rtol=0, atol=0)
    assert draws.method == "tempered"
    assert draws.settings == {"temperature": 4.0, "signs": [1.0, -1.0]}
    kept = {"store": tmp_path / "run", "chunk_size": 2, "seed": 1, "progress": False}
    stored = posterior.sample(4, Tempered(4.0), **kept)
    assert torch.equal(stored.parameters, draws.parameters)
    with pytest.raises(dims.StoreError, match=r"temperature is 4.0 there and 3.0 here"):
        posterior.sample(4, Tempered(3.0), **kept)
    assert posterior.sample(4, Tempered(4.0), **kept, retry_failed=True).status == [None] * 4


def test_strings_are_shortcuts_for_the_same_objects(posterior):
    for method, keywords, sampler in (
        ("la", {}, dims.LA()),
        ("linla", {}, dims.LinLA()),
        ("rla", {"max_time": 0.5, "precondition": False}, dims.RLA(0.5, False)),
        ("dims", {**QUICK, "gravity": 2.0}, dims.DiMS(1.0, 2.0, 0.5, settle="none", certify=False)),
        ("dims", {**QUICK, "save_at": (0.2,)}, dims.DiMS(**QUICK, save_at=(0.2,))),
    ):
        by_name = posterior.sample(3, method, progress=False, **keywords)
        by_object = posterior.sample(3, sampler, progress=False)
        assert torch.equal(by_name.parameters, by_object.parameters)
        assert by_name.settings == by_object.settings
        assert by_name.method == by_object.method == method == sampler.name
    assert list(SAMPLERS) == ["la", "linla", "rla", "dims"]


def test_what_integrate_takes_sample_takes(posterior):
    """Against `integrate` itself, with a friction and a solver of the caller's own."""
    friction, solver = QuadraticFriction(0.7), dims.Rattle(tolerance=1e-3)
    motion = {"solver": solver, "metric": "euclidean", "settle": "none", "certify": False}
    sampler = dims.DiMS(friction, 2.0, 0.5, **motion)
    draws = posterior.sample(3, sampler, progress=False)
    start = dims.sampling.samplers.Start(
        posterior.surface, posterior.map_parameters, posterior.gradient
    )
    path = dims.integrate(
        posterior.surface,
        posterior.map_parameters,
        start.velocities(posterior.perturbations(3), preconditioned=True),
        dynamics=dims.Dynamics(2.0, friction),
        solver=solver,
        max_time=0.5,
    )
    assert torch.equal(draws.parameters, path.end)
    assert draws.settings["friction"] == {"class": "QuadraticFriction", "coefficient": 0.7}
    assert draws.settings["solver"]["class"] == "Rattle"
    assert draws.settings["solver"]["tolerance"] == 1e-3
    forces = {"friction": friction, "gravity": 2.0, "max_time": 0.5}
    by_keywords = posterior.sample(3, **forces, **motion, progress=False)
    assert torch.equal(by_keywords.parameters, path.end)


def test_settings_come_back_as_objects():
    friction, solver = ConstantFriction(0.2), dims.Dopri5(1e-4)
    sampler = dims.DiMS(friction=friction, solver=solver, save_at=(1.0, 2.0))
    settings = json.loads(json.dumps(sampler.settings))
    assert settings["save_at"] == [1.0, 2.0]
    assert dims.DiMS.from_settings(settings) == sampler
    own = dims.DiMS(friction=QuadraticFriction(0.2))
    with pytest.raises(ValueError, match=r"friction: the class 'QuadraticFriction' is unknown"):
        dims.DiMS.from_settings(own.settings)
    assert dims.DiMS.from_settings(own.settings, classes=[QuadraticFriction]) == own
    old = {"friction": 0.5, "settle": None, "tolerance": None}
    assert dims.DiMS.from_settings(old) == dims.DiMS(
        friction=0.5, settle="none", metric="euclidean"
    )


def test_failed_draws_are_retried_with_a_finer_solver():
    assert dims.LA().finer() == dims.LA()
    assert dims.DiMS().finer() == dims.DiMS(tolerance=0.1 * dims.Rattle().tolerance)
    assert dims.RLA(solver="dopri5", tolerance=1e-3).finer().tolerance == pytest.approx(1e-4)
    finer = dims.DiMS(solver=dims.Rattle(tolerance=1e-2, turn=0.1)).finer()
    assert finer.solver == dims.Rattle(tolerance=0.1 * 1e-2, turn=0.1)
    assert finer.tolerance is None


class Plain(dims.Sampler):
    name = "plain"

    def draw(self, start, perturbations, progress=None) -> dict[str, Any]:
        return {"parameters": start.position + perturbations}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": dims.DiMS(), "friction": 0.5}, ValueError, r"friction: give it to.*DiMS\(fric"),
        ({"method": dims.LA(), "settle": "full"}, ValueError, r"settle: give it to.*LA\("),
        ({"method": dims.RLA(), "save_at": (0.5,)}, ValueError, "save_at: give it to"),
        ({"method": dims.DiMS}, TypeError, r"method: expected a name .la, linla, rla, dims. or"),
        ({"method": 3}, TypeError, "method: expected a name"),
        ({"method": Plain()}, TypeError, "Plain must be a dataclass"),
        ({"method": "la", "save_at": (0.5,)}, ValueError, "save_at: it has no meaning"),
        ({"method": "rla", "settle": "none"}, ValueError, "settle: it has no meaning"),
        ({"save_at": (2.0, 1.0)}, ValueError, "save_at: expected increasing times"),
        ({"save_at": (1.0, 4.0)}, ValueError, "save_at: .* max_time = 3.0"),
        ({"save_at": (-1.0,)}, ValueError, "save_at: expected increasing times from 0"),
        ({"save_at": (float("nan"),)}, ValueError, "save_at: expected increasing times"),
        ({"settle": "quick"}, ValueError, "stiff, full, none"),
        ({"solver": dims.Rattle(), "tolerance": 0.1}, ValueError, "tolerance: give it to the sol"),
        ({"solver": dims.Rattle}, TypeError, "solver: expected a name"),
        ({"draws": 2.5}, TypeError, "draws: expected a number of draws"),
        ({"draws": True}, TypeError, "draws: expected a number of draws"),
    ],
)
def test_bad_samplers_and_arguments_are_named(posterior, arguments, error, message):
    with pytest.raises(error, match=message):
        posterior.sample(**{"draws": 2, "progress": False} | arguments)


@pytest.mark.usefixtures("unchecked")
def test_old_arguments_still_work_with_a_warning(posterior):
    expected = posterior.sample(2, **QUICK, progress=False)
    with pytest.warns(dims.DimsDeprecationWarning, match=r"sample\(count=...\).*use draws="):
        found = posterior.sample(count=2, **QUICK, progress=False)
    assert torch.equal(found.parameters, expected.parameters)
    with pytest.warns(dims.DimsDeprecationWarning, match='settle=None.*use settle="none"'):
        found = posterior.sample(2, **QUICK | {"settle": None}, progress=False)
    assert torch.equal(found.parameters, expected.parameters)
    assert found.settings == expected.settings
    with pytest.warns(dims.DimsDeprecationWarning, match=r"velocities.*use Posterior.perturb"):
        velocities = posterior.velocities(3, seed=1)
    assert torch.equal(velocities, posterior.perturbations(3, seed=1))


def test_trajectory_samplers_can_be_extended_too(posterior, tmp_path: Path):
    @dataclass(frozen=True)
    class Falling(TrajectorySampler):
        name: ClassVar[str] = "falling"
        max_time: float = 0.3
        precondition: bool = True
        solver: str = "rattle"
        tolerance: float | None = None
        save_at: tuple[float, ...] = ()
        compile: bool = False

        @property
        def dynamics(self) -> dims.Dynamics:
            return dims.gravitational(1.0)

        def draw(self, start, perturbations, progress=None) -> dict[str, Any]:
            thetas, fields = self.travel(start, perturbations, progress)
            return {"parameters": thetas, **start.measure(thetas), **fields}

    draws = posterior.sample(2, Falling(save_at=(0.1,)), store=tmp_path / "run", progress=False)
    assert draws.at(0.1).parameters.shape == draws.parameters.shape
    assert (draws.energy_violation < 1e-2).all()


def test_a_solver_without_a_tolerance_of_its_own_is_retried_as_it_is():
    class Plain(dims.Solver):  # no dataclass: its tolerance is that of the base class
        def start(self, surface, dynamics, position, velocity, max_time):
            raise NotImplementedError

        def advance(self, state, surface, dynamics, times):
            raise NotImplementedError

    sampler = dims.DiMS(solver=Plain())
    assert sampler.finer() is sampler
    finer = dims.DiMS(solver=dims.Rattle(tolerance=1e-2)).finer()
    assert finer.solver == dims.Rattle(tolerance=1e-3)


@pytest.mark.usefixtures("unchecked")
def test_a_friction_that_is_none_is_named():
    with pytest.raises(TypeError, match="friction: expected a number or an object"):
        dims.DiMS(friction="high")


def test_a_retry_of_the_finest_tolerance_stays_there():
    assert dims.DiMS(tolerance=1e-3).finer().tolerance == pytest.approx(1e-4)
    assert dims.DiMS(tolerance=2e-14).finer().tolerance == 1e-14


def test_temperature_scales_the_energy_of_the_start(posterior) -> None:
    start = dims.sampling.samplers.Start(
        posterior.surface, posterior.map_parameters, posterior.gradient
    )
    perturbations = posterior.perturbations(3)
    cold = dims.DiMS(**SHORT, temperature=0.25).draw(start, perturbations)
    slow_start = dims.DiMS(**SHORT).draw(start, 0.5 * perturbations)
    assert torch.equal(cold["parameters"], slow_start["parameters"])


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_temperature_is_positive_and_finite(temperature) -> None:
    with pytest.raises(ValueError, match="temperature"):
        dims.DiMS(temperature=temperature)


def test_settings_from_before_there_was_a_temperature(posterior) -> None:
    settings = dict(dims.DiMS().settings)
    del settings["temperature"]
    assert dims.DiMS.from_settings(settings).temperature == 1.0
