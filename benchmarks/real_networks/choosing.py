"""What motions of two draws choose for those of many, by held-out images: prior and energy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dims_paper.cache import kept, read_json, write_json
from real_networks.budget import Budget, OutOfTime
from real_networks.experiment import Experiment
from real_networks.motion import Motion, move, quick
from real_networks.predictions import load, of_many

PILOT = Motion(draws=2, times=(0.3, 1.0, 3.0))
SETTINGS: tuple[dict[str, Any], ...] = (
    {"prior": 0.5, "energy": 30.0, "averaged": True},
    {"prior": 0.5, "energy": 120.0, "averaged": True},
    {"prior": 0.5, "energy": 400.0, "averaged": True},
)
CHOSEN = ("prior", "energy", "averaged")


def pilots(experiment: Experiment, seconds: float) -> None:
    """Motions of two draws with several priors and energies."""
    whole = experiment.budget
    base = quick(experiment.device) if experiment.quick else PILOT
    for setting in SETTINGS[:1] if experiment.quick else SETTINGS:
        whole.need(0 if experiment.quick else min(seconds, 20), f"pilot with {setting}")
        experiment.budget = Budget(min(seconds, whole.left)) if not experiment.quick else whole
        try:
            move(experiment, 0, replace(base, **setting), "pilot")
        except OutOfTime as reason:
            print(f"pilot with {setting} stopped: {reason}", flush=True)
        finally:
            experiment.budget = whole


def looks(experiment: Experiment, draws: int) -> Iterator[dict[str, Any]]:
    """All that pilots have been asked, with the held-out NLL of many such draws."""
    for path in sorted((experiment.folder / "predictions").glob("pilot_*_t*.json")):
        row, answers = read_json(path), load(path.parent, path.stem)[0]["held_out"]
        nll = of_many(answers.log_softmax(-1), experiment.images.held_out.labels.cpu(), draws)
        kept = {name: row["motion"][name] for name in CHOSEN}
        yield {**kept, "t": row["t"], "nll": nll, "loss": row.get("loss")}


def chosen(experiment: Experiment, base: Motion) -> Motion:
    """`base` with what held-out images like best at the end of the motion."""

    def make() -> dict[str, Any]:
        found = [*looks(experiment, base.draws)]
        for row in found:
            experiment.say(f"pilot: {row}")
        rows = [row for row in found if row["t"] == PILOT.times[-1]]
        if not rows:
            return {}
        best = min(rows, key=lambda row: row["nll"])
        return {name: best[name] for name in CHOSEN}

    path = experiment.folder / "chosen.json"
    found = kept(path, make, lambda value, file: write_json(file, value), read_json)
    experiment.say(f"chosen by pilots: {found}")
    return replace(base, **found)
