"""What short motions choose for long ones: the temperature, and how many images fit the time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dims_paper.cache import kept, read_json, write_json
from real_networks.budget import Budget, OutOfTime
from real_networks.experiment import Experiment
from real_networks.motion import Motion, move, quick

TEMPERATURES = (0.1, 0.01, 1.0)
PILOT = Motion(draws=4, images=4_800, times=(0.5, 1.5))
COUNTS = (48_000, 24_000, 19_200, 14_400, 9_600, 4_800)  # images, in pieces of the same size
SLACK = 1.3  # for frames of the metric and rows that take longer


def pilots(experiment: Experiment, seconds: float) -> None:
    """Short motions at several temperatures, to choose on held-out images."""
    whole, base = experiment.budget, quick(experiment.device) if experiment.quick else PILOT
    for heat in TEMPERATURES[:1] if experiment.quick else TEMPERATURES:
        whole.need(0 if experiment.quick else min(seconds, 20), f"pilot at temperature {heat}")
        experiment.budget = Budget(min(seconds, whole.left)) if not experiment.quick else whole
        try:
            move(experiment, 0, replace(base, temperature=heat), "pilot")
        except OutOfTime as reason:
            print(f"pilot at temperature {heat} stopped: {reason}", flush=True)
        finally:
            experiment.budget = whole


def chosen(experiment: Experiment, base: Motion, seconds: float) -> Motion:
    """`base` with the temperature that held-out images like best, on as many images as fit."""

    def make() -> dict[str, Any]:
        found = [read_json(p) for p in (experiment.folder / "predictions").glob("pilot_*_t*.json")]
        found = [row for row in found if "evaluations" in row]
        if not found:
            return {}
        end = max(row["t"] for row in found)
        best = min((row for row in found if row["t"] == end), key=lambda row: row["held_out_nll"])
        a_second = best["images"] / best["gradient_seconds"]
        gradients = sum(best["evaluations"]) / len(best["evaluations"]) / end * base.times[-1]
        fitting = seconds * a_second / (SLACK * gradients * base.draws)
        count = next((n for n in COUNTS if n <= fitting), COUNTS[-1])
        return {"temperature": best["motion"]["temperature"], "images": count}

    path = experiment.folder / "chosen.json"
    found = kept(path, make, lambda value, file: write_json(file, value), read_json)
    if found.get("images", 0) >= len(experiment.images.train.labels):
        found = {**found, "images": None}
    experiment.say(f"chosen by pilots: {found}")
    return replace(base, **found)
