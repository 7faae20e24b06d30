"""The page of a comparison: a table, a sentence, reliability diagrams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dims.baselines.compare import read_comparison
from dims.baselines.comparison import Comparison, MethodScores
from dims.commands.pages.parts import CITATION, column, table
from dims.commands.pages.style import LABELS

__all__ = ["compare_page"]


def compare_page(folder: Path) -> dict[str, Any]:
    """Turn the folder of a comparison into the data of a page.

    Args:
        folder: What `dims.compare` had as `store`.

    Returns:
        The data of a page.

    Raises:
        StoreError: The folder holds no comparison.
    """
    found = read_comparison(folder)
    classes = found.task == "classification"
    shown = "Confidence and accuracy" if classes else "Levels and coverage of central intervals"
    return {
        "title": f"Comparison: {folder.name}",
        "subtitle": "The same held-out rows to choose by, the same test rows to score on.",
        "facts": [
            ["task", found.task],
            ["test rows", len(found[found.best].nll)],
            ["intervals", "95 %, over resampled test rows"],
            ["calibration", f"{shown} on the test rows"],
            ["units", found.units()],
        ],
        "advice": [found.recommendation(), *_problems(found)],
        "tables": [_table(found, classes)],
        "runs": [{"name": folder.name, "method": "comparison", **_calibration(found, classes)}],
        "citation": CITATION,
    }


def _problems(found: Comparison) -> list[str]:
    lost = [f"{_label(s)}: no result ({s.problem})" for s in found.methods if s.problem]
    return lost + [f"{_label(s)}: {note}" for s in found.methods for note in s.notes]


def _table(found: Comparison, classes: bool) -> dict[str, Any]:
    error = column("accuracy") if classes else column("RMSE")
    calibration = column("ECE") if classes else column("coverage", "of 95 % intervals")
    columns = [
        column("method"),
        column("NLL", "nats a test row"),
        column("low", "2.5 % quantile of the NLL"),
        column("high", "97.5 % quantile of the NLL"),
        column("gain", "NLL of the network, less that of the method"),
        column("gain low", "2.5 % quantile of the gain"),
        column("gain high", "97.5 % quantile of the gain"),
        error,
        calibration,
        column("OOD AUROC", "by entropy, in regression by variance"),
        column("seconds", "training, fitting and sampling"),
        column("weight on network", "in the answer of DiMS"),
        column("noise", "standard deviation, in the units of the targets"),
    ]
    rows = []
    for s in found.done:
        nll, gain = found.nll(s.method), found.difference(s.method, "network")
        score = found.error(s.method).value
        more = (s.calibration, s.ood, s.seconds, s.weight_on_network, s.noise_std)
        rows.append([_label(s), *nll, *gain, score, *more])
    return table("scores", "Scores", "Lower NLL is better.", columns, rows)


def _calibration(found: Comparison, classes: bool) -> dict[str, Any]:
    """The diagram of each method, with axes and a caption that say what is on them."""
    what = "Accuracy in ten bins of confidence" if classes else "Share of targets in their interval"
    rows = len(found[found.best].nll)
    return {
        "calibration": [
            {
                "method": _label(s),
                "confidence": s.promised,
                "accuracy": s.observed,
                "inputs": s.inputs,
                # Other lines may lie on it, and gaps let them be seen.
                "dashed": s.method == "network",
            }
            for s in sorted(found.done, key=lambda s: s.method == "network")
        ],
        "calibration_axes": (
            ["confidence", "accuracy"] if classes else ["level of the interval", "coverage"]
        ),
        "calibration_note": (
            f"{what}, on {rows} test rows. The diagonal is perfect. Bars: 95 % intervals. The "
            "line of the network is dashed."
        ),
    }


def _label(scores: MethodScores) -> str:
    return LABELS.get(scores.method, scores.method.replace("_", " "))
