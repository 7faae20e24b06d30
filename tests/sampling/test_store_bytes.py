"""Files are the same byte for byte, and others may read them where they may read the folder."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from test_store import make_posterior, sample

from dims.sampling.engine import InProcess
from dims.sampling.files import write_tensors_atomically, write_text_atomically

pytestmark = pytest.mark.usefixtures("without_shape_checks")


def sums(store: Path) -> dict[str, str]:
    files = [path for path in store.iterdir() if path.name != "lock"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_two_runs_write_the_same_bytes(tmp_path):
    posterior = make_posterior()
    for name in ("one", "other"):
        sample(posterior, tmp_path / name)
    assert len(sums(tmp_path / "one")) == 5  # three chunks, the manifest, the findings
    assert sums(tmp_path / "one") == sums(tmp_path / "other")


@pytest.mark.parametrize("left", [".findings.json.0a1b2c.part", "partial_00001.safetensors"])
def test_what_a_kill_after_the_last_chunk_leaves_is_removed(tmp_path, left):
    """Killed while the findings were written, or before the state of a kept chunk was removed."""
    posterior, store = make_posterior(), tmp_path / "run"
    sample(posterior, store)
    before = sums(store)
    (store / left).write_bytes(b"half of it")
    sample(posterior, store)
    assert sums(store) == before


def test_the_callers_threads_do_not_show_in_a_file(tmp_path, monkeypatch):
    """The loss at θ* is in the header; a sum over many points rounds by the number of threads."""
    monkeypatch.setattr(InProcess, "threads", 1)
    posterior, before = make_posterior(data=100_000), torch.get_num_threads()
    losses = set()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        losses.add(float(posterior.surface.value(posterior.map_parameters.unsqueeze(0))))
        posterior.sample(1, "la", store=tmp_path / str(threads), progress=False)
    torch.set_num_threads(before)
    if len(losses) == 1:
        pytest.skip("sums do not depend on the number of threads here")
    assert sums(tmp_path / "1") == sums(tmp_path / "2")


METADATA = {f"key {i}": chr(code) for i, code in enumerate([34, 92, 10, 1, 31, 127, 233, 0x1F600])}


def test_metadata_come_in_one_order_and_are_read_back(tmp_path):
    tensors = {"b": torch.arange(3), "a": torch.ones(2, 2), "é": torch.zeros(())}
    written = set()
    for number in range(5):
        path = tmp_path / str(number)
        write_tensors_atomically(path, tensors, METADATA)
        written.add(path.read_bytes())
        with safe_open(path, framework="pt") as file:
            assert file.metadata() == METADATA
            assert all(torch.equal(file.get_tensor(name), tensors[name]) for name in tensors)
    assert len(written) == 1


@pytest.mark.parametrize(
    ("folder", "file"), [(0o755, 0o644), (0o750, 0o640), (0o700, 0o600), (0o2775, 0o644)]
)
def test_who_may_read_the_folder_may_read_the_files(tmp_path, folder, file):
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(folder)
    write_tensors_atomically(place / "tensors", {"a": torch.ones(1)})
    write_text_atomically(place / "text", "a")
    for path in place.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == file, path.name


def test_a_file_in_a_place_for_all_keeps_its_own_permissions(tmp_path):
    tmp_path.chmod(0o1777)
    before = os.umask(0o077)
    try:
        write_text_atomically(tmp_path / "text", "a")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "text").stat().st_mode) == 0o600


def test_a_store_has_the_permissions_of_its_folder(tmp_path):
    (tmp_path / "run").mkdir(mode=0o750)
    (tmp_path / "run").chmod(0o750)
    sample(make_posterior(), tmp_path / "run")
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "run").iterdir()}
    assert modes.pop("lock") & 0o600 == 0o600
    assert set(modes.values()) == {0o640}
