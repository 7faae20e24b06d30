"""One colour and one label per method everywhere; the palette is safe for colour blindness."""

from __future__ import annotations

__all__ = ["COLOURS", "LABELS"]

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
    "gravity": "gravity",
    "damped": "damped",
}
