"""What short motions choose for long ones, by held-out images: the temperature, and whether images
are flipped and shifted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.nn.functional import nll_loss

from dims_paper.cache import kept, read_json, write_json
from real_networks.budget import Budget, OutOfTime
from real_networks.experiment import Experiment
from real_networks.motion import Motion, move, quick
from real_networks.predictions import average, load

TEMPERATURES = (1e-3, 1e-4, 1e-2)
PILOT = Motion(draws=2, images=24_000, times=(0.03, 0.1, 0.3, 1.0, 3.0))


def pilots(experiment: Experiment, seconds: float) -> None:
    """Short motions at several temperatures, and one on the images as they are."""
    whole = experiment.budget
    base = quick(experiment.device) if experiment.quick else PILOT
    settings: list[dict[str, Any]] = [{"temperature": heat} for heat in TEMPERATURES]
    settings.insert(1, {"temperature": TEMPERATURES[0], "augmented": False})
    for setting in settings[:1] if experiment.quick else settings:
        whole.need(0 if experiment.quick else min(seconds, 20), f"pilot with {setting}")
        experiment.budget = Budget(min(seconds, whole.left)) if not experiment.quick else whole
        try:
            move(experiment, 0, replace(base, **setting), "pilot")
        except OutOfTime as reason:
            print(f"pilot with {setting} stopped: {reason}", flush=True)
        finally:
            experiment.budget = whole


def of_many_draws(experiment: Experiment, label: str, draws: int) -> float:
    """The held-out NLL that the average of so many draws would have, from that of a few.

    What an average of D draws gains over one of them grows as 1 − 1/D where they are exchangeable
    and differ little.
    """
    answers, _ = load(experiment.folder / "predictions", label)
    logs, labels = answers["held_out"], experiment.images.held_out.labels.cpu()
    few = len(logs)
    single = float(torch.stack([nll_loss(one.log_softmax(-1), labels) for one in logs]).mean())
    if few == 1:
        return single
    gain = single - float(nll_loss(average(logs), labels))
    return single - gain * (1 - 1 / draws) / (1 - 1 / few)


def looks(experiment: Experiment, draws: int) -> Iterator[dict[str, Any]]:
    """All that pilots have been asked, with the held-out NLL of many such draws."""
    for path in sorted((experiment.folder / "predictions").glob("pilot_*_t*.json")):
        row = read_json(path)
        nll = of_many_draws(experiment, path.stem, draws)
        kept = {name: row["motion"][name] for name in ("temperature", "augmented")}
        yield {**kept, "t": row["t"], "nll": nll, "loss": row.get("loss")}


def chosen(experiment: Experiment, base: Motion) -> Motion:
    """`base` with what held-out images like best at the latest time that all pilots reached."""

    def make() -> dict[str, Any]:
        found = [*looks(experiment, base.draws)]
        for row in found:
            experiment.say(f"pilot: {row}")
        ends: dict[tuple[float, bool], float] = {}
        for row in found:
            key = (row["temperature"], row["augmented"])
            ends[key] = max(row["t"], ends.get(key, 0.0))
        if not ends:
            return {}
        rows = [row for row in found if row["t"] == min(ends.values())]
        best = min(rows, key=lambda row: row["nll"])
        return {name: best[name] for name in ("temperature", "augmented")}

    path = experiment.folder / "chosen.json"
    found = kept(path, make, lambda value, file: write_json(file, value), read_json)
    experiment.say(f"chosen by pilots: {found}")
    return replace(base, **found)
