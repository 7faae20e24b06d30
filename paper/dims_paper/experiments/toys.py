"""The paper's pictures of motion on small surfaces: sphere, curve, surface-2d and breakdown.

The paper gives the losses of some and no settings: these are ours. `PICTURES` names all pictures
without tables, the sinusoid included.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import dims
from dims.commands.pages.trajectories import Record, landscape, records, rounded, save_times
from dims_paper.cache import kept_run
from dims_paper.experiments.problem import Report
from dims_paper.experiments.sinusoid import SinusoidSettings
from dims_paper.schema import Run


def run_picture(settings: Any, out: Path, report: Report | None = None) -> Run:
    """The result of a picture, from the folder if it is there.

    `settings` is one of `PICTURES`: it has a `file` name, a `quick` version and `run`.
    """
    say = report or (lambda _: None)
    return kept_run(out / f"{settings.file}.json", lambda: settings.run(say))


@dataclass(frozen=True)
class Sphere:
    """Figure 1: a geodesic leaves the minima it starts from; DiMS comes to rest on them.

    As printed (not squared) the paper's loss has no minima.
    """

    outward: float = 0.5  # the part of the start velocity that leaves the sphere
    along: float = 1.0  # and the part along it, in a direction drawn from the seed
    gravity: float = 1.0
    friction: float = 0.5
    max_time: float = 25.0
    saves: int = 400
    seed: int = 0

    @property
    def file(self) -> str:
        return f"sphere_{self.seed}"

    def quick(self) -> Sphere:
        return replace(self, max_time=10.0, saves=200)

    def run(self, say: Report) -> Run:
        """From one point of the sphere, one velocity: a geodesic and a DiMS trajectory."""
        generator = torch.Generator().manual_seed(self.seed)
        normalise = torch.nn.functional.normalize
        # A view from (1, 1, 1) sees the start.
        start = normalise(torch.tensor([1.0, 0.2, 0.6], dtype=torch.float64), dim=0)
        direction = torch.randn(3, generator=generator, dtype=torch.float64)
        tangent = normalise(direction - (direction @ start) * start, dim=0)
        velocity = self.outward * start + self.along * tangent
        trajectories = []
        for method, label, dynamics in (
            ("rla", "geodesic", dims.geodesic()),
            ("dims", "DiMS", dims.dissipative(self.gravity, self.friction)),
        ):
            say(label)
            path = _follow(self, dims.Surface(sphere), start, velocity, dynamics, self.max_time)
            trajectories += records(path, method, [label])
        return _run("sphere", self, trajectories)


@dataclass(frozen=True)
class Curve:
    """The schematic: a curve on the loss manifold and the path in parameter space below it."""

    start: tuple[float, float] = (-1.6, 0.1)
    velocity: tuple[float, float] = (1.5, -1.2)
    gravity: float = 1.0
    friction: float = 0.2
    max_time: float = 2.6
    saves: int = 120
    side: float = 2.0
    file = "curve"

    def quick(self) -> Curve:
        return replace(self, max_time=1.0, saves=20)

    def run(self, say: Report) -> Run:
        """One DiMS trajectory α(t) with its lift γ(t) = (α(t), L(α(t)))."""
        surface, side = dims.Surface(hills), self.side
        start = torch.tensor(self.start, dtype=torch.float64)
        velocity = torch.tensor(self.velocity, dtype=torch.float64)
        dynamics = dims.dissipative(self.gravity, self.friction)
        path = _follow(self, surface, start, velocity, dynamics, self.max_time)
        _, gradient = surface.value_and_grad(start[None])
        return _run(
            "curve",
            self,
            records(path, "dims", ["DiMS"]),
            # v of the manifold is (ṽ, gᵀṽ): the start velocity lifted into the tangent plane.
            climb=float(gradient[0] @ velocity),
            landscape=landscape(surface, (-side, side), (-side, side), 61),
        )


@dataclass(frozen=True)
class Surface2d:
    """Four dynamics from two start velocities, along a valley and across it."""

    start: tuple[float, float] = (-3.14159, 0.0)  # on the minima, which descend here
    along: tuple[float, float] = (1.4, -1.4)  # the white arrow
    across: tuple[float, float] = (1.4, 1.4)  # the black arrow
    gravity: float = 1.0
    friction: float = 0.5  # η₀ of both frictions
    max_time: float = 30.0
    saves: int = 400
    x: tuple[float, float] = (-4.5, 6.5)
    y: tuple[float, float] = (-2.6, 2.6)
    file = "surface_2d"

    def quick(self) -> Surface2d:
        return replace(self, max_time=4.0, saves=100)

    def run(self, say: Report) -> Run:
        """Geodesic, gravity, constant friction and friction ∝ speed, from the same two starts."""
        start = torch.tensor(self.start, dtype=torch.float64)
        velocities = torch.tensor([self.along, self.across], dtype=torch.float64)
        trajectories = []
        for method, label, dynamics in (
            ("rla", "geodesic", dims.geodesic()),
            ("gravity", "gravity", dims.gravitational(self.gravity)),
            ("damped", "constant friction", dims.damped(self.gravity, self.friction)),
            ("dims", "friction ∝ speed (DiMS)", dims.dissipative(self.gravity, self.friction)),
        ):
            say(label)
            path = _follow(self, dims.Surface(valley), start, velocities, dynamics, self.max_time)
            pair = records(path, method, [label, label])
            for entry, velocity in zip(pair, ("along", "across"), strict=True):
                trajectories.append({**entry, "start_velocity": velocity})
        ground = landscape(dims.Surface(valley), self.x, self.y)
        return _run("surface-2d", self, trajectories, landscape=ground)


@dataclass(frozen=True)
class Breakdown:
    """DiMS draws come to rest in distinct sets of minima; a geodesic goes on for ever."""

    start: tuple[float, float] = (2.0, 0.0)  # on the middle one of three rings
    speed: float = 3.0  # scale of the normal start velocities
    draws: int = 8
    gravity: float = 1.0
    friction: float = 0.3
    max_time: float = 40.0
    geodesic_time: float = 4.0  # a geodesic needs a time to be stopped at
    saves: int = 400
    side: float = 4.4
    seed: int = 0

    @property
    def file(self) -> str:
        return f"breakdown_{self.seed}"

    def quick(self) -> Breakdown:
        return replace(self, draws=3, max_time=10.0, saves=200)

    def run(self, say: Report) -> Run:
        """Normal start velocities; the first of them also as a geodesic."""
        surface, side = dims.Surface(rings), self.side
        generator = torch.Generator().manual_seed(self.seed)
        start = torch.tensor(self.start, dtype=torch.float64)
        noise = torch.randn(self.draws, 2, generator=generator, dtype=torch.float64)
        velocities = self.speed * noise
        say("DiMS")
        dynamics = dims.dissipative(self.gravity, self.friction)
        drawn = _follow(self, surface, start, velocities, dynamics, self.max_time, dense_early=True)
        say("geodesic")
        free = _follow(self, surface, start, velocities[:1], dims.geodesic(), self.geodesic_time)
        assert dynamics.friction is not None
        trajectories = records(drawn, "dims", [f"DiMS {i}" for i in range(self.draws)])
        for row, entry in enumerate(trajectories):
            power = dynamics.friction.power(drawn.kinetic_energy[:, row])
            entry["dissipation"] = rounded(power)
            entry["end_radius"] = round(float(drawn.end[row].norm()), 3)
        return _run(
            "breakdown",
            self,
            [*records(free, "rla", ["geodesic"]), *trajectories],
            landscape=landscape(surface, (-side, side), (-side, side), 121),
        )


PICTURES: dict[str, Any] = {
    "sphere": Sphere(),
    "sinusoid": SinusoidSettings(),
    "curve": Curve(),
    "surface-2d": Surface2d(),
    "breakdown": Breakdown(),
}


def sphere(theta: Tensor) -> Tensor:
    """L(θ) = (‖θ‖² − 1)²: its minima are the unit sphere."""
    return (theta.square().sum() - 1).square()


def hills(theta: Tensor) -> Tensor:
    """A smooth landscape with a valley and a hill."""
    bowl = 0.25 * (theta[0].square() + theta[1].square())
    hill = 1.2 * torch.exp(-((theta[0] - 0.3).square() + (theta[1] - 0.4).square()) / 0.5)
    return bowl + hill


def valley(theta: Tensor) -> Tensor:
    """L(θ) = (θ₂ − sin θ₁)²: its minima are the curve of the sine."""
    return (theta[1] - theta[0].sin()).square()


def rings(theta: Tensor) -> Tensor:
    """L(θ) = 1 − cos 2π‖θ‖: minima are the rings of radius 1, 2, 3, … and the centre."""
    return 1 - torch.cos(2 * torch.pi * (theta.square().sum() + 1e-12).sqrt())


def _follow(
    settings: Any,
    surface: dims.Surface,
    start: Tensor,
    velocity: Tensor,
    dynamics: dims.Dynamics,
    end: float,
    dense_early: bool = False,
) -> dims.Trajectories:
    times = save_times(end, settings.saves, dense_early=dense_early)
    return dims.integrate(surface, start, velocity, dynamics=dynamics, max_time=end, save_at=times)


def _run(name: str, settings: Any, trajectories: list[Record], **figure: Any) -> Run:
    return Run(
        experiment=name,
        seed=getattr(settings, "seed", None),
        settings=asdict(settings),
        figure={"trajectories": trajectories, **figure},
    )
