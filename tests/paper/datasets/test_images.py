from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from dims_paper.datasets.images import IMAGE_NAMES, load_images

MNIST_TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.data
@pytest.mark.parametrize("name", IMAGE_NAMES)
def test_shapes_and_class_counts(name: str) -> None:
    images = load_images(name)
    assert images.inputs.shape == (10000, 1, 28, 28)
    assert images.inputs.dtype is torch.float32
    assert images.inputs.min() == 0
    assert images.inputs.max() == 1
    assert images.targets.dtype is torch.int64
    counts = torch.bincount(images.targets).tolist()
    expected = {
        "mnist": MNIST_TEST_COUNTS,
        "emnist_letters": [0] + [800] * 12 + [400],
    }
    assert counts == expected.get(name, [1000] * 10)


@pytest.mark.data
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_training_images(name: str) -> None:
    images = load_images(name, "train")
    assert images.inputs.shape == (60000, 1, 28, 28)
    assert images.targets.shape == (60000,)
    assert (
        images.targets[:5].tolist()
        == {"mnist": [5, 0, 4, 1, 9], "fashion_mnist": [9, 0, 0, 3, 0]}[name]
    )


@pytest.mark.data
def test_pixels_agree_with_a_direct_reading(data_root: Path) -> None:
    with gzip.open(data_root / "mnist" / "t10k-images-idx3-ubyte.gz") as stream:
        raw = np.frombuffer(stream.read(), dtype=np.uint8, offset=16).reshape(10000, 28, 28)
    expected = torch.from_numpy(raw.astype(np.float32)) / 255
    assert torch.equal(load_images("mnist").inputs[:, 0], expected)
    # Summed over the set this is the well-known normalisation constant of MNIST.
    assert load_images("mnist", "train").inputs.mean().item() == pytest.approx(0.1307, abs=1e-4)


@pytest.mark.data
def test_emnist_is_transposed_unless_upright() -> None:
    def class_means(name: str, upright: bool) -> torch.Tensor:
        images = load_images(name, upright=upright)
        return torch.stack([images.inputs[images.targets == k].mean(dim=0) for k in range(10)])

    reference = class_means("mnist", upright=False)
    stored, turned = (class_means("emnist_mnist", upright) for upright in (False, True))
    assert torch.equal(turned, stored.transpose(-1, -2))
    # Upright, the average of every digit looks more like MNIST's average of the same digit.
    likeness_stored, likeness_turned = (
        torch.cosine_similarity(means.flatten(1), reference.flatten(1))
        for means in (stored, turned)
    )
    assert (likeness_turned > likeness_stored).all()
    assert likeness_turned.mean() > likeness_stored.mean() + 0.1
    assert torch.equal(class_means("mnist", upright=True), reference)


@pytest.mark.usefixtures("unchecked")
def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="name must be one of mnist, fashion_mnist, kmnist"):
        load_images("cifar")
    with pytest.raises(ValueError, match="split must be 'train' or 'test'"):
        load_images("mnist", "validation")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kmnist has only the split 'test'"):
        load_images("kmnist", "train")
