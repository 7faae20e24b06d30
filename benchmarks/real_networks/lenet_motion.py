"""Draws from trained LeNets: prior, energy and time by held-out images, then 20 draws each."""

from __future__ import annotations

import time
import traceback
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

import dims
from dims.model.torch_support.tf32 import float32_products
from dims_paper.cache import kept, kept_tensors, load_tensors, read_json, write_json
from dims_paper.training import lenet
from real_networks.budget import Budget, Keeper, OutOfTime, alone, stopwatch
from real_networks.lenet import LeNets, outputs
from real_networks.motion import FACTS
from real_networks.predictions import of_many
from real_networks.velocities import start_velocities

POINTS = 100.0  # what all images count as: the fewer, the sooner a draw comes down
PILOT_DRAWS = 8
CHOICES = (  # prior precision and energy; priors are 5 and 20 times the weight decay
    (0.05, 400.0),
    (0.2, 400.0),
    (0.2, 2000.0),
)


@dataclass(frozen=True)
class Journey:
    """What is sampled, how fast draws start, and how long they move."""

    prior: float
    energy: float
    times: tuple[float, ...]


def travel(
    lenets: LeNets, label: str, theta: Tensor, images: int, draws: int, journey: Journey, seed: int
) -> dict[str, Tensor]:
    """Positions at all times and the seconds to each, of draws on the first so many images."""
    s, device = lenets.settings, lenets.device
    model = lenet().to(device).eval()
    nn.utils.vector_to_parameters(theta, model.parameters())
    data = (lenets.inputs[:images], lenets.labels[:images])
    folder = lenets.folder / "motion"

    def surface(count: int) -> dims.LossSurface:
        few = (data[0][:count], data[1][:count])
        return dims.LossSurface(
            model, few, "classification", journey.prior, effective_points=POINTS
        )

    def begin() -> dict[str, Tensor]:
        with alone(device), stopwatch(device) as seconds, warnings.catch_warnings():
            warnings.simplefilter("ignore", dims.DimsWarning)
            few = surface(s.curvature_images)
            found = start_velocities(few, theta, draws, s.rank, journey.energy, seed)
            taken = torch.tensor(seconds(), dtype=torch.float64)
        return {"velocities": found, "seconds": taken}

    start = kept_tensors(folder / f"{label}_start.safetensors", begin, str(device))
    whole = surface(images)
    if device.type == "cuda":
        whole = whole.with_compiled_gradient()
        whole.value_and_grad(theta.expand(draws, -1).contiguous())  # compiles
    keeper = Keeper(folder / f"{label}_state.safetensors", lenets.budget)

    def make() -> dict[str, Tensor]:
        with alone(device):
            keeper.began = time.perf_counter()
            path = dims.integrate(
                whole,
                theta,
                start["velocities"],
                dynamics=dims.dissipative(1.0, s.friction),
                max_time=journey.times[-1],
                save_at=journey.times,
                metric=dims.MovingMetric(seed=seed),
                checkpoint=keeper,
            )
            reached = [keeper.reached(t) for t in journey.times[:-1]] + [keeper.seconds]
        seconds = torch.tensor(reached, dtype=torch.float64) + start["seconds"].cpu()
        facts = {name: getattr(path, name).contiguous() for name in FACTS}
        return {"positions": path.positions, "seconds": seconds, "loss": path.loss, **facts}

    return dict(kept_tensors(folder / f"{label}_draws.safetensors", make, str(device)))


def choose(lenets: LeNets) -> dict[str, Any]:
    """Prior, energy and time with the lowest NLL of held-out images, from a searched network."""

    def make() -> dict[str, Any]:
        s, held = lenets.settings, lenets.held
        _ = lenets.chosen  # trains the network
        theta = load_tensors(lenets.folder / "search.safetensors")["thetas"][0].to(lenets.device)
        images, labels = lenets.inputs[-held:], lenets.labels[-held:]
        rows, total = list[dict[str, Any]](), 0.0
        choices = CHOICES if s.train_images is None else CHOICES[:1]
        draws = min(PILOT_DRAWS, s.members)
        for number, (prior, energy) in enumerate(choices):
            journey = Journey(prior, energy, s.times)
            count = len(lenets.labels) - held
            found = travel(lenets, f"pilot_{number}", theta, count, draws, journey, seed=50)
            total += float(found["seconds"][-1])
            for t, some in zip(s.times, found["positions"], strict=True):
                logs = outputs(lenets.plain, some.contiguous(), images)
                nll = of_many(logs, labels, s.members)
                evaluations = float(found["evaluations"].double().mean())
                row = {"prior": prior, "energy": energy, "t": t, "nll": nll}
                rows.append({**row, "evaluations": evaluations})
                lenets.say(f"pilot: {rows[-1]}")
        best = min(rows, key=lambda row: row["nll"])
        return {"tried": rows, "best": best, "seconds": total}

    path = lenets.folder / "motion.json"
    return kept(path, make, lambda found, file: write_json(file, found), read_json)


def draw(lenets: LeNets, number: int) -> None:
    """20 draws from the first member of an ensemble, and what they say at all times."""
    chosen = choose(lenets)
    best, s = chosen["best"], lenets.settings
    times = tuple(t for t in s.times if t <= best["t"])
    journey = Journey(best["prior"], best["energy"], times)
    thetas, trained = lenets.ensemble(number)
    label, count = f"dims_{number}", len(lenets.labels)
    found = travel(lenets, label, thetas[0].contiguous(), count, s.members, journey, number)
    record = {name: found[name].tolist() for name in FACTS}
    record |= {
        "network": number,
        "training_seconds": trained,
        "choosing_seconds": chosen["seconds"],
    }
    record |= {"motion": asdict(journey), "prior": journey.prior}
    for index, t in enumerate(times):
        rows, seconds = found["positions"][index].contiguous(), float(found["seconds"][index])
        lenets.predict(f"{label}_t{t:g}", rows, {**record, "t": t, "seconds": seconds})


def run(lenets: LeNets, steps: list[str]) -> None:
    """Search and ensembles, then the draws of each training; one that fails leaves the others."""
    whole, count = lenets.budget, lenets.settings.trainings
    on_gpu = lenets.device.type == "cuda"
    for number in range(count if "ensemble" in steps else 0):
        whole.need(40 if on_gpu else 0, f"ensemble {number}")
        thetas, seconds = lenets.ensemble(number)
        record = {"seconds": seconds, "network": number}
        lenets.predict(f"ensemble_{number}", thetas, record)
    late = list[str]()
    for number in range(count if "dims" in steps else 0):
        lenets.budget = Budget(whole.left / (count - number))
        try:
            with float32_products():
                draw(lenets, number)
        except OutOfTime as reason:
            late.append(str(reason))
        except Exception:
            if not on_gpu:
                raise
            traceback.print_exc()
    lenets.budget = whole
    if late:
        raise OutOfTime("; ".join(late))
