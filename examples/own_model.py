"""Your own model: any torch module, here one whose input is a dict of numbers and categories.

The model predicts the rent of a flat from its size and its district, which enters through an
embedding. District 3 has few flats and district 4 has none, and the draws are less certain there.

    python examples/own_model.py            # twenty seconds
    python examples/own_model.py --quick    # a few seconds, with rough results
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import dims
from common import minimise_squares, options
from dims.commands.pages.style import COLOURS, figure_style

FLATS = (12, 12, 12, 3, 0)  # number per district


class Rent(nn.Module):
    """`forward` takes the dict and returns the mean of the target, (N, 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.district = nn.Embedding(len(FLATS), 2)
        self.body = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, flat: dict[str, Tensor]) -> Tensor:
        return self.body(torch.cat([flat["size"], self.district(flat["district"])], dim=-1))


def make_data() -> tuple[dict[str, Tensor], Tensor]:
    """Flats with their rents: each district has its own level."""
    generator = torch.Generator().manual_seed(0)
    district = torch.arange(len(FLATS)).repeat_interleave(torch.tensor(FLATS))
    size = 2 * torch.rand(len(district), 1, generator=generator, dtype=torch.float64) - 1
    level = torch.tensor([-1.0, 0.0, 1.0, 0.5, 0.0], dtype=torch.float64)[district].unsqueeze(-1)
    noise = torch.randn(size.shape, generator=generator, dtype=torch.float64)
    return {"size": size, "district": district}, level + 0.8 * size + 0.3 * noise


def train(inputs: dict[str, Tensor], targets: Tensor, epochs: int) -> nn.Module:
    """Minimise the squared error."""
    torch.manual_seed(0)
    model = Rent().double()
    return minimise_squares(model, inputs, targets, epochs)


def picture(
    draws: dims.Draws, inputs: dict[str, Tensor], targets: Tensor, path: Path
) -> list[float]:
    """Plot mean and two standard deviations; return the mean standard deviation per district."""
    size = torch.linspace(-1.5, 1.5, 60, dtype=torch.float64).unsqueeze(-1)
    spreads = []
    with figure_style() as plt:
        figure, axes = plt.subplots(1, len(FLATS), figsize=(12, 2.8), sharey=True)
        for district, axis in enumerate(axes):
            query = {"size": size, "district": torch.full((60,), district)}
            prediction = draws.predict(query)
            middle, spread = prediction.mean[:, 0], prediction.epistemic[:, 0].sqrt()
            spreads.append(float(spread.mean()))
            low, high = middle - 2 * spread, middle + 2 * spread
            axis.fill_between(size[:, 0], low, high, color=COLOURS["dims"], alpha=0.3)
            axis.plot(size, middle, color=COLOURS["dims"])
            here = inputs["district"] == district
            axis.plot(inputs["size"][here], targets[here], ".", color="black")
            axis.set(title=f"district {district}: {FLATS[district]} flats", xlabel="size, scaled")
        axes[0].set_ylabel("rent, scaled")
        figure.savefig(path)
        plt.close(figure)
    return spreads


def main(quick: bool, out: Path) -> list[float]:
    inputs, targets = make_data()
    model = train(inputs, targets, 1500 if quick else 3000)
    posterior = dims.fit(model, (inputs, targets), "regression", prior_precision=0.05, refine=True)
    draws = posterior.sample(
        5 if quick else 30, friction=0.2, max_time=0.5 if quick else 10.0, progress=False
    )
    print(draws.summary())
    out.mkdir(parents=True, exist_ok=True)
    spreads = picture(draws, inputs, targets, out / "own_model.png")
    for district, spread in enumerate(spreads):
        print(f"district {district}, {FLATS[district]:2} flats: spread {spread:.3f}")
    print(f"Figure: {out / 'own_model.png'}")
    return spreads


if __name__ == "__main__":
    main(**options(__doc__))
