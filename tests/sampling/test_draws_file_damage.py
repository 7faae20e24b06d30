"""Files that are cut, flipped, foreign or false are refused in one clear line."""

from __future__ import annotations

import json
import pickle
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

import dims
from cases import examples
from dims.sampling.draws import storage
from dims.sampling.draws.header import parse_header
from draws_problems import assert_same, draws_of, mlp, problem

fuzz = settings(
    max_examples=examples(200),
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "run"
    draws_of(problem("one output")[0]).save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spoilt") / "run"


def refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(dims.DrawsFileError) as caught:
        dims.load(path, mlp(3, 1))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def load_or_refuse(path: Path) -> dims.Draws | None:
    """Draws, or None after the one error that is allowed, in one line."""
    message = ""
    try:
        return dims.load(path, mlp(3, 1))
    except dims.DrawsFileError as error:
        message = str(error)
    assert len(message.splitlines()) == 1
    return None


def test_a_file_cut_short_is_refused(good: bytes, spoilt: Path) -> None:
    header = 8 + struct.unpack("<Q", good[:8])[0]
    lengths = {0, 1, 7, 8, 9, header - 1, header, header + 1, len(good) - 1}
    lengths |= set(random.Random(0).sample(range(len(good)), 40))
    for length in lengths:
        assert "cut short or damaged" in refused(spoilt, good[:length])
    refused(spoilt, good + b"\0")


def test_foreign_files_are_refused(good: bytes, spoilt: Path) -> None:
    refused(spoilt, pickle.dumps({"parameters": [1, 2, 3]}))
    refused(spoilt, b"PK\x03\x04" + bytes(1000))
    refused(spoilt, struct.pack("<Q", 2**63) + good[8:])
    refused(spoilt, struct.pack("<Q", len(good)) + good[8:])
    save_file({"parameters": torch.zeros(3, 36)}, spoilt)
    assert "not of draws" in refused(spoilt, spoilt.read_bytes())
    save_file({"parameters": torch.zeros(3, 36)}, spoilt, {"format": "dims-draws", "version": "2"})
    assert "format version '2', this dims reads '1'" in refused(spoilt, spoilt.read_bytes())
    with pytest.raises(FileNotFoundError):
        dims.load(spoilt.with_name("missing"), mlp(3, 1))
    with pytest.raises(dims.StoreError, match="does not hold a run"):
        dims.load(spoilt.parent, mlp(3, 1))


def rewritten_header(good: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The same file with another safetensors header."""
    end = 8 + struct.unpack("<Q", good[:8])[0]
    header = json.loads(good[8:end])
    change(header)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + good[end:]


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("parameters", "shape", [2**40, 36]),
        ("parameters", "shape", [2**62, 2**62]),
        ("parameters", "shape", [0, 2**62]),
        ("parameters", "shape", [-5, 36]),
        ("parameters", "data_offsets", [0, 2**60]),
        ("parameters", "data_offsets", [8, 0]),
        ("parameters", "dtype", "I64"),
        ("parameters", "dtype", "F8_E4M3"),
        ("parameters", "dtype", "nothing"),
        ("loss", "shape", [5, 1]),
        ("status", "dtype", "F64"),
        ("loss", "dtype", "I64"),
    ],
)
def test_false_sizes_are_refused(
    name: str, key: str, value: Any, good: bytes, spoilt: Path
) -> None:
    refused(spoilt, rewritten_header(good, lambda header: header[name].update({key: value})))


@fuzz
@given(data=st.data())
def test_flipped_bytes_are_refused(data: st.DataObject, good: bytes, spoilt: Path) -> None:
    header = 8 + struct.unpack("<Q", good[:8])[0]
    flipped = bytearray(good)
    # Half of them in the header, which is the smaller part of a real file.
    places = st.one_of(st.integers(0, header - 1), st.integers(0, len(good) - 1))
    for place in data.draw(st.lists(places, min_size=1, max_size=4)):
        flipped[place] = data.draw(st.integers(0, 255))
    spoilt.write_bytes(flipped)
    loaded = load_or_refuse(spoilt)
    if loaded is not None:  # only where the change had no meaning: the same byte, or a space
        assert_same(loaded, draws_of(problem("one output")[0]))


def number() -> st.SearchStrategy[Any]:
    return st.integers(0, 40) | st.sampled_from([-1, 2**31, 2**62, 2**64, 2**80, 0.5, None, "x"])


ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["F64", "F32", "I64", "BOOL", "F4", "", 3]),
        "shape": st.lists(number(), max_size=3) | number(),
        "data_offsets": st.lists(number() | st.integers(0, 5000), max_size=3) | number(),
    },
)


@fuzz
@given(data=st.data())
def test_any_safetensors_header_is_read_or_refused(
    data: st.DataObject, good: bytes, spoilt: Path
) -> None:
    """Bytes instead of JSON, another length, false entries among the true ones."""
    end = 8 + struct.unpack("<Q", good[:8])[0]
    header = json.loads(good[8:end])
    names = [*sorted(header), "other", "", "a/../b"]
    for name in data.draw(st.lists(st.sampled_from(names), max_size=3, unique=True)):
        header[name] = {**header.get(name, {}), **data.draw(ENTRY)} if name else data.draw(JSON)
    for name in data.draw(st.lists(st.sampled_from(sorted(header)), max_size=1)):
        del header[name]
    text = data.draw(st.just(json.dumps(header).encode()) | st.binary(max_size=60))
    length = data.draw(st.just(len(text)) | st.integers(0, 2**64 - 1))
    spoilt.write_bytes(struct.pack("<Q", length) + text + good[end:])
    loaded = load_or_refuse(spoilt)
    event("refused" if loaded is None else "read")
    if loaded is not None:
        assert_same(loaded, draws_of(problem("one output")[0]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = (
    "method", "seed", "settings", "verdict", "likelihood", "likelihood_settings", "points",
    "effective_points", "loss_scale", "loss_at_map", "outputs", "input_shapes", "entries",
    "signature", "constants",
)  # fmt: skip


@fuzz
@given(name=st.sampled_from(FIELDS), value=JSON, drop=st.booleans())
def test_false_fields_with_a_right_checksum_are_refused(
    name: str, value: Any, drop: bool, good: bytes, spoilt: Path
) -> None:
    spoilt.write_bytes(good)
    text, tensors = storage.read(spoilt)
    fields = json.loads(text)
    fields[name] = value
    if drop:
        del fields[name]
    storage.write(spoilt, tensors, json.dumps(fields), overwrite=True)
    loaded = load_or_refuse(spoilt)
    assert loaded is None or len(loaded) == 5


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "{}", "[" * 100_000, '{"entries": [["sampled", "a", "float32", [-1]]]}',
        '{"points": ' + "9" * 10_000 + "}",
    ],
)  # fmt: skip
def test_bad_headers_are_refused(text: str) -> None:
    with pytest.raises(dims.DrawsFileError):
        parse_header(text)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("status", torch.full((5,), 77), "codes that this version"),
        ("parameters", torch.zeros(5, 36), "'parameters' is torch.float32"),
        ("parameters", torch.zeros(()).double(), "'parameters' is"),
        ("map_parameters", torch.full((36,), torch.nan).double(), "'map_parameters' has NaN"),
        ("loss", None, "no tensor 'loss'"),
        ("arc_length", torch.zeros(4).double(), r"'arc_length' .* expected .* shape \(5,\)"),
        ("prior_precision", torch.tensor(-1.0).double(), "'prior_precision' is missing, missh"),
        ("prior_precision", None, "'prior_precision' is missing"),
        ("probe", torch.zeros(2, 7).double(), "its outputs at θ"),
        ("probe", torch.zeros(0, 7).double(), "its outputs at θ"),
    ],
)
def test_false_tensors_with_a_right_checksum_are_refused(
    name: str, tensor: Tensor | None, message: str, good: bytes, spoilt: Path
) -> None:
    spoilt.write_bytes(good)
    text, tensors = storage.read(spoilt)
    del tensors[name]
    if tensor is not None:
        tensors[name] = tensor
    storage.write(spoilt, tensors, text, overwrite=True)
    with pytest.raises(dims.DrawsFileError, match=message):
        dims.load(spoilt, mlp(3, 1))


def test_a_giant_input_point_does_not_fill_memory(good: bytes, spoilt: Path) -> None:
    spoilt.write_bytes(good)
    text, tensors = storage.read(spoilt)
    fields = json.loads(text) | {"input_shapes": "float[999999999,999999999]"}
    storage.write(spoilt, tensors, json.dumps(fields), overwrite=True)
    assert len(dims.load(spoilt, mlp(3, 1))) == 5
