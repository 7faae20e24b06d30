"""Tables of what draws predict: scores on held-out rows, and the rows where draws disagree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dims.commands.pages.parts import column, decimals_of, table

__all__ = ["ROWS", "disagreement_table", "scale_of", "scores_table"]

ROWS = "disagreement"  # a table that all predictions have
METRICS = {
    "nll": column("NLL", "nats a row; lower is better"),
    "accuracy": column("accuracy", "share of rows whose class is right"),
    "rmse": column("RMSE", "root mean squared error"),
    "ece": column("ECE", "expected calibration error; lower is better"),
    "coverage": column("coverage", "share of rows within their 95 % interval"),
    "brier": column("Brier", "squared error of the probabilities; lower is better"),
    "crps": column("CRPS", "continuous ranked probability score; lower is better"),
}


def scale_of(predicted: dict[str, Any]) -> list[float] | None:
    """What a unit of the network is, for each output, where predictions are in other units."""
    scale = (predicted.get("units") or {}).get("scale")
    return [float(number) for number in scale] if scale else None


def scores_table(rows: int, predicted: dict[str, Any]) -> dict[str, Any]:
    scores: Sequence[dict[str, Any]] = predicted["scores"]
    names = [name for name in METRICS if any(name in entry for entry in scores)]
    columns = [column("answer"), *(METRICS[name] for name in names)]
    lines = [[str(s["method"]), *(_number(s.get(name)) for name in names)] for s in scores]
    note = f"On {rows} held-out rows."
    outputs = len(scale_of(predicted) or [])
    if outputs == 1:
        note += " Errors are in the units of the target, NLL is that of a density in these units."
    elif outputs > 1:
        note += f" Of standardised targets, because they are means over {outputs} outputs."
    return table("held-out", "Scores", note, columns, lines)


def _number(value: Any) -> float | None:
    known = isinstance(value, (int, float)) and math.isfinite(value)
    return float(value) if known else None


def disagreement_table(predicted: dict[str, Any]) -> dict[str, Any]:
    """Rows with the largest disagreement, and the inputs there."""
    found = predicted["disagreement"]
    classes, rows, inputs = found["classes"], found["rows"], int(found["inputs"])
    shown = len(rows[0]) - 5 if rows else 0
    # Files of an earlier version have no names.
    names = [str(name) for name in found.get("names", [])] or [f"x{i}" for i in range(shown)]
    cells = list(zip(*rows, strict=True)) or [()] * (shown + 5)
    own = None if classes else decimals_of([*cells[2], *cells[4]])
    columns = [
        column("line", "of the file; the names are line 1")
        if found.get("lines")
        else column("row", "counted from 0, in the order of the data"),
        column("disagreement", "mutual information, nats")
        if classes
        else column("disagreement", "std of the draws' means", own),
        column("answer", "most probable class" if classes else "mean", own),
        column("1 − confidence") if classes else column("std", "with the noise", own),
        column("target", decimals=own),
        *(
            column(name, "input, as the network sees it", decimals_of(cells[5 + place]))
            for place, name in enumerate(names[:shown])
        ),
    ]
    which = "held-out" if found["held_out"] else "training"
    note = f"The {len(rows)} of {found['of']} {which} rows on which the draws disagree most."
    if scale_of(predicted):
        name = (predicted["units"].get("targets") or ["the target"])[0]
        note += f" Disagreement, answer, std and target are in the units of {name}."
    if inputs > shown:
        note += f" The first {shown} of {inputs} inputs are shown."
    return table(ROWS, "Where draws disagree most", note, columns, rows)
