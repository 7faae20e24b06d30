"""Systems without `fcntl`, `resource`, SIGHUP and some flags of `open`: Windows, above all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dims.errors import StoreError, StoreWarning
from dims.sampling.store import platforms
from dims.sampling.store.folder import locked, read_small

SOURCES = Path(platforms.__file__).parents[3]

# Torch is imported first: on Linux it may use what is taken away here.
PROGRAM = """
import os, signal, sys
import safetensors.torch, torch
for name in ("fcntl", "resource"):
    sys.modules[name] = None
for name in ("O_NOFOLLOW", "O_NONBLOCK"):
    delattr(os, name)
del signal.SIGHUP

import dims
from dims.commands import cli

torch.manual_seed(0)
model = torch.nn.Linear(2, 1).double().eval()
x = torch.randn(9, 2, dtype=torch.float64)
likelihood = dims.Gaussian(1.0)
posterior = dims.fit(model, (x, x[:, :1]), likelihood, prior_precision=1.0, refine=True)
settings = {"max_time": 0.2, "progress": False, "chunk_size": 2, "store": sys.argv[1]}
first, again = (posterior.sample(3, **settings).parameters for _ in range(2))
assert torch.equal(first, again) and first.isfinite().all()
draws = posterior.sample(2, "la", progress=False)
draws.save(sys.argv[1] + "/kept.safetensors")
kept = dims.load(sys.argv[1] + "/kept.safetensors", model=model)
assert torch.equal(kept.parameters, draws.parameters)
print("sampled")
"""


def test_it_imports_samples_and_keeps_draws_without_them(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    assert done.stdout == "sampled\n", done.stderr


def windows(monkeypatch: pytest.MonkeyPatch, code: int | None) -> list[tuple[int, int]]:
    """Windows' locks instead of POSIX's; with an errno they are taken. The calls are noted."""
    calls: list[tuple[int, int]] = []

    def locking(descriptor: int, mode: int, length: int) -> None:
        calls.append((mode, length))
        if code is not None:
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(platforms, "fcntl", None)
    monkeypatch.setattr(platforms, "msvcrt", SimpleNamespace(LK_NBLCK=2, locking=locking))
    return calls


def test_windows_locks_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = windows(monkeypatch, None)
    with locked(tmp_path) as writable:
        assert writable
    assert calls == [(2, 1)]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EDEADLK])
def test_a_lock_that_is_taken_is_named(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows(monkeypatch, code)
    with pytest.raises(StoreError, match="another process is writing"), locked(tmp_path):
        pass


def test_no_locks_at_all_are_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    windows(monkeypatch, None)
    monkeypatch.setattr(platforms, "msvcrt", None)
    with pytest.warns(StoreWarning, match="no file locks"), locked(tmp_path) as writable:
        assert writable


def test_links_are_not_followed_without_the_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platforms, "NO_LINKS", 0)
    (tmp_path / "secret").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    assert read_small(tmp_path / "link", 10) is None
    assert read_small(tmp_path / "secret", 10) == b"x"
