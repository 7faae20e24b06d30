"""One colour and one label per method everywhere; the palette is safe for colour blindness."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["COLOURS", "LABELS", "figure_style"]

# Okabe and Ito's palette; "gravity" and "damped" are the dynamics between RLA and DiMS.
COLOURS = {
    "map": "#000000",
    "la": "#CC79A7",
    "linla": "#56B4E9",
    "rla": "#E69F00",
    "dims": "#009E73",
    "dims_settled": "#00664B",
    "deep_ensemble": "#0072B2",
    "swag": "#D55E00",
    "last_layer": "#999999",
    "network": "#000000",
    "temperature": "#882255",
    "mc_dropout": "#F0E442",
    "gravity": "#CC79A7",
    "damped": "#0072B2",
}
LABELS = {
    "map": "MAP",
    "la": "LA",
    "linla": "LinLA",
    "rla": "RLA",
    "dims": "DiMS",
    "dims_settled": "DiMS settled",
    "deep_ensemble": "deep ensemble",
    "swag": "SWAG",
    "last_layer": "last-layer Laplace",
    "network": "network",
    "temperature": "temperature",
    "mc_dropout": "MC dropout",
    "gravity": "gravity",
    "damped": "damped",
}


@contextmanager
def figure_style() -> Iterator[Any]:
    """A context with matplotlib.pyplot in this style; global settings do not change."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'dims[cli]'") from error
    matplotlib.use("Agg", force=False)
    import matplotlib.pyplot as plt

    with plt.rc_context(
        {
            "figure.dpi": 130,
            "figure.constrained_layout.use": True,
            "font.size": 9,
            "axes.titlesize": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "legend.frameon": False,
            "pdf.fonttype": 42,  # searchable text
        }
    ):
        yield plt
