from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import examples
from dims_paper.datasets.banana import load_banana
from dims_paper.datasets.snelson import load_snelson
from dims_paper.datasets.splits import Split
from dims_paper.datasets.text import read_labelled, read_matrix
from dims_paper.datasets.uci import load_uci

fuzz = settings(max_examples=examples(300), deadline=None)

field = st.one_of(
    st.sampled_from(["0", "1", "2", "1.5", "-3e2", "", "nan", "1e999", "1_0", "b", " "]),
    st.floats().map(repr),
)
table = st.lists(st.lists(field, min_size=1, max_size=4), min_size=1, max_size=9)
malformed = st.one_of(
    st.binary(max_size=200),
    table.map(lambda rows: "\n".join(",".join(row) for row in rows).encode()),
    table.map(lambda rows: "\r\n".join(" ".join(row) for row in rows).encode()),
    table.map(lambda rows: ("a,b,class\n" + "\n".join(map(",".join, rows))).encode()),
    # Mostly right, so that the code after the parser is reached as well.
    st.lists(
        st.tuples(st.floats(), st.floats(-9, 9), st.sampled_from([1, 2])), min_size=1, max_size=20
    ).map(lambda rows: "\n".join(f"{a},{b},{c}" for a, b, c in rows).encode()),
)


def test_matrix_agrees_with_numpy(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(20, 3)) * 10.0 ** np.arange(-9, 9, 6)
    for delimiter in (" ", ","):
        path = tmp_path / "table.txt"
        np.savetxt(path, values, delimiter=delimiter)
        parsed = read_matrix(path, None if delimiter == " " else delimiter)
        np.testing.assert_array_equal(parsed, np.loadtxt(path, delimiter=delimiter))


def test_labelled_table(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"x1,x2,class\r\n1,2.5,van\r\n\r\n-3,4e1, bus \r\n")
    inputs, labels = read_labelled(path)
    np.testing.assert_array_equal(inputs, [[1.0, 2.5], [-3.0, 40.0]])
    assert labels == ["van", "bus"]


@pytest.mark.parametrize(
    ("read", "content", "complaint"),
    [
        (read_matrix, b"", "is empty"),
        (read_matrix, b"\n \n", "is empty"),
        (read_matrix, b"1 2\n3\n", r"different lengths \(1 to 2\)"),
        (read_matrix, b"1 2\n\n3 x\n", "line 3: 'x' is not a usable number"),
        (read_matrix, b"1 nan\n", "line 1: 'nan'"),
        (read_matrix, b"1 1e31\n", "line 1: '1e31'"),
        (read_matrix, b"1 1_0\n", "line 1: '1_0'"),
        (read_matrix, b"1 \xff\n", "byte 2 is not ASCII"),
        (read_labelled, b"x,y\n1,2\n", "not `class`"),
        (read_labelled, b"x,class\n", "holds no data"),
        (read_labelled, b"class\na\nb\n", "holds no data"),
        (read_labelled, b"x,class\n1,a\n1,2,a\n", "line 3: 3 fields, the header has 2"),
        (read_labelled, b"x,class\n1,\n", "line 2: the class label is empty"),
        (read_labelled, b"x,class\n,a\n", "line 2: '' is not a usable number"),
    ],
)
def test_bad_tables_name_file_and_line(
    read: Callable[[Path], object], content: bytes, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=complaint) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_oversized_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dims_paper.datasets.text._LARGEST", 10)
    path = tmp_path / "large.txt"
    path.write_bytes(b"1 2 3 4 5 6")
    with pytest.raises(ValueError, match="larger than 10 bytes"):
        read_matrix(path)


def assert_sound(split: Split) -> None:
    for inputs, targets in (
        (split.train_inputs, split.train_targets),
        (split.test_inputs, split.test_targets),
        (split.validation_inputs, split.validation_targets),
    ):
        assert len(inputs) == len(targets)
        assert torch.isfinite(inputs).all()
        assert ((targets >= 0) & (targets < split.classes)).all()


@fuzz
@given(content=malformed)
def test_banana_from_any_bytes_is_sound_or_a_value_error(content: bytes, install) -> None:
    install("banana", {"banana/banana.csv": content})
    try:
        split = load_banana(0, train_points=2)
    except ValueError:
        return
    assert_sound(split)


@fuzz
@given(content=malformed, other=malformed)
def test_snelson_from_any_bytes_is_sound_or_a_value_error(
    content: bytes, other: bytes, install
) -> None:
    names = ("train_inputs", "train_outputs", "test_inputs")
    contents = dict(zip(names, (content, other, content), strict=True))
    install("snelson", {f"snelson/{name}.txt": value for name, value in contents.items()})
    try:
        data = load_snelson(gap=(1.5, 3.0))
    except ValueError:
        return
    assert len(data.train_inputs) == len(data.train_targets)


@fuzz
@given(content=malformed, labels=malformed)
def test_uci_from_any_bytes_is_sound_or_a_value_error(
    content: bytes, labels: bytes, install
) -> None:
    folder = "uci_bnn_predictions"
    stem = f"{folder}/australian_presplit/australian_scale"
    install("glass", {f"{folder}/glass/X.txt": content, f"{folder}/glass/Y.txt": labels})
    install("ionosphere", {f"{folder}/ionosphere/ionosphere.data": content})
    install(
        "australian",
        {f"{stem}_{part}.csv": content for part in ("X_tr", "X_te")}
        | {f"{stem}_{part}.csv": labels for part in ("y_tr", "y_te")},
    )
    install("vehicle_clean", {"uci/vehicle.csv": content})
    for name, protocol in (
        ("glass", "bnn-predictions"),
        ("ionosphere", "bnn-predictions"),
        ("australian", "bnn-predictions"),
        ("vehicle", "clean"),
    ):
        try:
            split = load_uci(name, 0, protocol)
        except ValueError:
            continue
        assert_sound(split)
