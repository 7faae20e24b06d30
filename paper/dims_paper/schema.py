"""What an experiment leaves behind: a `Run` with one `Row` for each method, and their JSON form.

In JSON the fields of `scores`, `diagnostics`, `numbers` and `figure` lie beside the others. Files
of earlier versions are read too: `RENAMED` maps their keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import isclose, nan
from typing import Any, TypeAlias

Scores: TypeAlias = dict[str, dict[str, float]]
"""What `Predictive.metrics` returns: reading → metric → value."""

PER_DRAW, ERROR, ENSEMBLE = "per_sample", "per_sample_error", "ensemble"
AUROC = "auroc_max_probability"  # the OOD metric of all tables
REFERENCE = "(reference solver)"  # ends the names of methods by the published solver

RENAMED = {
    "more": "additional",
    "legs": "segments",  # old name
    "known": "in_distribution",
    "foreign": "ood",  # old name
}
OLD_REFERENCE, OLD_PREFIX = "(recipe)", "recipe_"  # old name

# Of each draw, or their mean, worst or counts where results were gathered.
DIAGNOSTICS = ("loss", "status", "verdict", "evaluations", "energy_violation", "energy_jump",
               "kinetic_energy", "kinetic_ratio", "gradient_norm", "smallest_eigenvalue",
               "reached")  # fmt: skip
ROW_FIGURE = ("curves", "mean", "std", "map", "calibration", "confidence", "outputs")
RUN_FIGURE = ("grid", "points", "map", "movies", "movie_grid", "trajectories", "landscape",
              "plane_share", "losses", "climb")  # fmt: skip
VERSIONS = ("dims", "torch", "machine")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method of a run: how its draws were made, how good they are, and what figures need."""

    method: str
    t1: float | None = None
    eta0: float | None = None
    draws: int | None = None  # None: those of the run
    seconds: float | None = None
    scores: dict[str, Scores] = field(default_factory=dict)  # by part of the data
    ood: dict[str, Scores] = field(default_factory=dict)  # by OOD set
    diagnostics: dict[str, Any] = field(default_factory=dict)  # by the names in DIAGNOSTICS
    numbers: dict[str, float | int] = field(default_factory=dict)  # spread, images, …
    figure: dict[str, Any] = field(default_factory=dict)
    per_image: str | None = None  # the name of its file of scores per image
    note: str | None = None
    rattle: Row | None = None  # the same draws by our solver

    @property
    def name(self) -> str:
        """The method and its friction."""
        return self.method if self.eta0 is None else f"{self.method} ({self.eta0:g})"

    @property
    def is_reference(self) -> bool:
        return self.method.endswith(REFERENCE)

    @property
    def is_additional(self) -> bool:
        """Whether the paper does not have the row: another method, or its solver once more."""
        return self.method in ("Ensemble", "SWAG", "DiMS defaults") or self.is_reference

    def metric(self, part: str, name: str, reading: str = PER_DRAW) -> float:
        return self.scores[part][reading][name]

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; what is None and may be missing is left out."""
        optional: dict[str, Any] = {
            "draws": self.draws,
            "ood": self.ood or None,
            "per_image": self.per_image,
        }
        optional |= {
            "note": self.note,
            "rattle": None if self.rattle is None else self.rattle.to_json(),
        }
        fixed = {k: getattr(self, k) for k in ("method", "t1", "eta0", "seconds")}
        found = {**fixed, **self.numbers, **self.diagnostics, **self.scores, **self.figure}
        return found | {key: value for key, value in optional.items() if value is not None}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Row:
        given = dict(found)
        if rattle := given.pop("rattle", None):
            given["rattle"] = cls.from_json({"method": "rattle"} | rattle)
        fixed: dict[str, Any] = {f.name: given.pop(f.name) for f in fields(cls) if f.name in given}
        fixed["method"] = fixed["method"].replace(OLD_REFERENCE, REFERENCE)
        groups: dict[str, Any] = {"scores": {}, "diagnostics": {}, "figure": {}, "numbers": {}}
        for key, value in given.items():
            if key in DIAGNOSTICS:
                groups["diagnostics"][key] = value
            elif key in ROW_FIGURE:
                groups["figure"][key] = renamed(value) if key == "confidence" else value
            elif isinstance(value, dict):
                groups["scores"][key] = _scores(value)
            else:
                groups["numbers"][key] = value
        return cls(**fixed, **groups)


@dataclass(frozen=True, kw_only=True)
class Run:
    """An experiment with one seed: settings, what the fit found, and the rows of its methods."""

    experiment: str
    dataset: str | None = None
    seed: int | None = None
    draws: int | None = None
    part: str | None = None  # of an experiment with several
    settings: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)  # prior_precision, gradient_norm, …
    rows: list[Row] = field(default_factory=list)
    additional: dict[str, Any] | None = None  # settings, where the rows are additional baselines
    figure: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        names = ("experiment", "dataset", "seed", "draws", "part", "additional")
        found = {name: getattr(self, name) for name in names}
        found |= {"settings": self.settings or None, **self.facts, **self.figure}
        found |= {"rows": [row.to_json() for row in self.rows] or None, **self.versions}
        optional = {*names, "settings", "rows"}
        return {k: v for k, v in found.items() if v is not None or k not in optional}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Run:
        given = renamed(found, deep=False)
        given |= {key: renamed(given[key]) for key in ("settings", "additional") if key in given}
        known = {f.name for f in fields(cls)}
        fixed = {key: given.pop(key) for key in list(given) if key in known}
        fixed["rows"] = [Row.from_json(row) for row in fixed.get("rows", ())]
        figure = {key: value for key, value in given.items() if key in RUN_FIGURE}
        if isinstance(figure.get("points"), int):  # the number of data points, not the points
            del figure["points"]
        versions = {k: given[k] for k in VERSIONS if k in given}
        facts = {k: v for k, v in given.items() if k not in figure and k not in versions}
        return cls(**fixed, figure=figure, versions=versions, facts=facts)


@dataclass(frozen=True)
class Difference:
    """A row less another: each metric with its 95 % interval over resampled test images."""

    method: str
    t1: float | None
    against: str
    intervals: dict[str, dict[str, float]]  # metric → difference, low, high

    def to_json(self) -> dict[str, Any]:
        fixed = {"method": self.method, "t1": self.t1, "against": self.against}
        return {**fixed, **self.intervals}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Difference:
        intervals = {key: value for key, value in found.items() if isinstance(value, dict)}
        return cls(found["method"], found["t1"], found["against"], intervals)


def joined(runs: Sequence[Run]) -> list[Run]:
    """Runs with the rows of their additional baselines after their own; one without its run stays.

    The fact `same_network` says whether training again gave the network of the tables: it does on
    one kind of machine, but rounding differs between kinds.
    """
    # Runs from untrained weights have the names of those from trained ones, and no such rows.
    bases = [run for run in runs if run.additional is None]
    places = {_key(r): i for i, r in enumerate(bases) if r.settings.get("trained", True)}
    alone = []
    for run in runs:
        if run.additional is None:
            continue
        if _key(run) not in places:
            alone.append(run)
            continue
        place = places[_key(run)]
        base = bases[place]
        norms = [r.facts.get("gradient_norm", nan) for r in (run, base)]
        # Results keep five digits of the gradient norm.
        facts = {**base.facts, "same_network": isclose(*norms, rel_tol=1e-3)}
        settings = {**base.settings, **run.additional}
        bases[place] = replace(base, rows=[*base.rows, *run.rows], settings=settings, facts=facts)
    return bases + alone


def renamed(found: Any, deep: bool = True) -> Any:
    """Nested dictionaries with the names of this version for their keys."""
    if not isinstance(found, Mapping):
        return found
    new = {key: str(RENAMED.get(key, key)).replace(OLD_PREFIX, "reference_") for key in found}
    return {new[key]: renamed(v) if deep else v for key, v in found.items()}


def _scores(found: dict[str, Any]) -> Scores:
    """Scores by reading; older files of OOD images have metrics of single draws alone."""
    if PER_DRAW in found or not found:
        return found
    auroc = found.get("auroc", {})
    metrics = {key: value for key, value in found.items() if key != "auroc"}
    return {PER_DRAW: metrics | {f"auroc_{name}": value for name, value in auroc.items()}}


def _key(run: Run) -> tuple[Any, ...]:
    extra = (run.facts.get("protocol"), run.facts.get("curvature_kind"))
    return (run.experiment, run.dataset, run.seed, *extra)
