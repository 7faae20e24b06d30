"""One style for all figures: safe for colour blindness, one colour per method everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dims.commands.pages.style import COLOURS

# Perceptually uniform, and readable in greyscale.
LOSS_MAP = "cividis"
UNCERTAINTY_MAP = "magma"
DATA_COLOUR, GAP_COLOUR = "#B22222", "#FFFFFF"


def method_key(name: str) -> str:
    """The key of a method name in results: "DiMS settled" → "dims_settled"."""
    return name.lower().replace(" ", "_").replace("-", "_")


def colour_of(name: str) -> str:
    """The colour of a method; grey if it has none."""
    return COLOURS.get(method_key(name), "#777777")


def save_figure(figure: Any, path: Path) -> list[Path]:
    """Write a PNG and a PDF without dates, so that equal figures give equal files."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    written = [path.with_suffix(".png"), path.with_suffix(".pdf")]
    figure.savefig(written[0], metadata={"Software": None})
    figure.savefig(written[1], metadata={"CreationDate": None})
    plt.close(figure)
    return written
