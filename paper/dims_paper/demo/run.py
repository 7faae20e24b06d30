"""`dims demo`: seven points of a sine, one network, and the functions that RLA and DiMS draw."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dims.mechanics.batch import Progress
from dims.mechanics.diagnostics import theorem_bounds
from dims.mechanics.dynamics import dissipative, geodesic
from dims.mechanics.integrate import Trajectories, integrate
from dims.sampling.fit import fit
from dims.sampling.posterior import Posterior
from dims.sampling.settle import settle

__all__ = ["DemoResult", "DemoSettings", "demo_table", "run_demo"]

Report = Callable[[str, Progress], None]


@dataclass(frozen=True)
class DemoSettings:
    """Everything that defines the demonstration."""

    points: int = 7
    width: int = 16
    training_steps: int = 3_000
    noise_std: float = 0.1
    prior_precision: float = 0.02
    draws: int = 30
    friction: float = 0.3
    max_time: float = 10.0
    saves: int = 60
    seed: int = 0


@dataclass(frozen=True)
class DemoResult:
    """Curves and energies, ready to be drawn and tabled."""

    posterior: Posterior
    inputs: Tensor  # (N,) training inputs and targets
    targets: Tensor
    grid: Tensor
    rla: Trajectories
    dims: Trajectories
    rla_curves: Tensor  # (S, grid)
    dims_curves: Tensor
    settled: Tensor  # (S, K)


def train_sine(settings: DemoSettings) -> tuple[nn.Module, Tensor, Tensor]:
    """A small smooth network fitted to points of a sine with a hole in the middle."""
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        left = torch.linspace(-2.6, -1.1, math.ceil(settings.points / 2), dtype=torch.float64)
        right = torch.linspace(1.0, 2.4, settings.points // 2, dtype=torch.float64)
        inputs = torch.cat([left, right]).unsqueeze(-1)
        targets = torch.sin(2 * inputs)
        model = nn.Sequential(
            nn.Linear(1, settings.width),
            nn.Tanh(),
            nn.Linear(settings.width, settings.width),
            nn.Tanh(),
            nn.Linear(settings.width, 1),
        ).double()
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
        decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, settings.training_steps)
        for _ in range(settings.training_steps):
            optimiser.zero_grad()
            (model(inputs) - targets).square().sum().backward()
            optimiser.step()
            decay.step()
    return model, inputs, targets


def run_demo(settings: DemoSettings, report: Report | None = None) -> DemoResult:
    """Train, fit, and follow the same velocities by RLA and by DiMS."""
    model, inputs, targets = train_sine(settings)
    posterior = fit(
        model,
        (inputs, targets),
        "regression",
        prior_precision=settings.prior_precision,
        noise_std=settings.noise_std,
    )
    surface = posterior.surface
    velocities = posterior.perturbations(settings.draws, settings.seed)

    def follow(name: str, max_time: float, dynamics: object) -> Trajectories:
        times = torch.linspace(0, max_time, settings.saves + 1)
        return integrate(
            surface,
            posterior.map_parameters,
            velocities,
            dynamics=dynamics,  # type: ignore[arg-type]
            max_time=max_time,
            save_at=times,
            progress=None if report is None else lambda now: report(name, now),
        )

    rla = follow("RLA", 1.0, geodesic())
    dims = follow("DiMS", settings.max_time, dissipative(1.0, settings.friction))
    settled = settle(surface, dims.end, method="stiff").positions
    grid = torch.linspace(-3.4, 3.2, 200, dtype=torch.float64).unsqueeze(-1)
    return DemoResult(
        posterior=posterior,
        inputs=inputs.squeeze(-1),
        targets=targets.squeeze(-1),
        grid=grid.squeeze(-1),
        rla=rla,
        dims=dims,
        rla_curves=surface.predict(rla.end, grid).squeeze(-1),
        dims_curves=surface.predict(settled, grid).squeeze(-1),
        settled=settled,
    )


def demo_table(result: DemoResult) -> list[tuple[str, str, str]]:
    """Rows of (what, RLA, DiMS) for the terminal."""
    surface = result.posterior.surface
    bounds = theorem_bounds(result.dims)
    paths = (result.rla, result.dims)

    def row(name: str, *values: str) -> tuple[str, str, str]:
        return (name, *values)  # type: ignore[return-value]

    residuals = [
        (surface.predict(thetas, result.inputs.unsqueeze(-1)).squeeze(-1) - result.targets)
        .abs()
        .mean()
        for thetas in (result.rla.end, result.settled)
    ]
    gap = (result.grid > -0.8) & (result.grid < 0.7)
    spreads = [curves[:, gap].std(0).mean() for curves in (result.rla_curves, result.dims_curves)]
    at_map = float(surface.value(result.posterior.map_parameters[None]))
    settled_loss = surface.value(result.settled)
    return [
        row("draws", *(str(len(path.status)) for path in paths)),
        row("mean |error| on the training points", *(f"{float(r):.4f}" for r in residuals)),
        row("spread of functions in the gap", *(f"{float(s):.3f}" for s in spreads)),
        row(
            f"loss above that of θ* ({at_map:.2f})",
            f"{float(result.rla.loss[-1].mean()) - at_map:.3f}",
            f"{float(settled_loss.mean()) - at_map:.3f}",
        ),
        row("energy violation (worst draw)", *(_worst(p.energy_violation) for p in paths)),
        row("arc length (mean)", *(f"{float(p.arc_length.mean()):.2f}" for p in paths)),
        row(
            "  least that theory allows", "-", f"{float(bounds.sharp_arc_length_limit.mean()):.2f}"
        ),
        row(
            "gradients a draw (mean)",
            *(f"{float(p.evaluations.double().mean()):.0f}" for p in paths),
        ),
        row(
            "ended as asked", *(f"{sum(s.ok for s in p.status)} of {len(p.status)}" for p in paths)
        ),
    ]


def _worst(values: Tensor) -> str:
    return f"{float(values.max()):.1e}"
