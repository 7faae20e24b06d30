"""Few files that travel: what scoring and going on need, in tar files below 16 MiB.

Of the answers of several draws the average travels. Logarithms of probabilities are rounded to 1/64
and compressed; scores normalise them again, and their intervals are a hundred times wider. Numbers
that are not normalised, and weights, stay as they are. States of unfinished motions are too large
and stay behind.
"""

from __future__ import annotations

import io
import lzma
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

from dims_paper.cache import load_tensors, save_tensors
from real_networks.predictions import average

LARGEST = 15 * 2**20
STEP = 1 / 64  # of log-probabilities
KEPT = ("*.json", "predictions/*.json", "predictions/*.safetensors", "networks/*.safetensors")
BELOW = 3 * 2**20  # bytes of files of weights that travel
CODED = ".coded"


def pack(folder: Path, to: Path, prefix: str = "part") -> list[Path]:
    """Write `to`/prefix-0.tar, … ; the small and most valuable files first."""
    to.mkdir(parents=True, exist_ok=True)
    files = [p for pattern in KEPT for p in sorted(folder.glob(f"*/{pattern}"))]
    groups, size = list[list[tuple[str, bytes]]](), LARGEST
    with ThreadPoolExecutor() as pool:
        encoded = list(pool.map(lambda path: _encoded(path, folder), files))
    for path, (name, data) in zip(files, encoded, strict=True):
        if not data or len(data) > LARGEST - 16_384:
            print(f"{name} stays behind: {path.stat().st_size / 2**20:.1f} MiB", flush=True)
            continue
        padded = 1024 + 512 * (len(data) // 512 + 1)
        if size + padded > LARGEST:
            groups.append([])
            size = 10_240
        groups[-1].append((name, data))
        size += padded
    return [_written(to / f"{prefix}-{n}.tar", group) for n, group in enumerate(groups)]


def _written(path: Path, group: list[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in group:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def unpack(source: Path, folder: Path) -> int:
    """Put the files of all bundles in their places; what is there stays."""
    count = 0
    for path in sorted(source.rglob("*.tar")):
        with tarfile.open(path) as archive:
            for entry in archive:
                stream = archive.extractfile(entry)
                target = folder / entry.name.removesuffix(CODED)
                if stream is None or ".." in entry.name or target.exists():
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                if entry.name.endswith(CODED):
                    save_tensors(_decoded(stream.read()), target)
                else:
                    target.write_bytes(stream.read())
                count += 1
    return count


def _encoded(path: Path, folder: Path) -> tuple[str, bytes]:
    name = path.relative_to(folder).as_posix()
    if path.parent.name == "predictions" and path.suffix == ".safetensors":
        steps = _coded(load_tensors(path))
        stream = io.BytesIO()
        torch.save(steps, stream)
        return name + CODED, lzma.compress(stream.getvalue(), preset=1)
    if path.suffix == ".safetensors" and path.stat().st_size > BELOW:
        return name, b""
    return name, path.read_bytes()


def _coded(answers: dict[str, Tensor]) -> dict[str, Tensor]:
    """int16 multiples of a step for log-probabilities of ten classes; the rest as it is."""
    averaged = "right" in answers  # averages of more and more draws: each is a score of its own
    found = {}
    for key, logs in answers.items():
        if logs.ndim < 3:
            found[key] = logs
            continue
        if not averaged and key != "corrupted":
            logs = average(logs.double()).unsqueeze(0)
        found[key] = (logs.float() / STEP).round().clamp(-32_768, 32_767).to(torch.int16)
    return found


def _decoded(data: bytes) -> dict[str, Tensor]:
    stream = io.BytesIO(lzma.decompress(data))
    found: dict[str, Tensor] = torch.load(stream, weights_only=True)
    return {
        key: (STEP * values.float()).to(torch.float16) if values.dtype == torch.int16 else values
        for key, values in found.items()
    }
