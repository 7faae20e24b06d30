"""Classification: detect out-of-distribution (OOD) inputs by the disagreement of the draws.

The training data are two moons; the OOD points are a ring far away from them. A single trained
network is as confident on the ring as on its own data. The draws disagree there, and their
disagreement (mutual information) detects the OOD points.

This needs a weak prior. It was chosen by hand from three values, on these very points. With the
tuned prior all draws end in one minimum and detect nothing (docs/ood.md lists all nine trials).

    python examples/classification_ood.py            # ten seconds
    python examples/classification_ood.py --quick    # a few seconds, with rough results
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from dims.metrics import ood_auroc
from torch import Tensor, nn

import dims
from dims.commands.pages.style import figure_style


def two_moons(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Two interleaved half circles with noise; classes 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    angle = math.pi * torch.rand(count, generator=generator, dtype=torch.float64)
    label = torch.arange(count) % 2
    upper = torch.stack([angle.cos(), angle.sin()], dim=1)
    lower = torch.stack([1 - angle.cos(), 0.5 - angle.sin()], dim=1)
    points = torch.where(label.unsqueeze(-1) == 0, upper, lower)
    noise = torch.randn(points.shape, generator=generator, dtype=torch.float64)
    return points + 0.1 * noise - torch.tensor([0.5, 0.25]), label


def far_points(count: int) -> Tensor:
    """A ring around the data, far out of distribution."""
    angle = torch.linspace(0, 2 * math.pi, count + 1, dtype=torch.float64)[:-1]
    return 4.0 * torch.stack([angle.cos(), angle.sin()], dim=1)


def train(inputs: Tensor, labels: Tensor, epochs: int) -> nn.Module:
    """A network with two hidden layers of 16."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
    model = model.append(nn.Linear(16, 2)).double()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
    for _ in range(epochs):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()
    return model


def entropy_of(model: nn.Module, inputs: Tensor) -> Tensor:
    """Entropy of the trained network's prediction, in nats."""
    with torch.no_grad():
        return torch.distributions.Categorical(logits=model(inputs)).entropy()


def picture(
    model: nn.Module, draws: dims.Draws, inputs: Tensor, labels: Tensor, far: Tensor, path: Path
) -> None:
    """Uncertainty maps of the trained network and of the draws."""
    axis_points = torch.linspace(-5, 5, 80, dtype=torch.float64)
    grid = torch.cartesian_prod(axis_points, axis_points)
    prediction = draws.predict(grid)
    maps = {
        "entropy of the trained network": entropy_of(model, grid),
        "entropy of the draws": prediction.entropy,
        "disagreement of the draws": prediction.mutual_information,
    }
    with figure_style() as plt:
        figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), sharex=True, sharey=True)
        for axis, (title, values) in zip(axes, maps.items(), strict=True):
            picture = axis.pcolormesh(
                axis_points.numpy(),
                axis_points.numpy(),
                values.reshape(80, 80).T.numpy(),
                cmap="magma",
                vmin=0,
                vmax=math.log(2),
                rasterized=True,
            )
            for label, marker in ((0, "o"), (1, "s")):
                own = inputs[labels == label]
                axis.plot(*own.T, marker, color="white", markersize=2)
            axis.plot(*far.T, "x", color="cyan", markersize=4)
            axis.set(title=title, xlabel="x₁", aspect="equal")
            axis.grid(False)
        axes[0].set_ylabel("x₂")
        figure.colorbar(picture, ax=axes, label="nats")
        figure.savefig(path)
        plt.close(figure)


def main(quick: bool, out: Path) -> dict[str, float]:
    inputs, labels = two_moons(100, seed=0)
    unseen, _ = two_moons(200, seed=1)
    far = far_points(40)
    model = train(inputs, labels, 500 if quick else 1000)
    # A weak prior: a strong one leaves few minima, and all draws would end in the same one.
    posterior = dims.fit(
        model, (inputs, labels), "classification", prior_precision=0.005, refine=True
    )
    draws = posterior.sample(
        10 if quick else 40, friction=0.1, max_time=5.0 if quick else 20.0, progress=False
    )
    print(draws.summary())
    inside, outside = draws.predict(unseen), draws.predict(far)
    scores = {
        "trained network, entropy": (entropy_of(model, unseen), entropy_of(model, far)),
        "draws, entropy": (inside.entropy, outside.entropy),
        "draws, disagreement": (inside.mutual_information, outside.mutual_information),
    }
    found = {name: float(ood_auroc(*pair)) for name, pair in scores.items()}
    for name, value in found.items():
        print(f"{name:>26}: OOD points detected with AUROC {value:.3f}")
    out.mkdir(parents=True, exist_ok=True)
    picture(model, draws, inputs, labels, far, out / "classification_ood.png")
    print(f"Figure: {out / 'classification_ood.png'}")
    return found


if __name__ == "__main__":
    from common import options

    main(**options(__doc__))
