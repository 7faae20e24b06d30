"""The site builds without a warning, and its search knows every page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_search_of_the_site_knows_every_page(tmp_path):
    pytest.importorskip("mkdocs", reason="`make docs` installs it")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    index = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].split("#")[0] for entry in index["docs"]}
    pages = {
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        for path in (ROOT / "docs").rglob("*.md")
    }
    assert pages <= found
    words = " ".join(entry["text"] for entry in index["docs"])
    assert all(word in words for word in ("mutual information", "SLURM", "deep ensemble"))
    # Nothing is fetched from elsewhere when a page is read.
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'src="http' not in text
    assert 'rel="stylesheet" href="http' not in text
