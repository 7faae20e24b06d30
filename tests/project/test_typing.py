"""`mypy --strict` accepts a user's program without ignores, and sees a mistake in it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAM = HERE / "typed_program.py"
MISTAKES = """
import torch
from torch import nn

import dims

posterior = dims.fit(nn.Linear(1, 1), (torch.ones(3, 1), torch.ones(3, 1)), "regression")
posterior.sample("three")
posterior.sample(3).predict(torch.ones(1, 1)).median
"""


@pytest.mark.slow
def test_a_users_program_passes_strict_checks(tmp_path: Path) -> None:
    assert "type: ignore" not in PROGRAM.read_text(encoding="utf-8")
    wrong = tmp_path / "mistakes.py"
    wrong.write_text(MISTAKES, encoding="utf-8")
    options = ["--strict", "--config-file", os.devnull, "--cache-dir", str(tmp_path / "cache")]
    found = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(PROGRAM), str(wrong)],
        env={**os.environ, "MYPYPATH": str(HERE.parents[1] / "src")},
        capture_output=True,
        text=True,
        timeout=500,
    )
    lines = [line for line in found.stdout.splitlines() if ": error:" in line]
    assert [line for line in lines if "mistakes.py" not in line] == [], found.stdout
    assert len(lines) == 2, found.stdout
    assert "arg-type" in lines[0]
    assert "attr-defined" in lines[1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("typed_program", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert isinstance(module.main(), float)
