"""DiMS with the moving metric from a trained network, on its unaugmented training images."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

import dims
from dims.model.torch_support.tf32 import float32_products
from dims_paper.cache import kept_tensors
from real_networks.budget import Budget, Keeper, OutOfTime, stopwatch
from real_networks.experiment import Experiment
from real_networks.networks import network
from real_networks.training import standardised


@dataclass(frozen=True)
class Motion:
    """What is sampled, and how it is computed."""

    draws: int = 8
    times: tuple[float, ...] = (0.3, 1.0, 2.0, 3.0)
    prior: float = 0.5  # δ
    effective_points: float = 1000.0
    friction: float = 0.1
    rank: int = 40  # of the metric
    start_rank: int = 20  # of the curvature of the start velocities
    metric_points: int = 400
    images: int | None = None  # None: all
    curvature_images: int = 1_000
    precision: str = "bf16x2"
    compile: bool = True

    @property
    def label(self) -> str:
        part = "" if self.images is None else f"_{self.images}"
        return f"prior{self.prior:g}_friction{self.friction:g}_n{self.effective_points:g}{part}"


QUICK = Motion(
    draws=2,
    times=(0.002, 0.004),
    rank=3,
    start_rank=3,
    metric_points=16,
    curvature_images=32,
    precision="float32",
    compile=False,
)


class Start:
    """The surface, θ* and perturbations of one trained network."""

    def __init__(self, experiment: Experiment, seed: int, motion: Motion) -> None:
        images, device = experiment.images, experiment.device
        self.theta, self.trained = experiment.member(seed)
        self.model = network(experiment.name).to(device).eval()
        vector = experiment.trainer.vector
        with torch.no_grad():
            for name, tensor in vector.unflatten(self.theta).items():
                self.model.get_parameter(name).copy_(tensor)
        count = len(images.train.labels) if motion.images is None else motion.images
        pixels = images.train.pixels[:count]
        self.inputs = standardised(pixels, images.centre, images.scale)
        self.labels = images.train.labels[:count]
        self.scales = {"effective_points": motion.effective_points}
        self.motion = motion

    def surface(self) -> dims.LossSurface:
        m, data = self.motion, (self.inputs, self.labels)
        whole = dims.LossSurface(self.model, data, "classification", m.prior, **self.scales)
        on_gpu = self.theta.device.type == "cuda"
        return whole.with_single_rows(m.precision, compile=m.compile and on_gpu)

    def perturbations(self, seed: int) -> Tensor:
        """ε of a Laplace posterior whose curvature is that of some images, scaled to as many."""
        m = self.motion
        few = self.inputs[: m.curvature_images], self.labels[: m.curvature_images]
        with warnings.catch_warnings():
            # θ* minimises another loss: of augmented images, with weight decay.
            warnings.simplefilter("ignore", dims.NotAMinimumWarning)
            posterior = dims.fit(
                self.model,
                few,
                "classification",
                curvature="low_rank",
                rank=m.start_rank,
                tune=False,
                prior_precision=m.prior,
                progress=False,
                **self.scales,
            )
        return posterior.perturbations(m.draws, seed)


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
        facts = {"seconds": seconds + record["start_seconds"], "t": t, "network": seed, **record}
        facts["loss"] = found["loss"][index].tolist()
        facts["kinetic_energy"] = found["kinetic_energy"][index].tolist()
        last = t == motion.times[-1] and name != "pilot"
        made = list(thetas), facts
        experiment.predict(labels[t], lambda made=made: made, corrupted=last)  # type: ignore[misc]


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
    experiment.say(f"{whole}: ready after {set_up:.0f} s, a gradient takes {gradient:.3f} s a row")
    keeper = Keeper(folder / f"{whole}_state.safetensors", experiment.budget)

    def make() -> dict[str, Tensor]:
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
        _look(experiment, keeper, whole, seed)
        raise
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else None
    record = {
        "motion": asdict(motion),
        "start_seconds": float(kept["seconds"]),
        "gradient_seconds": gradient,
        "peak_memory": peak,
        "training_seconds": start.trained,
        "parameters": surface.size,
        **{name: found[name].tolist() for name in (*FACTS, "status")},
    }
    return dict(found), record


FACTS = (
    "evaluations",
    "refreshes",
    "gradient_equivalents",
    "energy_violation",
    "energy_balance",
    "arc_length",
    "metric_length",
)


def _timed_start(start: Start, seed: int, device: torch.device) -> dict[str, Tensor]:
    with stopwatch(device) as seconds:
        velocities = start.perturbations(seed)
        taken = torch.tensor(seconds(), dtype=torch.float64)
    return {"velocities": velocities, "seconds": taken}


def _look(experiment: Experiment, keeper: Keeper, whole: str, seed: int) -> None:
    """What the draws are worth where they were stopped; overwritten if the run goes on."""
    if not keeper.now:
        return
    times = keeper.now["state.time"]
    record = {
        "seconds": keeper.seconds,
        "t": float(times.min()),
        "latest": float(times.max()),
        "network": seed,
        "stopped": True,
    }
    thetas = list(keeper.now["state.position"].float())
    label = f"{whole}_stopped{keeper.seconds:.0f}s"
    experiment.predict(label, lambda: (thetas, record), corrupted=False)


PILOTS = (
    Motion(draws=2, images=19_200, times=(0.3, 1.0, 2.0), friction=0.3),
    Motion(draws=2, images=19_200, times=(0.3, 1.0, 2.0)),
    Motion(draws=2, images=19_200, times=(0.3, 1.0, 2.0), prior=0.05),
)


def pilots(experiment: Experiment, seconds: float) -> None:
    """Short motions with few draws, to choose prior and friction on held-out images by."""
    whole = experiment.budget
    for number, motion in enumerate(PILOTS[:1] if experiment.quick else PILOTS):
        chosen = replace(QUICK, friction=motion.friction) if experiment.quick else motion
        whole.need(seconds if not experiment.quick else 0, f"pilot {number}")
        experiment.budget = Budget(min(seconds, whole.left)) if not experiment.quick else whole
        try:
            move(experiment, 0, chosen, "pilot")
        except OutOfTime as reason:
            print(f"pilot {number} stopped: {reason}", flush=True)
        finally:
            experiment.budget = whole
