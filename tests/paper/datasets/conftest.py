"""Fixtures for the data tests: an empty home, and files of any content in their places."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dims_paper.datasets.registry import DATASETS, DataFile, Dataset

Install = Callable[[str, dict[str, bytes]], None]


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No DIMS_DATA and an empty cache; returns the cache folder (which does not exist yet)."""
    monkeypatch.delenv("DIMS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "dims"


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Install]:
    """A function that puts files of any content in place as if they were a data set's own.

    Module-scoped, so that hypothesis can call it once an example.
    """
    root = tmp_path_factory.mktemp("installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DIMS_DATA", str(root))

        def put(name: str, contents: dict[str, bytes]) -> None:
            files = []
            for path, content in contents.items():
                target = root / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                digest = hashlib.sha256(content).hexdigest()
                files.append(DataFile(path, len(content), digest))
            patch.setitem(DATASETS, name, Dataset(name, name, "", tuple(files)))

        yield put
