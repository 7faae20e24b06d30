from __future__ import annotations

from pathlib import Path

import pytest

from dims_paper.datasets.banana import load_banana
from dims_paper.datasets.images import load_images
from dims_paper.datasets.locate import (
    DataNotFoundError,
    FileState,
    available,
    cache_directory,
    check,
    data_directories,
    find,
)
from dims_paper.datasets.registry import dataset
from dims_paper.datasets.snelson import load_snelson
from dims_paper.datasets.uci import load_uci


def test_search_order_is_dims_data_then_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIMS_DATA", str(tmp_path / "named"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_directories() == (tmp_path / "named", tmp_path / "cache" / "dims")
    size = dataset("banana").files[0].size
    for directory in reversed(data_directories()):
        (directory / "banana").mkdir(parents=True)
        (directory / "banana" / "banana.csv").write_bytes(b" " * size)
        assert find("banana/banana.csv") == directory / "banana" / "banana.csv"


def test_cache_falls_back_to_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for useless in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", useless)
        assert cache_directory() == tmp_path / ".cache" / "dims"
    monkeypatch.setenv("DIMS_DATA", "~/somewhere")
    assert data_directories()[0] == tmp_path / "somewhere"


def test_missing_file_says_what_where_and_how_in_one_line(empty_home: Path) -> None:
    with pytest.raises(DataNotFoundError) as caught:
        load_banana(0)
    assert isinstance(caught.value, FileNotFoundError)
    assert str(caught.value) == (
        f"banana/banana.csv is not in DIMS_DATA (not set) or {empty_home}; "
        "run `dims data fetch banana` or set DIMS_DATA to a folder that holds it"
    )


def test_missing_file_without_a_home_promises_no_download(
    empty_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIMS_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataNotFoundError) as caught:
        load_uci("vehicle", 0, "clean")
    message = str(caught.value)
    assert f"DIMS_DATA ({tmp_path / 'nowhere'}) or {empty_home}" in message
    assert "no public address serves the same bytes" in message
    assert "fetch" not in message
    assert "\n" not in message


@pytest.mark.usefixtures("empty_home")
def test_every_loader_reports_missing_files() -> None:
    for load in (
        load_snelson,
        lambda: load_images("mnist", "train"),
        lambda: load_uci("glass", 0),
        lambda: load_uci("ionosphere", 0),
        lambda: load_uci("australian", 0),
    ):
        with pytest.raises(DataNotFoundError):
            load()


def test_truncated_file_is_named(empty_home: Path) -> None:
    target = empty_home / "banana" / "banana.csv"
    target.parent.mkdir(parents=True)
    target.write_bytes(b"1.14,-0.114,1\n")
    with pytest.raises(ValueError, match=r"banana\.csv has 14 bytes instead of 75050") as caught:
        load_banana(0)
    assert str(target) in str(caught.value)


def test_check_and_available_tell_the_states_apart(empty_home: Path) -> None:
    assert available() == ()
    assert {status.state for status in check()} == {FileState.MISSING}
    file = dataset("banana").files[0]
    target = empty_home / file.path
    target.parent.mkdir(parents=True)
    target.write_bytes(b"0" * file.size)
    (status,) = check("banana")
    assert status.state is FileState.DAMAGED
    assert status.location == target
    # The size is right, and `available` looks at nothing else.
    assert available() == ("banana",)


@pytest.mark.data
def test_real_files_are_all_good() -> None:
    statuses = check()
    assert len(statuses) == 58
    assert {status.state for status in statuses} == {FileState.OK}
    assert len(available()) == 23
