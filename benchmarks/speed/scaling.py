"""How the time per step grows with rows, points and parameters, and the share of the gradient."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from dims.mechanics.dynamics import dissipative
from dims.mechanics.solvers.rattle import Rattle
from dims.mechanics.stepper import stepper
from dims.model.likelihoods import Gaussian
from dims.model.torch_support.compiling import compile_for
from dims.model.training import seeded
from dims.surface.loss import LossSurface
from dims_paper.snelson_network import load_problem

__all__ = ["fit_exponent", "gradient_share", "scaling"]

DYNAMICS = dissipative(gravity=1.0, friction=0.1)
TICKS = 8
REPEATS = 3
SIZES = {
    "rows": (64, 128, 256, 512),
    "points": (250, 500, 1000, 2000),
    "parameters": (32, 64, 128, 256),  # widths; K grows with their square
}


def scaling(device: str) -> dict[str, Any]:
    """Seconds per step for each size, and the exponent over all but the smallest size."""
    result = {}
    for what, sizes in SIZES.items():
        counts, seconds = [], []
        for size in sizes:
            settings = {"rows": 32, "points": 148, "width": 16}
            settings["width" if what == "parameters" else what] = size
            surface = _surface(settings["points"], settings["width"], device)
            counts.append(surface.size if what == "parameters" else size)
            seconds.append(_seconds_a_step(surface, settings["rows"], compiled=False))
        result[what] = {
            "sizes": counts,
            "seconds": seconds,
            "exponent": fit_exponent(counts[1:], seconds[1:]),
        }
    return result


def fit_exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of a least-squares line through the logarithms."""
    x, y = (torch.tensor([math.log(v) for v in values]) for values in (sizes, seconds))
    x = x - x.mean()
    return float((x * y).sum() / x.square().sum())


def gradient_share(rows: int, device: str) -> dict[str, float]:
    """The share of a compiled float32 step that its gradient takes."""
    problem = load_problem(torch.float32, device)
    surface = problem.surface
    step = _seconds_a_step(surface, rows, compiled=True, velocity=problem.velocities(rows))
    points = surface.initial.expand(rows, -1).contiguous()
    compiled = compile_for(points.device, surface.value_and_grad)
    compiled(points)
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        gradient = _best(lambda: compiled(points), 20 * REPEATS)
    return {"rows": rows, "step": step, "gradient": gradient, "share": gradient / step}


def _surface(points: int, width: int, device: str) -> LossSurface:
    with seeded(0):
        model = nn.Sequential(
            nn.Linear(1, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1)
        )
    inputs = torch.linspace(-2, 2, points).unsqueeze(-1)
    data = (inputs.to(device), torch.sin(2 * inputs).to(device))
    return LossSurface(model.to(device), data, Gaussian(0.3))


def _seconds_a_step(
    surface: LossSurface, rows: int, *, compiled: bool, velocity: Tensor | None = None
) -> float:
    """The fastest of a few repetitions; other processes can only slow a step down."""
    if velocity is None:
        generator = torch.Generator().manual_seed(0)
        velocity = torch.randn(rows, surface.size, generator=generator).to(surface.vector.device)
    solver = Rattle()
    times = torch.tensor([1e9], dtype=torch.float64, device=velocity.device)
    position = surface.initial.expand(rows, -1).contiguous()
    state = solver.start(surface, DYNAMICS, position, velocity, 50.0)
    many = stepper(
        lambda now: solver.advance(now, surface, DYNAMICS, times), TICKS, compiled, velocity.device
    )
    for _ in range(2):
        state = many(state)
    return _best(lambda: many(state), REPEATS * (10 if compiled else 1)) / TICKS


def _best(call: Callable[[], Any], repeats: int) -> float:
    on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
    clock = time.perf_counter if on_gpu else time.process_time
    best = math.inf
    for _ in range(repeats):
        began = clock()
        call()
        if on_gpu:
            torch.cuda.synchronize()
        best = min(best, clock() - began)
    return best
