from __future__ import annotations

import gzip
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import examples
from dims_paper.datasets.idx import load_idx
from dims_paper.datasets.images import load_images

fuzz = settings(max_examples=examples(300), deadline=None)


def idx_bytes(*shape: int, body: bytes | None = None, magic: bytes = b"\0\0\x08") -> bytes:
    filler = bytes(index % 256 for index in range(int(np.prod(shape)))) if body is None else body
    return magic + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + filler


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("idx") / "file.gz"


@pytest.mark.parametrize("shape", [(5,), (2, 3), (4, 28, 28), (1, 2, 3, 4)])
def test_round_trip(shape: tuple[int, ...], scratch: Path) -> None:
    scratch.write_bytes(gzip.compress(idx_bytes(*shape)))
    loaded = load_idx(scratch)
    assert loaded.dtype is torch.uint8
    assert loaded.shape == shape
    assert loaded.flatten().tolist() == [index % 256 for index in range(loaded.numel())]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "starts with nothing"),
        (b"\0\0", "starts with 00 00"),
        (idx_bytes(3, magic=b"\0\0\x0d"), "starts with 00 00 0d 01"),
        (idx_bytes(3, magic=b"\1\0\x08"), "starts with 01 00 08 01"),
        (b"\0\0\x08\0", "1 to 4 dimensions"),
        (idx_bytes(1, 1, 1, 1, 1), "1 to 4 dimensions"),
        (b"\0\0\x08\3\0\0\0\1", "ends within the header of 3 dimensions"),
        (idx_bytes(0, 28, 28), "holds no data"),
        (idx_bytes(2, 3, body=b"12345"), "needs 6 bytes, the file holds 5"),
        (idx_bytes(2, 3, body=b"1234567"), "needs 6 bytes, the file holds more"),
        (idx_bytes(2**32 - 1, 2**32 - 1, body=b""), "more than max_bytes"),
    ],
)
def test_bad_content_is_a_value_error_that_names_the_file(
    content: bytes, complaint: str, scratch: Path
) -> None:
    scratch.write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match=complaint) as caught:
        load_idx(scratch)
    assert str(scratch) in str(caught.value)


def test_bad_compression_is_a_value_error(scratch: Path) -> None:
    whole = gzip.compress(idx_bytes(10, 28, 28))
    wrong_checksum = whole[:-8] + bytes(4) + whole[-4:]
    for content in (idx_bytes(3), whole[:-9], whole[:-1], whole[:5], wrong_checksum, whole + b"x"):
        scratch.write_bytes(content)
        with pytest.raises(ValueError, match="not a complete gzip file"):
            load_idx(scratch)


def test_missing_file_stays_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_idx(tmp_path / "nothing.gz")


@pytest.mark.parametrize(
    "content",
    [
        # A header that claims a gigabyte, and a gigabyte's worth of zeros behind a small header.
        pytest.param(gzip.compress(idx_bytes(2**10, 2**10, 2**10, body=b"short")), id="claim"),
        pytest.param(
            gzip.compress(idx_bytes(10, body=b"") + bytes(2**26), compresslevel=1), id="bomb"
        ),
    ],
)
def test_memory_follows_neither_header_nor_bomb(content: bytes, scratch: Path) -> None:
    scratch.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="bytes, the file holds"):
            load_idx(scratch)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2**20


@fuzz
@given(
    content=st.one_of(
        st.binary(max_size=64),
        st.binary(max_size=64).map(gzip.compress),
        st.builds(
            lambda shape, body: gzip.compress(idx_bytes(*shape, body=body)),
            st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 4), max_size=6),
            st.binary(max_size=64),
        ),
    )
)
def test_any_bytes_give_a_tensor_or_a_value_error(content: bytes, scratch: Path) -> None:
    scratch.write_bytes(content)
    try:
        loaded = load_idx(scratch, max_bytes=2**20)
    except ValueError:
        return
    assert loaded.dtype is torch.uint8
    assert loaded.numel() > 0


@fuzz
@given(position=st.integers(0), value=st.integers(0, 255))
def test_one_changed_byte_never_goes_further_than_a_value_error(
    position: int, value: int, scratch: Path
) -> None:
    content = bytearray(gzip.compress(idx_bytes(3, 28, 28), mtime=0))
    content[position % len(content)] = value
    scratch.write_bytes(bytes(content))
    try:
        loaded = load_idx(scratch)
    except ValueError:
        return
    # gzip's own checksum leaves only its comment fields open to change.
    assert loaded.shape == (3, 28, 28)
    assert loaded.flatten()[:300].tolist() == [index % 256 for index in range(300)]


@fuzz
@given(
    images=st.lists(st.sampled_from([1, 2, 28]), min_size=1, max_size=4),
    labels=st.lists(st.integers(1, 3), min_size=1, max_size=2),
)
def test_images_of_any_shape_are_sound_or_a_value_error(
    images: list[int], labels: list[int], install
) -> None:
    install(
        "kmnist",
        {
            "kmnist/t10k-images-idx3-ubyte.gz": gzip.compress(idx_bytes(*images)),
            "kmnist/t10k-labels-idx1-ubyte.gz": gzip.compress(idx_bytes(*labels)),
        },
    )
    if images[1:] == [28, 28] and labels == images[:1]:
        loaded = load_images("kmnist")
        assert loaded.inputs.shape == (images[0], 1, 28, 28)
        assert loaded.targets.shape == (images[0],)
    else:
        with pytest.raises(ValueError, match="expected N images of 28 x 28"):
            load_images("kmnist")
