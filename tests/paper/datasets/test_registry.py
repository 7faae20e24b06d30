from __future__ import annotations

from pathlib import Path

import pytest

from dims_paper.datasets.locate import sha256_of
from dims_paper.datasets.registry import DATASETS, dataset, list_datasets, owner


def test_every_file_is_registered_once_and_plausible() -> None:
    files = [file for source in list_datasets() for file in source.files]
    assert len(files) == 58
    assert len({file.path for file in files}) == 58
    for file in files:
        assert file.size > 0
        assert len(bytes.fromhex(file.sha256)) == 32
        assert ".." not in file.path
        assert not file.path.startswith("/")
        for home in file.homes:
            assert home.startswith(("https://", "http://"))
            assert home.endswith("/" + Path(file.path).name)


def test_every_dataset_has_files_and_words() -> None:
    assert len(DATASETS) == 23
    for name, source in DATASETS.items():
        assert source.name == name
        assert source.files
        assert source.title
        assert source.licence


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown data set 'minst'; known: snelson, banana"):
        dataset("minst")
    with pytest.raises(ValueError, match="no data set has a file"):
        owner("mnist/nothing.gz")


@pytest.mark.data
def test_checksums_agree_with_the_list_beside_the_data(data_root: Path) -> None:
    lines = (data_root / "SHA256SUMS").read_text().splitlines()
    listed = {path.removeprefix("./"): digest for digest, path in map(str.split, lines)}
    listed.pop("README.md")
    registered = {file.path: file for source in list_datasets() for file in source.files}
    assert {path: file.sha256 for path, file in registered.items()} == listed
    for path, file in registered.items():
        assert (data_root / path).stat().st_size == file.size
        assert sha256_of(data_root / path) == file.sha256
