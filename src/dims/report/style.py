"""One style for all figures: colour-blind-safe, and the same colour for a method everywhere."""

from __future__ import annotations

from typing import Any

__all__ = ["COLOURS", "LABELS", "figure_style"]

# Okabe and Ito's palette.
COLOURS = {
    "map": "#000000",
    "la": "#CC79A7",
    "linla": "#56B4E9",
    "rla": "#E69F00",
    "dims": "#009E73",
    "deep_ensemble": "#0072B2",
    "swag": "#D55E00",
    "last_layer": "#999999",
}
LABELS = {
    "map": "MAP",
    "la": "LA",
    "linla": "LinLA",
    "rla": "RLA",
    "dims": "DiMS",
    "deep_ensemble": "deep ensemble",
    "swag": "SWAG",
    "last_layer": "last-layer Laplace",
}


def figure_style() -> Any:
    """A matplotlib context; nothing global is changed."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'dims[cli]'") from error
    matplotlib.use("Agg", force=False)
    import matplotlib.pyplot as plt

    return plt.rc_context(
        {
            "figure.dpi": 130,
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "legend.frameon": False,
        }
    )
