"""`Comparison`: what `dims.compare` found, as a table and a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from dims.baselines.row_scores import Interval, resampled
from dims.baselines.verdict import CROSS_VALIDATE
from dims.prediction.showing import Shown, shown_text

__all__ = ["Comparison", "MethodScores"]

FEWEST_ROWS = 30  # to resample
COVERAGE = 0.95
REFUTED = 0.01  # chance of a coverage as low as this or lower


@dataclass(frozen=True)
class MethodScores:
    """One method on the test rows.

    Attributes:
        method: Its name.
        seconds: What training, fitting and sampling took.
        nll: −log p(y) of each test row.
        error: 1 for a wrong class, or the squared error, of each test row.
        calibration: Expected calibration error, or coverage of 95 % intervals.
        ood: AUROC of entropy or variance against other inputs; None: there were none.
        promised: Confidences or levels of the reliability diagram.
        observed: Accuracy or coverage there.
        inputs: Rows in each bin.
        problem: Why there is no result; empty where there is one.
        notes: Warnings of the method.
        weight_on_network: Of the answer of DiMS; None for other methods.
        noise_std: σ of a regression, in the units of the scores; the geometric mean of several.
        noise_from: What chose it: "held-out rows", "evidence", or "" where it was given.
    """

    method: str
    seconds: float
    nll: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)
    calibration: float | None = None
    ood: float | None = None
    promised: list[float | None] = field(default_factory=list)
    observed: list[float | None] = field(default_factory=list)
    inputs: list[float] = field(default_factory=list)
    problem: str = ""
    notes: list[str] = field(default_factory=list)
    weight_on_network: float | None = None
    noise_std: float | None = None
    noise_from: str = ""

    def to_json(self) -> dict[str, Any]:
        """The fields in JSON's types."""
        return asdict(self)


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Methods side by side on the same test rows.

    Attributes:
        task: "classification" or "regression".
        methods: The scores of each method, in the order they ran.
        target_scale: What `compare` was told that targets were divided by.

    Example:
        >>> comparison = dims.compare(model, data, "regression", validation=rows, test=others)
        >>> print(comparison)
    """

    task: str
    methods: Sequence[MethodScores]
    target_scale: float = 1.0

    def _facts(self) -> dict[str, Any]:
        names = ", ".join(scores.method for scores in self.done)
        return {"task": self.task, "methods": names, "best": self.best}

    def _repr_html_(self) -> str:
        return shown_text(str(self))

    def __getitem__(self, method: str) -> MethodScores:
        for scores in self.methods:
            if scores.method == method:
                return scores
        raise KeyError(f"method: {method!r} was not run; there are {[m.method for m in self.done]}")

    @property
    def done(self) -> list[MethodScores]:
        """The methods that gave a result."""
        return [scores for scores in self.methods if not scores.problem]

    def nll(self, method: str) -> Interval:
        """Mean −log p(y) in nats a row, with the interval over resampled rows.

        Args:
            method: Its name.

        Returns:
            Mean, and the central 95 %.
        """
        return resampled(self[method].nll)

    def error(self, method: str) -> Interval:
        """Accuracy, or the root of the mean squared error, with its interval.

        Args:
            method: Its name.

        Returns:
            Value, and the central 95 %.
        """
        final = (lambda m: 1 - m) if self.task == "classification" else torch.sqrt
        return resampled(self[method].error, final)

    def difference(self, method: str, other: str) -> Interval:
        """How much lower the NLL of a method is than another's, row by row; positive is better.

        Args:
            method: Its name.
            other: The one to compare with.

        Returns:
            Mean, and the central 95 %.
        """
        rows: Tensor = torch.tensor(self[other].nll) - torch.tensor(self[method].nll)
        return resampled(rows)

    def units(self) -> str:
        """A sentence: in which units scores are, and whose noise was chosen by what.

        Returns:
            The sentence.
        """
        if self.task == "classification":
            return "NLL: nats a test row."
        scale = "as they were given"
        if self.target_scale != 1:
            scale = f"before they were divided by {self.target_scale:.6g} (target_scale)"
        told = f"NLL: nats a test row. All scores are in the units of the targets {scale}."
        chosen: dict[str, list[str]] = {}
        for scores in self.done:
            if scores.noise_from:
                chosen.setdefault(scores.noise_from, []).append(scores.method)
        parts = [f"by the {source} ({', '.join(names)})" for source, names in chosen.items()]
        return told + (f" The noise was chosen {', '.join(parts)}." if parts else "")

    @property
    def best(self) -> str:
        """The method with the lowest mean NLL."""
        return min(self.done, key=lambda scores: _mean(scores.nll)).method

    def recommendation(self) -> str:
        """A sentence: which method to take, and how sure that is.

        Returns:
            The sentence.
        """
        best, rows = self.best, len(self[self.best].nll)
        if rows < FEWEST_ROWS:
            return (
                f"{rows} rows are too few to tell methods apart ({best} has the lowest NLL on "
                f"them). Give at least {FEWEST_ROWS} as `test`, or compare by {CROSS_VALIDATE}."
            )
        gain = self.difference(best, "network")
        if best == "network" or gain.low <= 0:
            return (
                f"Take the network alone: no method is significantly better on these {rows} rows "
                f"(the best, {best}, gains {gain.value:.3f} nats a row, between {gain.low:.3f} and "
                f"{gain.high:.3f})."
            )
        sentence = (
            f"Take {best}: its NLL is lower than the network's by {gain.value:.3f} nats a row "
            f"(between {gain.low:.3f} and {gain.high:.3f})"
        )
        others = [s for s in self.done if s.method != best]
        level = [s for s in others if self.difference(best, s.method).low <= 0]
        if not level:
            return sentence + ", and significantly lower than every other method's."
        names = ", ".join(self._named(scores) for scores in level)
        sentence += f". Not significantly different from it: {names}"
        fit = [scores for scores in level if not self._fault(scores)]
        if not fit:
            return sentence + "."
        quickest = min(fit, key=lambda scores: scores.seconds)
        return sentence + (
            f"; the quickest of them{' without a fault' if len(fit) < len(level) else ''}, "
            f"{quickest.method}, takes {quickest.seconds:.3g} s where {best} takes "
            f"{self[best].seconds:.3g} s."
        )

    def _named(self, scores: MethodScores) -> str:
        fault = self._fault(scores)
        return f"{scores.method} ({fault})" if fault else scores.method

    def _fault(self, scores: MethodScores) -> str:
        """Why not to take a method, although a few rows make its NLL uncertain."""
        if _mean(scores.nll) > _mean(self["network"].nll):
            return "but its mean NLL is above the network's"
        if self.task == "regression" and scores.calibration is not None:
            rows = len(scores.nll)
            inside = round(scores.calibration * rows)
            if _chance_of_at_most(inside, rows, COVERAGE) < REFUTED:
                return f"but its 95 % intervals hold only {scores.calibration:.0%} of the rows"
        return ""

    def __str__(self) -> str:
        classes = self.task == "classification"
        names = ("accuracy", "ECE") if classes else ("RMSE", "95% cov.")
        other = 11 if any(scores.ood is not None for scores in self.done) else 0
        wide = 10 if any(scores.noise_std is not None for scores in self.done) else 0
        lines = [
            f"{'method':<14}{'NLL':>8}{'95 % interval':>20}{names[0]:>10}{names[1]:>10}"
            f"{'noise' if wide else '':>{wide}}{'OOD AUROC' if other else '':>{other}}"
            f"{'seconds':>9}"
        ]
        for scores in sorted(self.done, key=lambda s: _mean(s.nll)):
            nll, error = self.nll(scores.method), self.error(scores.method)
            span = f"[{nll.low:.3f}, {nll.high:.3f}]"
            lines.append(
                f"{scores.method:<14}{nll.value:>8.3f}{span:>20}{_number(error.value):>10}"
                f"{_number(scores.calibration):>10}{_number(scores.noise_std):>{wide}}"
                f"{_number(scores.ood):>{other}}{scores.seconds:>9.3g}"
            )
        lines += [f"{s.method:<14}no result: {s.problem}" for s in self.methods if s.problem]
        notes = [f"{scores.method}: {note}" for scores in self.methods for note in scores.notes]
        return "\n".join([*lines, "", self.units(), self.recommendation(), *notes])


def _chance_of_at_most(count: int, rows: int, share: float) -> float:
    """Of the binomial distribution."""
    k = torch.arange(count + 1, dtype=torch.float64)
    ways = math.lgamma(rows + 1) - torch.lgamma(k + 1) - torch.lgamma(rows - k + 1)
    return float((ways + k * math.log(share) + (rows - k) * math.log1p(-share)).exp().sum())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.inf


def _number(value: float | None) -> str:
    """Three decimals, or a whole number from 1000 on."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"
