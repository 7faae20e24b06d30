"""Stores on full and read-only disks, and stores that mean harm."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from test_store import assert_same, chunks, make_posterior, sample

import dims
from cases import slow


@pytest.fixture(scope="module")
def posterior() -> dims.Posterior:
    return make_posterior()


@pytest.fixture(scope="module")
def draws(posterior, tmp_path_factory) -> dims.Draws:
    """Of an undisturbed run."""
    return sample(posterior, tmp_path_factory.mktemp("quiet") / "run")


@pytest.fixture
def finished(posterior, tmp_path) -> tuple[Path, dims.Draws]:
    store = tmp_path / "run"
    return store, sample(posterior, store)


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place))
    if not mounted:
        pytest.skip("file systems cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def mount(*arguments: str) -> bool:
    try:
        return (
            subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0
        )
    except FileNotFoundError:
        return False
    return done.returncode == 0


def fill(place: Path, leave: int) -> Path:
    """All but so many bytes of the disk taken."""
    ballast = place / "ballast"
    free = os.statvfs(place)
    ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - leave))
    return ballast


@pytest.mark.parametrize(("leave", "kept"), [(0, 0), slow(4096, 0), slow(8192, 1), slow(12288, 2)])
def test_a_full_disk_says_so_and_the_run_goes_on_when_there_is_room(
    posterior, draws, small_disk, leave, kept
):
    """With no room at all the manifest cannot be written, with more of it a chunk cannot."""
    ballast = fill(small_disk, leave)
    store = small_disk / "run"
    with pytest.raises(OSError, match="No space left") as caught:
        sample(posterior, store)
    assert caught.value.errno in (errno.ENOSPC, None)
    assert len(chunks(store)) == kept
    assert not list(small_disk.rglob(".*.part"))
    ballast.unlink()
    assert_same(sample(posterior, store), draws)


def test_a_read_only_disk_gives_what_it_has_and_takes_nothing(posterior, draws, small_disk):
    store = small_disk / "run"
    sample(posterior, store)
    assert mount("-o", "remount,ro", str(small_disk))
    assert_same(sample(posterior, store), draws)
    assert mount("-o", "remount,rw", str(small_disk))
    chunks(store)[1].unlink()
    assert mount("-o", "remount,ro", str(small_disk))
    with pytest.raises(dims.StoreError, match="cannot be written to, with draws 3 to 5 not there"):
        sample(posterior, store)
    assert mount("-o", "remount,rw", str(small_disk))
    assert_same(sample(posterior, store), draws)


def test_a_full_disk_leaves_a_store_that_goes_on(posterior, tmp_path, monkeypatch):
    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    store = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("dims.sampling.files.save_file", no_space)
        with pytest.raises(OSError, match="No space left"):
            sample(posterior, store)
    assert [path.name for path in store.iterdir() if path.suffix == ".part"] == []
    torch.testing.assert_close(
        sample(posterior, store).parameters, sample(posterior, None).parameters
    )


def test_links_and_pipes_in_a_store_are_not_followed(posterior, finished, tmp_path):
    store, draws = finished
    outside = tmp_path / "outside"
    outside.write_text("mine")
    chunks(store)[1].unlink()
    (store / "chunk_00001.safetensors").symlink_to(outside)
    os.mkfifo(tmp_path / "pipe")
    chunks(store)[2].unlink()
    (tmp_path / "pipe").rename(store / "chunk_00002.safetensors")
    with pytest.warns(dims.StoreWarning, match="a link or not a file"):
        assert_same(sample(posterior, store), draws)
    assert outside.read_text() == "mine"
    for name in ("lock", "manifest.json"):
        (store / name).unlink()
        (store / name).symlink_to(outside)
        with pytest.raises(dims.StoreError, match=name):
            sample(posterior, store)
        assert outside.read_text() == "mine"
        (store / name).unlink()
    os.mkfifo(store / "manifest.json")
    with pytest.raises(dims.StoreError, match=r"manifest\.json"):
        sample(posterior, store)


def test_a_giant_chunk_is_not_read(posterior, finished):
    store, draws = finished
    with chunks(store)[1].open("r+b") as file:
        file.truncate(2**40)  # sparse: it takes no room on the disk
    with pytest.warns(dims.StoreWarning, match="larger than its draws can be"):
        assert_same(sample(posterior, store), draws)


def test_a_store_that_is_a_file_is_refused(posterior, tmp_path):
    (tmp_path / "file").write_text("mine")
    for name in ("file", "file/below"):
        with pytest.raises(dims.StoreError, match="is a file, not a folder"):
            sample(posterior, tmp_path / name)
