"""Data flows one way: a module imports only from the layers above it."""

from __future__ import annotations

import ast
from pathlib import Path

import dims

ROOT = Path(dims.__file__).parent

LAYERS = (
    {"prediction", "model"},
    {"surface"},
    {"curvature"},
    {"mechanics"},
    {"sampling"},
    {"baselines"},
    {"estimators"},
    {"commands"},
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def box_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_boxes(path: Path) -> set[str]:
    boxes = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dims."):
            boxes.add(node.module.split(".")[1])
        if isinstance(node, ast.Import):
            boxes |= {a.name.split(".")[1] for a in node.names if a.name.startswith("dims.")}
    return boxes


def test_every_module_has_a_layer():
    boxes = {box_of(path) for path in ROOT.rglob("*.py")} - {"__init__", "__main__"}
    assert boxes <= set(RANK)


def test_imports_point_upwards_only():
    wrong = [
        f"{path.relative_to(ROOT)} imports {box}"
        for path in ROOT.rglob("*.py")
        if box_of(path) not in ("__init__", "__main__")
        for box in imported_boxes(path)
        if box != box_of(path) and RANK[box] > RANK[box_of(path)]
    ]
    assert wrong == []
