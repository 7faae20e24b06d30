"""Findings and predictions of a run, turned into the sections and tables of its page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dims.commands.pages.classes import confusions_table
from dims.commands.pages.parts import column, in_figures, table
from dims.commands.pages.pictures import checked_pictures
from dims.commands.pages.predicted_tables import ROWS, disagreement_table, scale_of, scores_table

__all__ = ["Answers", "add_findings", "add_predictions"]

# How prior and noise were chosen: a line of the overview, and a note below the curve.
CHOSEN = {
    "given": ("as given; nothing was tuned", ""),
    "given θ*": (
        "by the evidence at the given θ*",
        "Log evidence at the given θ* for other priors, with the same noise. The large dot was "
        'chosen. tune="cautious" (dims sample --tune-at-minimum) compares priors at minima of '
        "their own.",
    ),
    "minimum": (
        "by the evidence at the minimum of each candidate",
        "Each dot is a prior with its own minimum of the loss and, in regression, its own noise. "
        "The large dot has the highest evidence and was chosen.",
    ),
    "leave_one_out": (
        "by leave-one-out scores at the minimum of each candidate",
        "Each dot is a prior with its own minimum of the loss and, in regression, its own noise. "
        "The large dot was chosen: its leave-one-out score is the highest, and the evidence would "
        "have taken a weaker prior or the same.",
    ),
}
PASSED_ON = (
    "calibration",
    "calibration_axes",
    "residuals",
    "within_two",
    "classes",
    "functions",
    "grid",
    "points",
    "function_axes",
)


FLATTERED = "The same rows chose the weights, which flatters the draws a little."
NETWORKS = "the network's input and target"
CHOICE = "choice of prior and noise"
NO_FINDINGS = (
    "not in this run: stores that `dims sample` or posterior.sample(store=...) write have it"
)
NO_PREDICTIONS = (
    "not shown, because they need the network and the data: add --problem my_model.py:problem to "
    "`dims report`"
)


@dataclass
class Answers:
    """Parts of a page that findings and predictions give.

    Attributes:
        facts: Lines of the overview.
        advice: Lines of advice; None where nothing is known of it.
        tables: Tables, in order.
        sections: Data of sections.
        verdict: What held-out rows say about the answer.
        verdict_note: Which rows these are.
        table_notes: What was found in a person's table.
    """

    facts: list[list[Any]] = field(default_factory=list)
    advice: list[str] | None = None
    tables: list[dict[str, Any]] = field(default_factory=list)
    sections: dict[str, Any] = field(default_factory=dict)
    verdict: list[str] = field(default_factory=list)
    verdict_note: str = ""
    table_notes: list[str] = field(default_factory=list)

    @property
    def missing(self) -> list[list[Any]]:
        """Lines of the overview about what the page cannot show."""
        lines = []
        if not any(name == CHOICE for name, _ in self.facts):
            lines.append([CHOICE, NO_FINDINGS])
        if not any(entry["id"] == ROWS for entry in self.tables):
            lines.append(["predictions", NO_PREDICTIONS])
        return lines


def add_findings(made: Answers, findings: dict[str, Any]) -> None:
    """Prior and noise, weights, disagreement and advice, as `dims.sampling.findings` has them."""
    _prior(made, findings)
    _weights(made, findings)
    _diversity(made, findings)
    made.advice = [*(made.advice or []), *(str(line) for line in findings["advice"])]


def add_predictions(made: Answers, predicted: dict[str, Any]) -> None:
    """Held-out rows, functions and disagreement, as `predicted` has them, and warnings."""
    _units(made, predicted.get("units") or {})
    _predictions(made, predicted)
    told = [str(line) for line in predicted.get("warnings", [])]
    missing = [str(line) for line in predicted.get("missing", [])]
    made.advice = [*told, *(made.advice or []), *missing]
    # Files of an earlier version have neither of the two.
    made.verdict = [str(line) for line in predicted.get("verdict", [])]
    made.table_notes = [str(line) for line in predicted.get("table_notes", [])]


def _prior(made: Answers, findings: dict[str, Any]) -> None:
    prior = findings.get("prior")
    if prior is None:
        return
    value = prior["prior_precision"]
    shown = f"from {value[0]:.4g} to {value[1]:.4g}" if isinstance(value, list) else value
    made.facts.append(["prior precision", shown])
    if prior["noise_std"] is not None:
        made.facts.append(["noise", prior["noise_std"]])
    made.facts += [["log evidence", prior["log_evidence"]]]
    made.facts += [["gradient norm at θ*", prior["gradient_norm"]]]
    how, note = CHOSEN[prior["chosen"]]
    made.facts.append([CHOICE, how])
    curve = [dict(point) for point in prior["curve"]]
    for point in curve:
        if not (isinstance(point["prior_precision"], float) and point["prior_precision"] > 0):
            raise ValueError("a point of the curve has no prior precision")
    curve = _candidates(curve)
    if len(curve) > 1:
        made.sections |= {"evidence": curve, "evidence_note": note}
    if prior["chosen"] in ("minimum", "leave_one_out"):
        columns = [column("prior precision"), column("noise"), column("log evidence", "in nats")]
        columns += [column("leave one out", "in nats")]
        columns += [column("‖gradient‖", "at its minimum"), column("cost", "gradients")]
        names = ("prior_precision", "noise_std", "log_evidence", "leave_one_out", "gradient_norm")
        cells = [[*(p.get(name) for name in names), p["evaluations"]] for p in curve]
        rows = [[*c, "chosen" if p["chosen"] else ""] for c, p in zip(cells, curve, strict=True)]
        title, note = "Priors that were compared", f"{how[0].upper()}{how[1:]}."
        made.tables.append(table("priors", title, note, [*columns, column("")], rows))


def _candidates(curve: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Candidates by their prior; one that was scored twice has both scores on one line."""
    merged: dict[tuple[Any, Any], dict[str, Any]] = {}
    for point in curve:
        known = merged.setdefault((point["prior_precision"], point.get("noise_std")), point)
        scores = {name: value for name, value in point.items() if known.get(name) is None}
        known |= {**scores, "chosen": known["chosen"] or point["chosen"]}
    return sorted(merged.values(), key=lambda point: point["prior_precision"])


def _weights(made: Answers, findings: dict[str, Any]) -> None:
    weights = findings.get("weights")
    if not weights:
        made.facts.append(["weights", "all draws count alike (no held-out rows chose others)"])
        return
    held_out, (gain, error) = findings["held_out"], findings["gain"]
    note = "The trained network, the draws at saved times, at the end, and widened at the end. "
    note += (
        f"{held_out} held-out rows chose these weights."
        if held_out
        else "No held-out rows chose them."
    )
    if gain is not None and error is not None:
        note += (
            f" Log score against the network alone: {gain:+.3f} ± {error:.3f} nats a row, "
            "cross-validated."
        )
    if findings.get("refit"):
        note += " The draws have learnt these rows since; weights and score are from before."
    numbers = {str(name): float(weight) for name, weight in weights.items()}
    made.sections |= {"weights": numbers, "weights_note": note}


def _diversity(made: Answers, findings: dict[str, Any]) -> None:
    found = findings.get("diversity")
    if found is None:
        return
    text = f"{100 * found['on_data']:.1f} % of the uncertainty on the training data"
    if found["far"] is not None:
        text += f", {100 * found['far']:.1f} % five standard deviations away"
    made.facts.append(["disagreement of the draws", text])


def _predictions(made: Answers, predicted: dict[str, Any]) -> None:
    made.sections |= {name: predicted[name] for name in PASSED_ON if name in predicted}
    if "held_out" in predicted:
        rows = int(predicted["held_out"])
        flattered = " " + FLATTERED if predicted.get("weighed") else ""
        made.sections["calibration_note"] = _calibration_note(rows, predicted) + flattered
        made.verdict_note = f"By {rows} held-out rows.{flattered}"
        made.tables.append(scores_table(rows, predicted))
    if "functions" in predicted:
        own = scale_of(predicted) is not None
        made.sections["functions_note"] = (
            "Thin lines: single draws. Thick line: their mean. Dark band: two standard deviations "
            "of the draws. Light band: the same with the noise. Filled dots: training data. Hollow "
            f"dots: held-out data. Units are those of {'the table' if own else NETWORKS}."
        )
    made.tables += confusions_table(predicted.get("classes") or {})
    if "pictures" in predicted:
        classes = bool(predicted["disagreement"]["classes"])
        shown = checked_pictures(predicted["pictures"])
        made.sections |= {"pictures": shown, "picture_classes": classes}
    if "disagreement" in predicted:
        made.tables.append(disagreement_table(predicted))


def _units(made: Answers, units: dict[str, Any]) -> None:
    """What was predicted, and the noise in its units; files of an earlier version have no units."""
    names = [str(name) for name in units.get("targets", [])]
    pairs = list(zip(units.get("mean", []), units.get("scale", []), strict=True))
    told = ", ".join(names)
    if len(pairs) == 1:
        (mean, scale) = (float(number) for number in pairs[0])
        name = names[0] if names else "target"
        shown = [in_figures(number, scale) for number in (mean, scale)]
        told = f"{name}; the network learns ({name} − {shown[0]}) / {shown[1]}"
        _scale_noise(made, scale)
    if told:
        made.facts.insert(0, ["target", told])


def _scale_noise(made: Answers, scale: float) -> None:
    """The noise in the units of the target, wherever it is shown as one number."""
    for fact in made.facts:
        if fact[0] == "noise" and isinstance(fact[1], float):
            own = fact[1] * scale
            fact[1] = f"{in_figures(own, own)}, which is {fact[1]:.4g} for the network"
    for point in made.sections.get("evidence", []):
        if isinstance(point.get("noise_std"), float):
            point["noise_std"] *= scale
    for entry in made.tables:
        labels = [head["label"] for head in entry["columns"]]
        if entry["id"] == "priors" and "noise" in labels:
            place = labels.index("noise")
            for row in entry["rows"]:
                row[place] = row[place] * scale if isinstance(row[place], float) else row[place]


def _calibration_note(rows: int, predicted: dict[str, Any]) -> str:
    classes = predicted.get("calibration_axes", [""])[0] == "confidence"
    what = "Accuracy in ten bins of confidence" if classes else "Share of targets in their interval"
    return f"{what}, on {rows} held-out rows. The diagonal is perfect. Bars: 95 % intervals."
