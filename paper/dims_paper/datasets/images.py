"""The MNIST family: greyscale images of 28 x 28 pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

import torch
from torch import Tensor

from dims_paper.datasets.idx import load_idx
from dims_paper.datasets.locate import find

ImageSplit = Literal["train", "test"]

# Where the images of each split lie; the labels' names differ in one word.
_FILES: Final[dict[tuple[str, str], str]] = {
    ("mnist", "train"): "mnist/train-{}-ubyte.gz",
    ("mnist", "test"): "mnist/t10k-{}-ubyte.gz",
    ("fashion_mnist", "train"): "fashion_mnist/train-{}-ubyte.gz",
    ("fashion_mnist", "test"): "fashion_mnist/t10k-{}-ubyte.gz",
    ("kmnist", "test"): "kmnist/t10k-{}-ubyte.gz",
    ("emnist_mnist", "test"): "emnist/emnist-mnist-test-{}-ubyte.gz",
    ("emnist_letters", "test"): "emnist/emnist-letters-test-first10000-{}-ubyte.gz",
}

IMAGE_NAMES: Final = tuple(dict.fromkeys(name for name, _ in _FILES))


@dataclass(frozen=True, eq=False)
class Images:
    """Inputs of shape (N, 1, 28, 28) in [0, 1], int64 targets of shape (N,)."""

    inputs: Tensor
    targets: Tensor


def load_images(
    name: str,
    split: ImageSplit = "test",
    *,
    upright: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Images:
    """One of `IMAGE_NAMES`; only mnist and fashion_mnist have a `train` split here.

    EMNIST's files hold every image transposed (rows and columns exchanged), and torchvision hands
    them out so. That is the default here too, for results that can be compared; `upright=True`
    turns them the right way and changes nothing for the other sets. Targets are the labels of
    the files: emnist_letters counts from 1 (A), and ends at 13 (M), because it is the first
    10000 of the 20800 test images.
    """
    if name not in IMAGE_NAMES:
        raise ValueError(f"name must be one of {', '.join(IMAGE_NAMES)}, got {name!r}")
    if split not in get_args(ImageSplit):
        raise ValueError(f"split must be 'train' or 'test', got {split!r}")
    if (name, split) not in _FILES:
        raise ValueError(f"{name} has only the split 'test' here, got {split!r}")
    pattern = _FILES[name, split]
    path = find(pattern.format("images-idx3"))
    pixels = load_idx(path)
    labels = load_idx(find(pattern.format("labels-idx1")))
    if pixels.ndim != 3 or pixels.shape[1:] != (28, 28) or labels.shape != pixels.shape[:1]:
        raise ValueError(
            f"{path}: expected N images of 28 x 28 and N labels, got shapes "
            f"{list(pixels.shape)} and {list(labels.shape)}"
        )
    if upright and name.startswith("emnist"):
        pixels = pixels.transpose(1, 2).contiguous()
    return Images(inputs=pixels.unsqueeze(1).to(dtype) / 255, targets=labels.to(torch.int64))
