"""Seconds and errors of a gradient, for every precision: measured before anything rests on it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import dims
from dims.mechanics.metric.frame import Frame
from dims.model.torch_support.convolution_precision import PRECISIONS
from dims.model.torch_support.tf32 import float32_products
from dims_paper.cache import write_json
from real_networks.budget import OutOfTime, stopwatch
from real_networks.experiment import Experiment
from real_networks.motion import Motion, Start

AWAY = 4.0  # distance from θ* of the second place, in a random direction


def probe(experiment: Experiment, base: Motion) -> None:
    """Write gradients' errors beside float32 without rounding, seconds a row, and of frames."""
    path = experiment.folder / "probe.json"
    if path.exists():
        return
    compiled = (base.precision,) if base.compile else ()
    motion = base if experiment.quick else replace(base, images=2 * base.at_once)
    motion = replace(motion, compile=False)
    with float32_products():
        start = Start(experiment, 0, motion)
        surface = start.surface()
        noise = torch.randn(len(start.theta), generator=torch.Generator().manual_seed(0))
        away = start.theta + AWAY * (noise / noise.norm()).to(start.theta)
        rows = torch.stack([start.theta, away])
        exact = surface.with_single_rows("float32").value_and_grad(rows)
        found, frames = list[dict[str, Any]](), dict[str, float]()
        with stopwatch(experiment.device) as seconds:
            start.perturbations(0)
            frames["start_velocities"] = seconds()
        frames |= _frames(surface, motion, start.theta, experiment.device)
        experiment.say(f"seconds of frames: {frames}")
        for precision in PRECISIONS:
            for compile in (False, True) if precision in compiled else (False,):
                try:
                    experiment.budget.need(45 if compile else 5, "a precision")
                    found.append(_measured(surface, rows, exact, precision, compile))
                except OutOfTime as reason:
                    experiment.say(f"{precision} not measured: {reason}")
                    continue
                experiment.say(str(found[-1]))
                facts = {"images": surface.points, "away": AWAY, "frames": frames}
                write_json(path, {**facts, "gradients": found})


def _frames(surface: Any, motion: Motion, theta: Tensor, device: torch.device) -> dict[str, float]:
    """Seconds of the first frame of a metric, and of one that follows, of one row."""
    metric = dims.MovingMetric(rank=motion.rank, points=motion.metric_points)
    choice, place = metric._choice(surface), theta.unsqueeze(0)
    with stopwatch(device) as seconds:
        frame = choice.first(place, Frame.euclidean(place))
        first = seconds()
    with stopwatch(device) as seconds:
        choice.next(place, frame)
        return {"first_frame": first, "next_frame": seconds()}


def _measured(
    surface: Any, rows: Tensor, exact: tuple[Tensor, Tensor], precision: str, compile: bool
) -> dict[str, Any]:
    device = rows.device
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with stopwatch(device) as seconds:
            single = surface.with_single_rows(precision, compile=compile)
            values, gradients = single.value_and_grad(rows)
            first = seconds()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with stopwatch(device) as seconds:
        single.value_and_grad(rows)
        again = seconds() / len(rows)
    errors = (gradients - exact[1]).norm(dim=1) / exact[1].norm(dim=1)
    return {
        "precision": precision,
        "compiled": compile,
        "seconds_a_row": again,
        "first_seconds": first,
        "gradient_error": errors.tolist(),
        "value_error": (values - exact[0]).tolist(),
        "value": exact[0].tolist(),
        "gradient_norm": exact[1].norm(dim=1).tolist(),
        "peak_memory": torch.cuda.max_memory_allocated() if device.type == "cuda" else None,
        "warnings": [str(warning.message)[:200] for warning in caught],
    }
