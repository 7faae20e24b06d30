"""The README's examples run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
def test_python_blocks_run_in_order():
    assert len(BLOCKS) == 2
    assert len(BLOCKS[1].splitlines()) == 3  # as its heading says
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)
    prediction = names["prediction"]
    assert prediction.mean.shape == (2, 1)
    assert prediction.epistemic[1] > prediction.epistemic[0]  # wider away from the data


def test_links_and_pictures_are_there():
    links = re.findall(r"\]\(([^)#\s]+)", README.read_text())
    assert len(links) > 20
    assert [link for link in links if not (README.parent / link).is_file()] == []


def test_it_fits_a_screen():
    """Seventy lines, ten of which are code to copy: a page of a code host, read without search."""
    assert len(README.read_text().splitlines()) <= 70


def test_every_make_command_of_the_readme_exists():
    named = set(re.findall(r"\bmake ([a-z-]+)", README.read_text()))
    makefile = (README.parent / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    assert {"install", "demo", "test"} <= named
    assert named <= targets
