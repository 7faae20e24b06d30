"""Every number of the LeNet experiments, and shorter versions of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from dims.model.training import Training
from dims_paper.training import lenet

# η₀ and the times t₁ at which the paper's tables look, for the seeds of its appendix.
SEED_RUNS: dict[int, tuple[float, tuple[float, ...]]] = {
    0: (0.1, (25.0, 50.0)),
    1: (0.5, (25.0, 100.0)),
    2: (0.5, (50.0,)),
}

# What a study of the motion on all images varies, and how tables write it.
SIGNS = {"effective_points": "N", "friction": "η₀", "gravity": "κ"}

WIDE = (12, 48), (1024, 220)  # channels and hidden units: 1 029 926 parameters
TRAINING = Training(epochs=10, batch_size=128, weight_decay=0.0)


@dataclass(frozen=True)
class ImageSettings:
    """What every part shares; the seed fixes network, subset and perturbations."""

    dataset: str = "mnist"
    seed: int = 0
    activation: str = "tanh"  # or "gelu", nearer to the usual ReLU and stiffer
    wide: bool = False  # a million parameters instead of 44 426
    training: Training = TRAINING
    train_images: int | None = None  # None: all
    test_images: int | None = None
    device: str = "cpu"

    @property
    def name(self) -> str:
        kind = "" if self.activation == "tanh" else f"_{self.activation}"
        return f"{self.dataset}{'_wide' if self.wide else ''}{kind}_{self.seed}"

    def network(self) -> nn.Module:
        activation = {"tanh": nn.Tanh, "gelu": nn.GELU}[self.activation]
        return lenet(activation, *WIDE) if self.wide else lenet(activation)


@dataclass(frozen=True)
class SubsetSettings:
    """The paper's run. Its rank is not stated; ours is 100."""

    points: int = 1000
    curvature: str = "low_rank"
    rank: int = 100
    draws: int = 100
    friction: float = 0.1
    times: tuple[float, ...] = (25.0, 50.0)
    rla_time: float = 1.0

    @property
    def kind(self) -> str:
        """The end of the name of its files."""
        return self.curvature


@dataclass(frozen=True)
class FullSettings:
    """All training images, scaled to the weight of a few."""

    effective_points: float = 1000.0
    rank: int = 100
    draws: int = 20
    friction: float = 0.1
    gravity: float = 1.0
    # Times at which draws are looked at; after each group of them the motion is kept in a file.
    segments: tuple[tuple[float, ...], ...] = ((1.0,), (5.0, 10.0, 20.0), (30.0, 40.0, 50.0))
    sizes: tuple[int, ...] = (4, 10, 20)  # of ensembles made of the first draws
    # Early draws separate OOD images best, late ones fit best: one more row has half of each.
    early: float | None = 5.0
    # Images of each segment; (): all. Fewer at first: far from rest their gradients are alike.
    images: tuple[int | None, ...] = ()
    studied: tuple[str, ...] = ()  # fields whose values are part of the run's name

    @property
    def kind(self) -> str:
        """The end of the name of its files."""
        return "_".join(self._named("{name}_{value:g}"))

    @property
    def label(self) -> str:
        return "DiMS " + ", ".join(self._named("{sign} = {value:g}"))

    def _named(self, form: str) -> list[str]:
        values = [
            form.format(name=name, sign=SIGNS[name], value=getattr(self, name))
            for name in self.studied
        ]
        return ["growing" if self.images else "full", *values]

    def study(self, **values: float) -> FullSettings:
        """The same run with another number of effective points, friction or gravity."""
        if not values:
            return self
        # Rows of a study are of one time each.
        return replace(self, **values, studied=tuple(values), early=None)  # type: ignore[arg-type]

    def until(self, end: float) -> FullSettings:
        """The same run, stopped early: its segments that end by then."""
        segments = tuple(times for times in self.segments if times[-1] <= end)
        return replace(self, segments=segments, images=self.images[: len(segments)])


# All images are there from t = 5 on: what the loss rises by when some are added must still fall,
# and with this friction it falls by 3.8 a unit of time at most.
GROWING = FullSettings(
    segments=((1.0,), (5.0,), (10.0, 20.0), (30.0, 40.0, 50.0), (75.0, 100.0)),
    images=(6000, 20_000, None, None, None),
)

PEER_TRAINING = Training(epochs=30, batch_size=128, weight_decay=1e-4, cosine=True)


@dataclass(frozen=True)
class PeerSettings:
    """Tuned baselines: the same architecture, trained three times longer."""

    sizes: tuple[int, ...] = (4, 10, 20)
    training: Training = PEER_TRAINING
    first_seed: int = 1000  # members are other networks than θ*
    swag_epochs: int = 20
    swag_lr: float = 0.02
    swag_prior: float = 1.0  # precision; of the loss of 60 000 images
    draws: int = 20
    kind = "peers"


def part_settings(part: str, seed: int, curvature: str = "low_rank") -> Any:
    """The settings of a part by its name; the subset has the paper's η₀ and t₁ of a seed."""
    if part == "peers":
        return PeerSettings()
    if part in ("full", "growing"):
        return GROWING if part == "growing" else FullSettings()
    friction, times = SEED_RUNS.get(seed, SEED_RUNS[0])
    subset = SubsetSettings(curvature=curvature, friction=friction, times=times)
    return replace(subset, draws=10) if part == "ood" else subset


def quick(settings: ImageSettings) -> ImageSettings:
    """A small part of the images, more epochs of it."""
    training = replace(settings.training, epochs=20, batch_size=32)
    return replace(settings, training=training, train_images=500, test_images=500)


def quick_part(part: SubsetSettings | FullSettings | PeerSettings) -> Any:
    """A minute of a part on one core: few draws, much friction, short times."""
    if isinstance(part, SubsetSettings):
        return replace(
            part, points=100, rank=20, draws=3, friction=2.0, times=(1.0, 2.0), rla_time=0.02
        )
    if isinstance(part, FullSettings):
        return replace(
            part,
            rank=20,
            draws=2,
            friction=2.0,
            segments=((0.02,), (0.05,)),
            sizes=(1, 2),
            images=(100, None) if part.images else (),
        )
    training = replace(part.training, epochs=2)
    return replace(part, sizes=(2, 3), training=training, swag_epochs=3, draws=3)
