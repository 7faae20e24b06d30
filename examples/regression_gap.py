"""Regression with a gap: four methods on the same network, plotted as functions.

The data have a gap in the middle. A good method fits the points and is uncertain in the gap. Prior,
friction and time were chosen by hand: with the tuned prior the draws are nearly the same function
(docs/choose.md shows both).

    python examples/regression_gap.py            # two minutes; runs/examples/regression_gap.png
    python examples/regression_gap.py --quick    # a few seconds, with rough results
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import dims
from common import minimise_squares, options
from dims.commands.pages.style import COLOURS, LABELS, figure_style

GAP = (-0.6, 0.9)


def make_data(each: int = 10) -> tuple[Tensor, Tensor]:
    """Noisy points of a sine, `each` on either side of the gap."""
    generator = torch.Generator().manual_seed(0)
    left = torch.linspace(-2.0, GAP[0], each, dtype=torch.float64)
    right = torch.linspace(GAP[1], 2.0, each, dtype=torch.float64)
    inputs = torch.cat([left, right]).unsqueeze(-1)
    noise = torch.randn(inputs.shape, generator=generator, dtype=torch.float64)
    return inputs, torch.sin(2 * inputs) + 0.1 * noise


def train(inputs: Tensor, targets: Tensor, epochs: int, width: int = 16) -> nn.Module:
    """A network with two hidden layers."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
    model = model.append(nn.Linear(width, 1)).double()
    return minimise_squares(model, inputs, targets, epochs)


def draw_by_all_methods(posterior: dims.Posterior, quick: bool) -> dict[str, dims.Draws]:
    """Draw with all four methods from the same Gaussian perturbations, so that they compare."""
    count = 4 if quick else 24
    draws = {name: posterior.sample(count, name, progress=False) for name in ("la", "linla")}
    draws["rla"] = posterior.sample(count, "rla", max_time=0.1 if quick else 1.0, progress=False)
    draws["dims"] = posterior.sample(
        count, "dims", friction=0.2, max_time=1.0 if quick else 10.0, progress=False
    )
    return draws


def picture(draws: dict[str, dims.Draws], inputs: Tensor, targets: Tensor, path: Path) -> None:
    """One panel per method."""
    grid = torch.linspace(-3, 3, 200, dtype=torch.float64).unsqueeze(-1)
    with figure_style() as plt:
        figure, axes = plt.subplots(1, 4, figsize=(12, 3), sharey=True)
        for axis, (name, made) in zip(axes, draws.items(), strict=True):
            curves = made.predict(grid).samples[:, :, 0]
            axis.axvspan(*GAP, color="0.93")
            axis.plot(grid, curves.T, color=COLOURS[name], alpha=0.4, linewidth=0.8)
            axis.plot(inputs, targets, ".", color="black")
            axis.set(title=LABELS[name], xlabel="input x", ylim=(-3, 3))
        axes[0].set_ylabel("output f(x)")
        figure.savefig(path)
        plt.close(figure)


def main(quick: bool, out: Path) -> dict[str, dims.Draws]:
    inputs, targets = make_data()
    model = train(inputs, targets, 1000, width=6) if quick else train(inputs, targets, 3000)
    # The prior decides how far the minima spread: a weak one keeps them connected.
    posterior = dims.fit(
        model, (inputs, targets), "regression", prior_precision=0.005, refine=not quick
    )
    print(f"noise {posterior.noise_std:.3f}, gradient norm at θ* {posterior.gradient_norm:.1e}")
    draws = draw_by_all_methods(posterior, quick)
    in_gap = torch.tensor([[sum(GAP) / 2]], dtype=torch.float64)
    for name, made in draws.items():
        at_data = made.predict(inputs).epistemic.mean().sqrt()
        between = made.predict(in_gap).epistemic.mean().sqrt()
        print(f"{LABELS[name]:>6}: spread {at_data:.3f} on the data, {between:.3f} in the gap")
    print(draws["dims"].summary())
    out.mkdir(parents=True, exist_ok=True)
    picture(draws, inputs, targets, out / "regression_gap.png")
    print(f"Figure: {out / 'regression_gap.png'}")
    return draws


if __name__ == "__main__":
    main(**options(__doc__))
