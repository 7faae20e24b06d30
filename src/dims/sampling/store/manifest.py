"""What a run is, in a file: compared at every call, so that no store ever holds two runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dims.errors import StoreError
from dims.model.training_data import map_inputs
from dims.sampling.draws.signature import constant_hashes, hash_entries, model_entries
from dims.sampling.draws.storage import tensor_bytes
from dims.sampling.files import write_text_atomically
from dims.sampling.store.differences import explain
from dims.sampling.store.folder import read_small
from dims.surface.loss import LossSurface

if TYPE_CHECKING:
    from dims.sampling.posterior import Posterior
    from dims.sampling.samplers import Sampler

__all__ = ["MANIFEST", "agree", "digest_of", "fingerprint", "fingerprint_parts", "read_manifest"]
__all__ += ["run_of", "stage_ends"]

MANIFEST = "manifest.json"
LARGEST_MANIFEST = 2**20  # bytes; a larger one is not a manifest
VERSION = 2


def fingerprint(surface: LossSurface, theta: Tensor) -> str:
    """sha256 of all that draws depend on beside settings: network, θ* or several, data, prior."""
    digest = hashlib.sha256()
    names = surface.vector.names
    digest.update(hash_entries(model_entries(surface.module, names)).encode())
    digest.update(json.dumps(constant_hashes(surface.module, names), sort_keys=True).encode())
    parts = [theta, surface.prior_precision, surface.data.targets]
    map_inputs(parts.append, surface.data.inputs)
    for tensor in parts:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor_bytes(tensor))
    scales = (surface.likelihood, surface.effective_points, surface.loss_scale)
    digest.update(repr(scales).encode())
    return digest.hexdigest()


def fingerprint_parts(surface: LossSurface, theta: Tensor) -> dict[str, str]:
    """The same in parts, so that a difference can be named."""
    names = surface.vector.names
    inputs: list[Tensor] = []
    map_inputs(inputs.append, surface.data.inputs)
    entries = hash_entries(model_entries(surface.module, names))
    constants = json.dumps(constant_hashes(surface.module, names), sort_keys=True)
    scales = repr((surface.likelihood, surface.effective_points, surface.loss_scale))
    return {
        "network": _sha256(entries, constants),
        "weights": _sha256(theta),
        "data": _sha256(surface.data.targets, *inputs),
        "loss": _sha256(scales, surface.prior_precision),
    }


def run_of(
    posterior: Posterior, starts: Tensor, sampler: Sampler, seed: int, threads: int
) -> dict[str, Any]:
    """What the bits of draws depend on, that start from these minima."""
    first = posterior.perturbations(1).cpu().numpy().tobytes()  # other curvatures draw others
    return {
        "method": sampler.name,
        "settings": sampler.settings,
        "seed": seed,
        "fingerprint": fingerprint(posterior.surface, starts),
        "parts": fingerprint_parts(posterior.surface, starts),
        "curvature": hashlib.sha256(first).hexdigest(),
        "device": starts.device.type,
        "torch": torch.__version__,
        "threads": threads,
    }


def _sha256(*parts: str | Tensor) -> str:
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            digest.update(f"{part.dtype} {tuple(part.shape)}".encode())
        digest.update(tensor_bytes(part) if isinstance(part, Tensor) else part.encode())
    return digest.hexdigest()


def digest_of(manifest: dict[str, Any]) -> str:
    """What marks a chunk as one of this run, however many draws it has by now."""
    run = {name: value for name, value in manifest.items() if name != "draws"}
    return hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()


def agree(
    place: Path,
    wanted: dict[str, Any],
    draws: int,
    writable: bool,
    current: Callable[[Any], Any],
) -> dict[str, Any]:
    """The manifest of the folder, which must be of the wanted run; written where there is none.

    A run of fewer draws is extended. The number of threads is taken from the folder: whoever goes
    on with a run keeps to it. `current` turns settings that an earlier version wrote into those of
    this one.
    """
    wanted = json.loads(json.dumps({"version": VERSION, **wanted}))
    path = place / MANIFEST
    if not path.exists() and not path.is_symlink():
        if any(place.glob("chunk_*")):
            raise StoreError(f"{place}: chunks without a manifest; give an empty folder")
        return _write(path, {**wanted, "draws": [draws]}, writable)
    found = read_manifest(path)
    ends = stage_ends(found, place)
    try:
        told = explain(found, wanted, current)
    except RecursionError as error:
        raise StoreError(f"{path}: nested too deeply; give another folder") from error
    if told is not None:
        raise StoreError(f"{place}: holds another run: {told}")
    if draws <= ends[-1]:
        return found
    longer = extended(ends, draws, found["chunk_size"])
    return _write(path, {**found, "draws": longer}, writable)


def _write(path: Path, manifest: dict[str, Any], writable: bool) -> dict[str, Any]:
    if not writable:
        raise StoreError(f"{path.parent}: cannot be written to; make it writable, or give another")
    write_text_atomically(path, json.dumps(manifest, indent=1))
    return manifest


def stage_ends(manifest: dict[str, Any], place: Path) -> list[int]:
    """Where the draws of each stage of a run end: the first call, and those that extended it.

    The first version wrote the number of draws alone.
    """
    ends = manifest.get("draws", [manifest.get("count")])
    known = isinstance(ends, list) and ends and all(type(end) is int for end in ends)
    if not known or any(a >= b for a, b in zip((0, *ends), ends, strict=False)):
        raise StoreError(f"{place}: its manifest has no number of draws; give another folder")
    return list(ends)


def extended(ends: list[int], draws: int, chunk_size: int) -> list[int]:
    """More draws: chunks that are there stay as they are, also a last one that is not full."""
    first = ends[-2] if len(ends) > 1 else 0
    full = (ends[-1] - first) % chunk_size == 0
    return [*(ends[:-1] if full else ends), draws]


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a store."""
    content = read_small(path, LARGEST_MANIFEST)
    if content is None:
        raise StoreError(f"{path}: too large for a manifest, or not a file; give another folder")
    try:
        found = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: not a valid manifest ({error}); give another folder") from error
    if not isinstance(found, dict):
        raise StoreError(f"{path}: not a valid manifest; give another folder")
    return found
