"""CIFAR-10 and colour images from elsewhere, as they lie in the data folder: JPEG bytes.

The training images are split once: the first 48 000 are trained and moved on, the last 2 000 are
held out, to choose settings by. All out-of-distribution images are put through the JPEG coding that
the CIFAR-10 files have (quality 75, half the colour resolution), so that no detector can tell them
by their compression.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dims_paper.datasets.locate import find
from real_networks.jpeg import decode_image, encode_image

TRAINED_ON = 48_000
OOD_SETS = ("svhn_test", "tinyimagenet_val", "gtsrb_test", "flowers102", "dtd10")
PACKED = "packed"  # folder of files by `pack`, in the data folder
QUALITY = 75  # of the JPEGs that CIFAR-10's images are here


@dataclass(frozen=True, eq=False)
class Pictures:
    """Bytes (N, 3, 32, 32) and labels (N,)."""

    pixels: Tensor
    labels: Tensor

    def part(self, rows: slice) -> Pictures:
        return Pictures(self.pixels[rows], self.labels[rows])

    def to(self, device: str) -> Pictures:
        return Pictures(self.pixels.to(device), self.labels.to(device))


@dataclass(frozen=True, eq=False)
class Collection:
    """What a run uses: training, held-out, test, and other images by name."""

    train: Pictures
    held_out: Pictures
    test: Pictures
    ood: dict[str, Tensor]

    @property
    def centre(self) -> Tensor:
        return self.train.pixels[:5000].float().mean((0, 2, 3))

    @property
    def scale(self) -> Tensor:
        return self.train.pixels[:5000].float().std((0, 2, 3))


def load(device: str, quick: bool = False) -> Collection:
    """All of it; `quick` takes a few hundred images of each kind."""
    train, test = decoded("cifar10/cifar10_train.npz"), decoded("cifar10/cifar10_test.npz")
    ood = {name: coded_ood(name) for name in OOD_SETS}
    cut = 64 if quick else TRAINED_ON
    few = slice(0, 24) if quick else slice(None)
    held_out = train.part(slice(TRAINED_ON, TRAINED_ON + 24 if quick else None))
    return Collection(
        train.part(slice(0, cut)).to(device),
        held_out.to(device),
        test.part(few).to(device),
        {name: pixels[few].to(device) for name, pixels in ood.items()},
    )


def decoded(name: str) -> Pictures:
    """The images of a file of JPEGs, kept decoded in the user's cache."""
    with np.load(located(name)) as file:
        labels = torch.as_tensor(file["labels"].astype(np.int64))
        pixels = _kept(name, lambda: decode(file["jpeg"], file["offsets"]))
    return Pictures(pixels, labels)


def coded_ood(name: str) -> Tensor:
    """Images from elsewhere after the JPEG coding of CIFAR-10's; (N, 3, 32, 32)."""
    with np.load(located(f"ood_colour/{name}.npz")) as file:
        if "jpeg" in file:  # packed by `pack`
            return _kept(f"packed_{name}", lambda: decode(file["jpeg"], file["offsets"]))
        images = file["images"]
    return _kept(f"ood_{name}", lambda: decode(*encode(images)))


def encode(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 32, 32, 3) as JPEGs end to end, and where each begins."""
    coded = [encode_image(image, QUALITY) for image in images]
    offsets = np.cumsum([0, *map(len, coded)])
    return np.frombuffer(b"".join(coded), dtype=np.uint8), offsets


def decode(jpeg: np.ndarray, offsets: np.ndarray) -> Tensor:
    """Pixels (N, 3, 32, 32) of JPEGs end to end."""
    data = jpeg.tobytes()

    def one(number: int) -> np.ndarray:
        return decode_image(data[offsets[number] : offsets[number + 1]])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        images = np.stack(list(pool.map(one, range(len(offsets) - 1), chunksize=500)))
    return torch.as_tensor(images).permute(0, 3, 1, 2).contiguous()


def pack(folder: Path) -> dict[str, int]:
    """Write all files small enough to travel: the same JPEGs, but their common headers once.

    Returns:
        The bytes of each file.
    """
    for name in ("cifar10/cifar10_train.npz", "cifar10/cifar10_test.npz"):
        with np.load(find(name)) as file:
            _write(folder / PACKED / name, {key: file[key] for key in file})
    for name in OOD_SETS:
        with np.load(find(f"ood_colour/{name}.npz")) as file:
            jpeg, offsets = encode(file["images"])
            _write(folder / PACKED / f"ood_colour/{name}.npz", {"jpeg": jpeg, "offsets": offsets})
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*.npz")}


def located(name: str) -> Path:
    """A data file: what `pack` wrote, if that is there, or the file itself."""
    packed = Path(os.environ.get("DIMS_DATA", ".")) / PACKED / name
    return packed if packed.exists() else find(name)


def _write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


def _kept(name: str, make: Callable[[], Tensor]) -> Tensor:
    """A tensor of bytes that took a while, from the user's cache."""
    base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    path = base / "dims" / "images" / (name.replace("/", "_").removesuffix(".npz") + ".npy")
    if path.exists():
        return torch.as_tensor(np.load(path))
    made = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        np.save(file, made.numpy())
    draft.replace(path)
    return made
