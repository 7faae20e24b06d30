"""DiMS with the moving metric from a trained network, on its training images.

The images are as they are, or flipped and shifted once by chance: then the loss is that which
training lowered, of one pass that stays the same.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

import dims
from dims.mechanics.ledger import energy_violation
from dims.mechanics.record import PAGE
from dims.model.torch_support.tf32 import float32_products
from dims_paper.cache import kept_tensors
from real_networks.budget import Keeper, OutOfTime, alone, stopwatch
from real_networks.experiment import Experiment
from real_networks.networks import network
from real_networks.training import by_chance, standardised
from real_networks.velocities import start_velocities


@dataclass(frozen=True)
class Motion:
    """What is sampled, and how it is computed."""

    draws: int = 8
    times: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0)
    prior: float = 0.5  # δ: that of the weight decay 5e-4 for 1 000 points
    effective_points: float = 1000.0
    energy: float = 20.0  # mean kinetic energy at the start, in nats
    friction: float = 0.1
    rank: int = 40  # of the metric
    start_rank: int = 20  # of the curvature of the start velocities
    metric_points: int = 400
    images: int | None = None  # None: all
    augmented: bool = True
    averaged: bool = False  # start at the mean of SWAG's iterates, not at the trained network
    curvature_images: int = 400
    precision: str = "bf16x2"
    compile: bool = True
    at_once: int = 4_800  # images of a piece of a gradient

    @property
    def label(self) -> str:
        part = "" if self.images is None else f"_{self.images}"
        part += "" if self.augmented else "_plain"
        part += "_averaged" if self.averaged else ""
        points, energy = f"{self.effective_points:g}", f"{self.energy:g}"
        return f"prior{self.prior:g}_friction{self.friction:g}_n{points}_E{energy}{part}"


# ResNet-18 has 41 times the parameters of ResNet-20 and 3 times its activations.
DEFAULTS = {
    "resnet20": Motion(),
    "resnet18": Motion(
        draws=2,
        images=9_600,
        start_rank=10,
        curvature_images=160,
        metric_points=200,
        at_once=1_600,
    ),
}
QUICK = Motion(
    draws=2,
    images=None,
    times=(0.002, 0.004),
    rank=3,
    start_rank=3,
    metric_points=16,
    curvature_images=32,
    precision="float32",
    compile=False,
)


def quick(device: torch.device) -> Motion:
    """On a GPU with all that can fail there."""
    on_gpu = device.type == "cuda"
    return replace(QUICK, precision="bf16x2", compile=True) if on_gpu else QUICK


class Start:
    """The surface, θ* and perturbations of one trained network."""

    def __init__(self, experiment: Experiment, seed: int, motion: Motion) -> None:
        images, device = experiment.images, experiment.device
        start = experiment.averaged if motion.averaged else experiment.member
        self.theta, self.trained = start(seed)
        self.model = network(experiment.name).to(device).eval()
        vector = experiment.trainer.vector
        with torch.no_grad():
            for name, tensor in vector.unflatten(self.theta).items():
                self.model.get_parameter(name).copy_(tensor)
        count = len(images.train.labels) if motion.images is None else motion.images
        self.inputs = standardised(images.train.pixels[:count], images.centre, images.scale)
        if motion.augmented:
            generator = torch.Generator(device).manual_seed(1_000 + seed)
            rows = torch.arange(count, device=device)
            self.inputs = experiment.trainer.augmented(by_chance(rows, generator))
        self.labels = images.train.labels[:count]
        self.motion = motion

    def surface(self) -> dims.LossSurface:
        m, on_gpu = self.motion, self.theta.device.type == "cuda"
        budget = None
        if on_gpu:  # pieces of the same size for any number of images: compiled once
            budget = self._loss(2).bytes_per_point * m.at_once
        whole = self._loss(len(self.labels), budget)
        return whole.with_single_rows(m.precision, compile=m.compile and on_gpu)

    def perturbations(self, seed: int) -> Tensor:
        """Start velocities from the curvature of some images, which count as all of them."""
        m, on_gpu = self.motion, self.theta.device.type == "cuda"
        if on_gpu:
            torch.cuda.empty_cache()
        room = torch.cuda.mem_get_info()[0] // 2 if on_gpu else None
        surface = self._loss(m.curvature_images, room)
        return start_velocities(surface, self.theta, m.draws, m.start_rank, m.energy, seed)

    def _loss(self, count: int, budget: int | None = None) -> dims.LossSurface:
        m, data = self.motion, (self.inputs[:count], self.labels[:count])
        return dims.LossSurface(
            self.model,
            data,
            "classification",
            m.prior,
            effective_points=m.effective_points,
            memory_budget=budget,
        )


def move(experiment: Experiment, seed: int, motion: Motion, name: str = "dims") -> None:
    """Trajectories from member `seed`, and predictions at all saved times."""
    whole = f"{name}_{motion.label}_{seed}"
    labels = {t: f"{whole}_t{t:g}" for t in motion.times}
    folder = experiment.folder
    if all((folder / "predictions" / f"{label}.json").exists() for label in labels.values()):
        return
    if experiment.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with float32_products():
        found, record = _trajectories(experiment, seed, motion, whole)
    for index, t in enumerate(motion.times):
        thetas, seconds = found["positions"][index], float(found["reached"][index])
        facts = {"seconds": seconds + record["start_seconds"], "t": t, **record}
        facts["loss"] = found["loss"][index].tolist()
        facts["kinetic_energy"] = found["kinetic_energy"][index].tolist()
        made = list(thetas), facts
        experiment.predict(
            labels[t],
            lambda made=made: made,  # type: ignore[misc]
            corrupted=name != "pilot",
        )


def _trajectories(
    experiment: Experiment, seed: int, motion: Motion, whole: str
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    device, folder = experiment.device, experiment.folder / "motion"
    with stopwatch(device) as setup:
        start = Start(experiment, seed, motion)
        kept = kept_tensors(
            folder / f"{whole}_start.safetensors",
            lambda: _timed_start(start, seed, device),
            str(device),
        )
        surface = start.surface()
        surface.value_and_grad(start.theta.unsqueeze(0))  # compiles
        with stopwatch(device) as seconds:
            surface.value_and_grad(start.theta.unsqueeze(0))
            gradient = seconds()
        set_up = setup()
    experiment.say(
        f"{whole}: ready after {set_up:.0f} s ({float(kept['seconds']):.0f} s for start "
        f"velocities), a gradient takes {gradient:.3f} s a row"
    )
    record = {
        "motion": asdict(motion),
        "network": seed,
        "start_seconds": float(kept["seconds"]),
        "gradient_seconds": gradient,
        "images": surface.points,
        "training_seconds": start.trained,
        "parameters": surface.size,
    }
    keeper = Keeper(folder / f"{whole}_state.safetensors", experiment.budget)

    def make() -> dict[str, Tensor]:
        with alone(device):
            keeper.began = time.perf_counter()
            path = dims.integrate(
                surface,
                start.theta,
                kept["velocities"],
                dynamics=dims.dissipative(1.0, motion.friction),
                max_time=motion.times[-1],
                save_at=motion.times,
                metric=dims.MovingMetric(rank=motion.rank, points=motion.metric_points, seed=seed),
                checkpoint=keeper,
                progress=lambda p: experiment.say(
                    f"{whole}: t {p.mean_time:.3f}, T {p.mean_kinetic_energy:.4g}, "
                    f"L {p.mean_loss:.5g}, {keeper.seconds:.0f} s"
                ),
            )
        facts = {name: getattr(path, name) for name in FACTS}
        facts["status"] = torch.tensor([status.code for status in path.status])
        reached = [keeper.reached(t) for t in motion.times[:-1]] + [keeper.seconds]
        return {
            "positions": path.positions,
            "loss": path.loss,
            "kinetic_energy": path.kinetic_energy,
            "reached": torch.tensor(reached, dtype=torch.float64),
            **{name: tensor.contiguous() for name, tensor in facts.items()},
        }

    try:
        found = kept_tensors(folder / f"{whole}_draws.safetensors", make, str(device))
    except OutOfTime:
        _look(experiment, keeper, whole, {**record, "peak_memory": _peak(device)}, motion)
        raise
    record["peak_memory"] = _peak(device)
    return dict(found), record | {name: found[name].tolist() for name in (*FACTS, "status")}


FACTS = (
    "evaluations",
    "refreshes",
    "gradient_equivalents",
    "energy_violation",
    "energy_balance",
    "arc_length",
    "metric_length",
)


def _peak(device: torch.device) -> int | None:
    return torch.cuda.max_memory_allocated() if device.type == "cuda" else None


def _timed_start(start: Start, seed: int, device: torch.device) -> dict[str, Tensor]:
    with alone(device), stopwatch(device) as seconds:
        velocities = start.perturbations(seed)
        taken = torch.tensor(seconds(), dtype=torch.float64)
    return {"velocities": velocities, "seconds": taken}


def _look(
    experiment: Experiment, keeper: Keeper, whole: str, record: dict[str, Any], motion: Motion
) -> None:
    """What the draws are worth at the times they have passed, and where they were stopped."""
    if not keeper.now:
        return
    begun = record["start_seconds"]
    for t, thetas in zip(motion.times, keeper.now["positions"].float(), strict=True):
        if thetas.isfinite().all():
            facts = {**record, "t": t, "seconds": keeper.reached(t) + begun, "stopped": True}
            experiment.predict(f"{whole}_t{t:g}", lambda m=(list(thetas), facts): m)  # type: ignore[misc]
    times, thetas = keeper.now["state.time"], keeper.now["state.position"].float()
    facts: dict[str, Any] = {"t": float(times.min()), "latest": float(times.max())}
    facts["seconds"] = keeper.seconds + begun
    facts |= _energies(keeper.now, motion)
    made = list(thetas), {**record, **facts, "stopped": True}
    experiment.predict(f"{whole}_stopped{keeper.seconds:.0f}s", lambda: made, corrupted=False)


def _energies(now: dict[str, Tensor], motion: Motion) -> dict[str, list[float]]:
    """Energy violation and gradients of rows that all still run; nothing if some have ended."""
    if len(now["rows"]) < motion.draws:
        return {}
    columns = [now[name].split(now["page_lengths"].tolist()) for name in PAGE]
    ledger = SimpleNamespace(
        lowest_loss=now["state.ledger.lowest_loss"], start_energy=now["state.ledger.start_energy"]
    )
    pages = list(zip(*columns, strict=True))
    worst = energy_violation(pages, ledger, dims.dissipative(1.0, motion.friction))  # type: ignore[arg-type]
    evaluations = now["state.ledger.evaluations"].tolist()
    return {"energy_violation": worst.tolist(), "evaluations": evaluations}
