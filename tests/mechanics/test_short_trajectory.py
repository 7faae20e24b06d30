"""Short trajectories: against an independent solution of the ODE, and against earlier versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.integrate import solve_ivp
from torch import Tensor

import dims
import problems
from cases import diagonal, slow
from dims.errors import SnapshotError

FIXTURES = Path(__file__).parents[1] / "fixtures"
STORED = load_file(FIXTURES / "short_trajectory.safetensors")
SURFACES = {"sphere": problems.sphere(), "ring": problems.ring()}
END = 0.1
pytestmark = pytest.mark.usefixtures("unchecked")


def exact(position: np.ndarray, velocity: np.ndarray, dynamics: dims.Dynamics) -> np.ndarray:
    """θ and v at the end, on L = (‖θ‖² − 1)² with its derivatives by hand."""
    size, coefficient = len(position), 0.0 if dynamics.friction is None else 0.3

    def motion(_: float, y: np.ndarray) -> np.ndarray:
        theta, v = y[:size], y[size:]
        excess = theta @ theta - 1
        gradient = 4 * excess * theta
        bend = 4 * excess * (v @ v) + 8 * (theta @ v) ** 2  # vᵀHv
        kinetic = 0.5 * (v @ v + (gradient @ v) ** 2)
        pull = -(bend + dynamics.gravity) / (1 + gradient @ gradient) * gradient
        return np.concatenate([v, pull - coefficient * np.sqrt(kinetic) * v])

    start = np.concatenate([position, velocity])
    return solve_ivp(motion, (0, END), start, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]


def reached(solver: dims.Solver, dynamics: dims.Dynamics) -> Tensor:
    path = dims.integrate(
        problems.sphere(),
        STORED["sphere.position"],
        STORED["sphere.velocity"],
        dynamics=dynamics,
        solver=solver,
        max_time=END,
    )
    return torch.cat([path.positions[0], path.velocities[0]], -1)


def extrapolated(dynamics: dims.Dynamics) -> Tensor:
    """RATTLE errs by c₂h² + c₄h⁴ + …; two steps remove the first term."""
    coarse, fine = (reached(dims.Rattle(step=h, tolerance=1e-12), dynamics) for h in (1e-3, 5e-4))
    return (4 * fine - coarse) / 3


DYNAMICS = {
    "friction": dims.dissipative(1.0, 0.3),
    "geodesic": dims.geodesic(),
    "gravity": dims.gravitational(1.0),
}


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        ("friction", "rattle"),
        slow("friction", "dopri5"),
        slow("geodesic", "rattle"),
        ("geodesic", "dopri5"),
        slow("gravity", "rattle"),
        slow("gravity", "dopri5"),
    ],
)
def test_it_solves_the_equation_of_motion(name, solver):
    dynamics = DYNAMICS[name]
    if solver == "rattle":
        ours = extrapolated(dynamics)
    else:
        ours = reached(dims.Dopri5(tolerance=1e-12, absolute_factor=1.0), dynamics)
    position = STORED["sphere.position"].numpy()
    for row, velocity in zip(ours, STORED["sphere.velocity"].numpy(), strict=True):
        expected = torch.from_numpy(exact(position, velocity, dynamics))
        torch.testing.assert_close(row, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("name", "solver"), diagonal(["ring", "sphere"], ["rattle", "dopri5"]))
def test_numbers_are_those_of_version_0_1(name, solver):
    """At default settings; the file was written by the code of version 0.1."""
    path = dims.integrate(
        SURFACES[name],
        STORED[f"{name}.position"],
        STORED[f"{name}.velocity"],
        solver=solver,
        max_time=END,
        save_at=[0.03, END],
    )
    for field in ("positions", "velocities", "energy", "dissipated"):
        stored = STORED[f"{name}.{solver}.{field}"]
        torch.testing.assert_close(getattr(path, field), stored, rtol=0, atol=1e-8)


class Offered:
    """A checkpoint that was written before, and is not written again."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.tensors = tensors

    def load(self) -> dict[str, Tensor]:
        return self.tensors

    def offer(self, pack: Callable[[], dict[str, Tensor]]) -> None:
        pass

    def refuse(self, error: SnapshotError) -> None:
        raise error


def resume(solver: str, tensors: dict[str, Tensor], **more) -> dims.Trajectories:
    return dims.integrate(
        problems.sphere(),
        STORED["sphere.position"],
        STORED["sphere.velocity"],
        solver=solver,
        max_time=2.0,
        save_at=[1.0, 2.0],
        checkpoint=Offered(tensors),
        **more,
    )


@pytest.mark.parametrize("solver", ["rattle", "dopri5"])
def test_a_checkpoint_of_version_0_1_is_continued(solver):
    """Its fields had other names: `wish` is `proposed_step`, `debt` is `accumulated_error`."""
    tensors = load_file(FIXTURES / f"checkpoint_{solver}.safetensors")
    assert "state.wish" in tensors
    seen = []
    path = resume(solver, tensors, progress=seen.append)
    assert seen[0].mean_time > 0.5  # it did not start anew
    torch.testing.assert_close(path.positions, tensors["expected.positions"], rtol=0, atol=1e-8)
    torch.testing.assert_close(
        path.energy_violation, tensors["expected.energy_violation"], rtol=0, atol=1e-8
    )


def test_a_checkpoint_without_a_field_is_refused():
    tensors = load_file(FIXTURES / "checkpoint_rattle.safetensors")
    del tensors["ends.debt"]
    with pytest.raises(SnapshotError, match=r"ends\.accumulated_error is missing"):
        resume("rattle", tensors)
