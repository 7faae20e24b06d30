"""A file reads in one sitting, a function on one screen, and the top of the package at a glance."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [path for room in ("src", "paper") for path in sorted((ROOT / room).rglob("*.py"))]
LONGEST_FILE, LONGEST_FUNCTION, TOP_NAMES = 300, 60, 10


def functions(text: str) -> list[tuple[str, int]]:
    """Every function with its number of lines, from `def` to its last."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    return [(node.name, (node.end_lineno or 0) - node.lineno + 1) for node in nodes]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_are_short(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_FILE
    assert [entry for entry in functions(text) if entry[1] > LONGEST_FUNCTION] == []


def test_a_long_function_is_seen():
    body = "\n".join("    pass" for _ in range(60))
    assert functions(f"def f():\n{body}\n") == [("f", 61)]


def test_the_package_has_few_names_at_its_top():
    here = {path.name for path in (ROOT / "src/dims").iterdir()}
    names = here - {"__init__.py", "__pycache__", "py.typed"}
    assert len(names) <= TOP_NAMES, sorted(names)
    for room in names:
        if not room.endswith(".py"):
            text = (ROOT / "src/dims" / room / "__init__.py").read_text(encoding="utf-8")
            assert ast.get_docstring(ast.parse(text)), f"{room} has no sentence of its own"
