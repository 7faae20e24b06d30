"""The page of draws, from a file of `Draws.save` or the folder of a store, without the model."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dims.commands.pages.beside import Beside
from dims.commands.pages.parameters_table import parameters_table
from dims.commands.pages.parts import CITATION, column, pairs, table
from dims.errors import DrawsFileError, ReportError
from dims.mechanics.status import Status
from dims.sampling.certificate import Verdict
from dims.sampling.draws.fields import ROW_NUMBERS
from dims.sampling.draws.file import check_tensors
from dims.sampling.draws.header import parse_header
from dims.sampling.draws.storage import read
from dims.sampling.store.load import COMPUTE_AGAIN
from dims.sampling.store.manifest import MANIFEST, read_manifest, stage_ends

__all__ = ["draws_page", "read_draws", "read_store"]

SHOWN_PLACES = 500  # draws in the plot of parameter space

COLUMNS = {
    "loss": column("loss L", "at the returned draw"),
    "gradient_norm": column("‖gradient‖", "at the returned draw"),
    "smallest_eigenvalue": column("λ min", "smallest eigenvalue of the Hessian at the draw"),
    "displacement": column("settling distance", "distance that settling moved the draw"),
    "kinetic_energy": column("final T", "kinetic energy at the end of the trajectory"),
    "energy_violation": column("energy violation", "relative rise of the energy; 0: it never rose"),
    "energy_balance": column("energy balance", "E(0) − E(end) − ∫2ηT dt"),
    "arc_length": column("arc length", "length of the curve (θ, L(θ))"),
    "metric_length": column("length in M", "its length in the metric of the motion"),
    "gradient_equivalents": column(
        "equivalents", "gradients and the time of a moving metric in units of one"
    ),
    "evaluations": column("gradients", "gradient evaluations of the trajectory"),
}


@dataclass(frozen=True)
class SavedDraws:
    """The content of draws files, without the network."""

    source: str
    method: str
    facts: list[list[Any]]
    settings: list[list[Any]]
    versions: list[list[Any]]
    status: list[str]
    verdict: list[str]
    numbers: dict[str, Tensor]  # (S,) each
    offsets: Tensor  # θ − θ* of the first draws, (n, K)
    theta: Tensor  # θ*, (K,)
    tensors: list[tuple[str, list[int]]]  # names and shapes of what θ holds


def read_draws(path: Path) -> SavedDraws:
    """Read one file and verify its checksum.

    Args:
        path: A file of `Draws.save`.

    Returns:
        Its content.

    Raises:
        DrawsFileError: The file is damaged or incomplete.
    """
    text, tensors = read(path)
    header = parse_header(text)
    check_tensors(tensors, header)
    parameters = tensors["parameters"]
    rows, size = parameters.shape
    names = {status.code: status.name for status in Status}
    facts: list[list[Any]] = [
        ["method", header.method],
        ["draws", rows],
        ["seed", str(header.seed)],
        ["parameters", size],
        ["training points", header.points],
        ["likelihood", _short_numbers(header.likelihood_text)],
        ["loss at θ*", header.loss_at_map],
    ]
    versions = json.loads(text).get("versions", {})
    return SavedDraws(
        source=path.name,
        method=header.method,
        facts=facts,
        settings=pairs(header.settings) if header.settings else [],
        versions=pairs(versions) if isinstance(versions, dict) and versions else [],
        status=[names.get(code, "none") for code in tensors["status"].tolist()],
        verdict=list(header.verdict) if header.verdict else ["none"] * rows,
        numbers={name: tensors[name] for name in (*ROW_NUMBERS, "evaluations")},
        offsets=parameters[:SHOWN_PLACES] - tensors["map_parameters"],
        theta=tensors["map_parameters"],
        tensors=[(each.name, each.shape) for each in header.entries if each.role == "sampled"],
    )


def _short_numbers(text: str) -> str:
    """The same text with at most five significant digits in its fractions; shorter ones stay."""

    def short(match: re.Match[str]) -> str:
        rounded = f"{float(match[0]):.5g}"
        return match[0] if float(rounded) == float(match[0]) else rounded

    return re.sub(r"\b\d+\.\d+(?:e[+-]?\d+)?", short, text)


def read_store(folder: Path) -> SavedDraws:
    """Read all finished chunks of a store, in order.

    Args:
        folder: The folder that was given as `store`.

    Returns:
        The draws of all chunks.

    Raises:
        StoreError: The manifest is not valid.
        DrawsFileError: A chunk is damaged.
        ReportError: No chunk is finished.
    """
    manifest = read_manifest(folder / MANIFEST)
    files = sorted(folder.glob("chunk_*.safetensors"))
    if not files:
        raise ReportError(f"{folder}: no chunk is finished yet; sample first")
    chunks = [_read_chunk(file) for file in files]
    rows = sum(len(chunk.status) for chunk in chunks)
    first = chunks[0]
    asked = stage_ends(manifest, folder)[-1]
    facts = [["draws finished", f"{rows} of {asked}"], *first.facts]
    return replace(
        first,
        source=folder.name,
        facts=[pair for pair in facts if pair[0] != "draws"],
        settings=pairs(manifest),
        status=[status for chunk in chunks for status in chunk.status],
        verdict=[verdict for chunk in chunks for verdict in chunk.verdict],
        numbers={n: torch.cat([chunk.numbers[n] for chunk in chunks]) for n in first.numbers},
        offsets=torch.cat([chunk.offsets for chunk in chunks])[:SHOWN_PLACES],
    )


def _read_chunk(file: Path) -> SavedDraws:
    try:
        return read_draws(file)
    except DrawsFileError as error:
        raise DrawsFileError(f"{file.name}: {error}; {COMPUTE_AGAIN}") from error


def draws_page(draws: SavedDraws, more: Beside | None = None) -> dict[str, Any]:
    """Turn draws into the data of a page.

    Args:
        draws: From `read_draws` or `read_store`.
        more: What `read_beside` found next to them.

    Returns:
        The data of a page.
    """
    more = more or Beside()
    said = more.answers
    run: dict[str, Any] = {
        "name": draws.source,
        "method": draws.method,
        "settings": draws.settings,
        "versions": draws.versions,
        **_places(draws.offsets),
        **more.sections,
        **said.sections,
    }
    statuses = Counter(draws.status)
    facts = [*draws.facts, ["ended", ", ".join(f"{n} {name}" for name, n in statuses.items())]]
    return {
        "title": f"Draws: {draws.source}",
        "subtitle": "What the draws predict, how each ended, and whether it is a minimum.",
        "verdict": said.verdict,
        "verdict_note": said.verdict_note,
        "table_notes": said.table_notes,
        "facts": [*facts, *said.facts, *said.missing],
        "advice": _advice(draws) if said.advice is None else said.advice,
        "tables": [*said.tables, _draws_table(draws), *_parameters(draws)],
        "runs": [run],
        "answers_first": True,
        "citation": CITATION,
    }


def _draws_table(draws: SavedDraws) -> dict[str, Any]:
    """One row per draw; columns without any number are omitted."""
    present = {name: v for name, v in draws.numbers.items() if v.double().isfinite().any()}
    columns = [
        column("draw"),
        column("status", "how the trajectory ended"),
        column("verdict", "from the certificate; MINIMUM is about stiff directions only"),
        *(COLUMNS[name] for name in present),
    ]
    values = (v.tolist() for v in present.values())
    rows = list(zip(range(len(draws.status)), draws.status, draws.verdict, *values, strict=True))
    note = "Click a column head to sort. Filter by status and verdict."
    filters = ("status", "verdict")
    return table("draws", "Draws and their certificates", note, columns, rows, filters)


def _parameters(draws: SavedDraws) -> list[dict[str, Any]]:
    made = parameters_table(draws.tensors, draws.theta, draws.offsets)
    return [made] if made["rows"] else []


def _advice(draws: SavedDraws) -> list[str]:
    """One line for each status or verdict that needs action."""
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
    """Draws along their two principal directions around θ*, and the share these explain."""
    shown = offsets[offsets.isfinite().all(1)].double()
    if len(shown) < 3 or shown.shape[1] < 2 or not shown.any():
        return {}
    # From the (n, n) Gram matrix: K may be large, n is not.
    squares, directions = torch.linalg.eigh(shown @ shown.T)
    flat = directions[:, -2:].flip(-1) * squares[-2:].flip(-1).clamp(min=0).sqrt()
    share = float(squares[-2:].sum() / squares.sum())
    return {
        "places": [[float(f"{v:.5g}") for v in row] for row in flat.tolist()],
        "places_note": f"they explain {100 * share:.0f} % of the squared distances from it.",
    }
