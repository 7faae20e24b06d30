"""The page of draws: a file of `Draws.save`, or the folder of a store. No model is needed."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dims.commands.pages.parts import CITATION, column, confidence_sets, motion, pairs, table
from dims.commands.pages.style import LABELS
from dims.errors import DrawsFileError, ReportError
from dims.mechanics.status import Status
from dims.sampling.certificate import Verdict
from dims.sampling.draws.container import ROW_NUMBERS
from dims.sampling.draws.header import parse_header
from dims.sampling.draws.storage import read
from dims.sampling.store.folder import read_small

__all__ = [
    "CONFIDENCE",
    "TRAJECTORIES",
    "SavedDraws",
    "beside",
    "draws_page",
    "read_beside",
    "read_draws",
    "read_store",
]

TRAJECTORIES, CONFIDENCE = "trajectories", "confidence"  # files that may lie beside draws
LARGEST_MANIFEST = 2**20  # bytes
LARGEST_BESIDE = 2**24
SHOWN_PLACES = 500  # draws in the picture of parameter space

COLUMNS = {
    "loss": column("loss L", "of the delivered draw"),
    "gradient_norm": column("‖gradient‖", "of the delivered draw"),
    "smallest_eigenvalue": column("λ min", "the smallest eigenvalue of the Hessian there"),
    "displacement": column("settled by", "how far settling moved the draw"),
    "kinetic_energy": column("T left", "kinetic energy at the end of the trajectory"),
    "energy_violation": column("energy violation", "0: no rise of the energy"),
    "energy_balance": column("energy balance", "E(0) − E(end) − ∫2ηT dt"),
    "arc_length": column("arc length", "of the lifted curve (θ, L(θ))"),
    "evaluations": column("gradients", "evaluations of the trajectory"),
}


@dataclass(frozen=True)
class SavedDraws:
    """What files say of draws, without a network."""

    source: str
    method: str
    facts: list[list[Any]]
    settings: list[list[Any]]
    versions: list[list[Any]]
    status: list[str]
    verdict: list[str]
    numbers: dict[str, Tensor]  # (S,) each
    offsets: Tensor  # θ − θ* of the first draws, (n, K)


def read_draws(path: Path) -> SavedDraws:
    """One file, checked by its checksum."""
    text, tensors = read(path)
    header = parse_header(text)
    numbers = {name: tensors.get(name, torch.empty(0)) for name in (*ROW_NUMBERS, "evaluations")}
    parameters, centre = tensors.get("parameters"), tensors.get("map_parameters")
    codes = tensors.get("status")
    if parameters is None or centre is None or codes is None:
        raise DrawsFileError("tensors of draws are missing; make it again")
    rows = len(parameters)
    if any(value.shape != (rows,) for value in (*numbers.values(), codes)):
        raise DrawsFileError("its tensors differ in their number of draws; make it again")
    names = {status.code: status.name for status in Status}
    facts: list[list[Any]] = [
        ["method", header.method],
        ["draws", rows],
        ["seed", str(header.seed)],
        ["parameters", parameters.shape[1]],
        ["training points", header.points],
        ["likelihood", header.likelihood_text],
        ["loss at θ*", header.loss_at_map],
    ]
    versions = json.loads(text).get("versions", {})
    return SavedDraws(
        source=path.name,
        method=header.method,
        facts=facts,
        settings=pairs(header.settings) if header.settings else [],
        versions=pairs(versions) if isinstance(versions, dict) and versions else [],
        status=[names.get(code, "none") for code in codes.tolist()],
        verdict=list(header.verdict) if header.verdict else ["none"] * rows,
        numbers=numbers,
        offsets=parameters[:SHOWN_PLACES] - centre,
    )


def read_store(folder: Path) -> SavedDraws:
    """All finished chunks of a store, in their order."""
    path = folder / "manifest.json"
    if path.stat().st_size > LARGEST_MANIFEST:
        raise ReportError(f"{path}: too large for a manifest")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path}: no manifest ({error})") from error
    files = sorted(folder.glob("chunk_*.safetensors"))
    if not isinstance(manifest, dict) or not files:
        raise ReportError(f"{folder}: no chunk is finished yet; sample first")
    chunks = [read_draws(file) for file in files]
    rows = sum(len(chunk.status) for chunk in chunks)
    first = chunks[0]
    facts = [["draws finished", f"{rows} of {manifest.get('count', '?')}"], *first.facts]
    return SavedDraws(
        source=folder.name,
        method=first.method,
        facts=[pair for pair in facts if pair[0] != "draws"],
        settings=pairs(manifest),
        versions=first.versions,
        status=[status for chunk in chunks for status in chunk.status],
        verdict=[verdict for chunk in chunks for verdict in chunk.verdict],
        numbers={n: torch.cat([chunk.numbers[n] for chunk in chunks]) for n in first.numbers},
        offsets=torch.cat([chunk.offsets for chunk in chunks])[:SHOWN_PLACES],
    )


def beside(place: Path, name: str) -> Path:
    """Where more about draws is: `NAME.json` in a store, `FILE.NAME.json` beside a file."""
    return place / f"{name}.json" if place.is_dir() else place.with_suffix(f".{name}.json")


def read_beside(place: Path, method: str) -> dict[str, Any]:
    """Trajectories of some draws and distributions of their confidence, where there are any."""
    found: dict[str, Any] = {}
    for name in (TRAJECTORIES, CONFIDENCE):
        path = beside(place, name)
        if not path.exists():
            continue
        try:
            content = read_small(path, LARGEST_BESIDE)
            if content is None:
                raise ValueError("a link, no file, or too large")
            entry = json.loads(content)
            if name == TRAJECTORIES:
                found |= motion(entry)
            else:
                label = LABELS.get(method, method)
                found[name] = [{"method": label, "sets": confidence_sets(entry, "test")}]
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise ReportError(
                f"{path}: cannot be shown ({error!r}); make it again, or take it away"
            ) from error
    return found


def draws_page(draws: SavedDraws, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """All of it as the data of a page; `more` is what lies beside the draws."""
    run: dict[str, Any] = {
        "name": draws.source,
        "method": draws.method,
        "settings": draws.settings,
        "versions": draws.versions,
        **_places(draws.offsets),
        **(more or {}),
    }
    statuses = Counter(draws.status)
    facts = [*draws.facts, ["ended", ", ".join(f"{n} {name}" for name, n in statuses.items())]]
    return {
        "title": f"Draws: {draws.source}",
        "subtitle": "How every draw ended, and what it is.",
        "facts": facts,
        "advice": _advice(draws),
        "tables": [_draws_table(draws)],
        "runs": [run],
        "citation": CITATION,
    }


def _draws_table(draws: SavedDraws) -> dict[str, Any]:
    """Columns without a single number are left out."""
    known = {name: v for name, v in draws.numbers.items() if v.double().isfinite().any()}
    columns = [
        column("draw"),
        column("status", "how the trajectory ended"),
        column("verdict", "of the certificate; MINIMUM: in stiff directions, flat ones may bend"),
        *(COLUMNS[name] for name in known),
    ]
    values = [v.tolist() for v in known.values()]
    rows = [
        [i, status, verdict, *(entry[i] for entry in values)]
        for i, (status, verdict) in enumerate(zip(draws.status, draws.verdict, strict=True))
    ]
    note = "Sort by a column with its button; filter by how trajectories ended and by verdict."
    filters = ("status", "verdict")
    return table("draws", "Draws and their certificates", note, columns, rows, filters)


def _advice(draws: SavedDraws) -> list[str]:
    """Only where something is to be done."""
    lines = [
        f"{number} × {name}: {Status[name].advice}"
        for name, number in Counter(draws.status).items()
        if name in Status.__members__ and not Status[name].ok
    ]
    lines += [
        f"{number} × {name}: {Verdict[name].value}"
        for name, number in Counter(draws.verdict).items()
        if name in Verdict.__members__ and name != "MINIMUM"
    ]
    return lines


def _places(offsets: Tensor) -> dict[str, Any]:
    """Draws on their two principal directions around θ*, and how much those hold."""
    shown = offsets[offsets.isfinite().all(1)].double()
    if len(shown) < 3 or shown.shape[1] < 2 or not shown.any():
        return {}
    # By the matrix of scalar products, (n, n): K may be large, and n is not.
    squares, directions = torch.linalg.eigh(shown @ shown.T)
    flat = directions[:, -2:].flip(-1) * squares[-2:].flip(-1).clamp(min=0).sqrt()
    share = float(squares[-2:].sum() / squares.sum())
    return {
        "places": [[float(f"{v:.5g}") for v in row] for row in flat.tolist()],
        "places_note": f"they hold {100 * share:.0f} % of the squared distance from it.",
    }
