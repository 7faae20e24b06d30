"""The figures of docs/real_networks.md, from the files of scores.

The letters are large beside the axes: a phone shows a figure at two thirds of its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dims.commands.pages.style import COLOURS, LABELS, figure_style

__all__ = ["NAMES", "corruption_figure", "cost_figure"]

Scores = dict[str, Any]
NAMES = LABELS | {
    "averaged": "mean of SWAG's iterates",
    "last_layer_averaged": "last-layer Laplace at that mean",
    "cyclical": "cyclical SGHMC",
    "dropout": "MC dropout",
}
MORE_COLOURS = {
    "averaged": "#E69F00",
    "last_layer_averaged": "#CC79A7",
    "cyclical": "#56B4E9",
    "dropout": COLOURS["mc_dropout"],
}
WIDTH = 6.2  # inches
SETTINGS = {
    "font.size": 11,
    "axes.labelsize": 11,
    "axes.titlesize": 11,
    "legend.fontsize": 10.5,
    "svg.hashsalt": "real networks",  # the same file from the same scores
}


def _shown(found: Scores) -> list[Scores]:
    """Methods of the figures; an ensemble of one is the network."""
    several = any(row["name"] == "ensemble of 2" for row in found["methods"])
    rows = [row for row in found["methods"] if row["kind"] != "pilot"]
    return [row for row in rows if several or row["kind"] != "ensemble"]


def _colour(kind: str) -> str:
    return (COLOURS | MORE_COLOURS)["deep_ensemble" if kind == "ensemble" else kind]


def _curve(row: Scores) -> tuple[str, str]:
    """What the legend calls the curves of a row's method, and their marker."""
    kind = row["kind"]
    if kind == "dims":
        if row["name"].endswith(" weighted"):
            return "DiMS, weighted", "*"
        if "≥" in row["name"]:
            return "DiMS, averaged over times", "^"
        if row["network"] is None:
            return "DiMS, several networks", "D"
        return "DiMS, one time each", "o-"
    return NAMES.get(kind, kind), "o-" if kind == "ensemble" else "o"


@contextmanager
def _drawn(path: Path, height: float, panels: int = 1) -> Iterator[Sequence[Any]]:
    """Axes to draw on; then a legend below them, and the file."""
    with figure_style() as pyplot:
        pyplot.rcParams.update(SETTINGS)
        drawn, axes = pyplot.subplots(1, panels, figsize=(WIDTH, height), squeeze=False)
        yield axes[0]
        handles, labels = axes[0][0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=2)
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(path, metadata={"Date": None})
        pyplot.close(drawn)


def cost_figure(found: Scores, path: Path) -> None:
    """NLL against GPU-seconds, a curve for each method and network."""
    curves: dict[tuple[str, str, str, int | None], list[tuple[float, float]]] = {}
    for row in _shown(found):
        name = (*_curve(row), row["kind"], row["network"])
        curves.setdefault(name, []).append((row["seconds"], row["nll"]))
    labels = {label for label, *_ in curves}
    with _drawn(path, 3.3 + 0.11 * len(labels)) as (axes,):
        for (label, line, kind, _), points in curves.items():
            known = label not in labels  # one entry of the legend for all networks
            labels.discard(label)
            axes.plot(
                *zip(*sorted(points), strict=True),
                line,
                color=_colour(kind),
                markersize=10 if line in "*^" else 6,
                fillstyle="none" if line in "*^" else "full",  # they lie over each other
                label=None if known else label,
            )
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        ticks = [v for v in (10, 15, 20, 30, 50, 70, 100, 150, 200, 300) if low <= v <= high]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("GPU-seconds, training included")
        axes.set_ylabel("NLL on the test images")


def corruption_figure(found: Scores, path: Path) -> None:
    """NLL and ECE against strength: of each kind the best on held-out images.

    Methods that start from one network are shown for the networks of the draws only, if there are
    draws: another network would be compared otherwise.
    """
    rows = [row for row in _shown(found) if "corrupted" in row]
    starts = {row["network"] for row in rows if row["kind"] == "dims"} or {
        row["network"] for row in rows
    }
    best: dict[str, Scores] = {}
    for row in rows:
        known = best.get(row["kind"])
        better = known is None or row["held_out_nll"] < known["held_out_nll"]
        if better and (row["network"] is None or row["network"] in starts):
            best[row["kind"]] = row
    with _drawn(path, 3.1 + 0.11 * len(best), panels=2) as both:
        for axes, column in zip(both, ("nll", "ece"), strict=True):
            for kind, row in best.items():
                network = "" if row["network"] is None else f", network {row['network']}"
                name = row["name"] if kind == "ensemble" else _curve(row)[0] + network
                line = {"marker": "o", "markersize": 4, "color": _colour(kind), "label": name}
                axes.plot(range(1, 6), row["corrupted"][column], **line)
            axes.set_xlabel("strength")
            axes.set_title(column.upper())
            axes.set_xticks(range(1, 6))
