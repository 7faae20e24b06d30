"""Seconds and errors of a gradient, for every precision: measured before anything rests on it."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from dims.model.torch_support.convolution_precision import PRECISIONS
from dims.model.torch_support.tf32 import float32_products
from dims_paper.cache import write_json
from real_networks.budget import OutOfTime, stopwatch
from real_networks.experiment import Experiment
from real_networks.motion import QUICK, Motion, Start

AWAY = 4.0  # distance from θ* of the second place, in a random direction


def probe(experiment: Experiment, images: int = 9_600, compiled: tuple[str, ...] = ()) -> None:
    """Write gradients' errors beside float32 without rounding, and their seconds a row."""
    path = experiment.folder / "probe.json"
    if path.exists():
        return
    motion = QUICK if experiment.quick else Motion(images=images, compile=False)
    with float32_products():
        start = Start(experiment, 0, motion)
        surface = start.surface()
        noise = torch.randn(len(start.theta), generator=torch.Generator().manual_seed(0))
        away = start.theta + AWAY * (noise / noise.norm()).to(start.theta)
        rows = torch.stack([start.theta, away])
        exact = surface.with_single_rows("float32").value_and_grad(rows)
        found: list[dict[str, Any]] = []
        for precision in PRECISIONS:
            for compile in (False, True) if precision in compiled else (False,):
                try:
                    experiment.budget.need(45 if compile else 5, "a precision")
                    found.append(_measured(surface, rows, exact, precision, compile))
                except OutOfTime as reason:
                    experiment.say(f"{precision} not measured: {reason}")
                    continue
                experiment.say(str(found[-1]))
                write_json(path, {"images": surface.points, "away": AWAY, "gradients": found})


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
