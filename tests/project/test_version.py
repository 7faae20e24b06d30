"""The version is written once, in `dims/__init__.py`; everything else repeats or reads it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import dims

ROOT = Path(__file__).parents[2]


def test_both_packages_read_the_version_of_the_library():
    for place in (ROOT, ROOT / "paper"):
        settings = tomllib.loads((place / "pyproject.toml").read_text(encoding="utf-8"))
        assert settings["project"]["dynamic"] == ["version"]
        source = (place / settings["tool"]["hatch"]["version"]["path"]).resolve()
        assert source == ROOT / "src/dims/__init__.py"


def test_the_citation_names_the_newest_release_of_the_changelog():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d[^\]]*)\]", changes, re.M)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(rf"^version: {re.escape(released[0])}$", citation, re.M)
    if "dev" in dims.__version__:
        assert "## [Unreleased]" in changes
    else:
        assert released[0] == dims.__version__
