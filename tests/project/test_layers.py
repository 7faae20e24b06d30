"""Data flows one way: a room imports only from the rooms above it on CONTRIBUTING's map."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import dims

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/dims"


def rooms_on_the_map(text: str) -> list[str]:
    """The names below `src/dims/` on the map, from the top."""
    below = text.split("\nsrc/dims/", 1)[1].split("\n```", 1)[0].splitlines()[1:]
    rooms = []
    for line in below:
        found = re.match(r"  (\w+)(/|\.py)\s", line)
        if found:
            rooms.append(found[1])
        elif not line.startswith("   "):
            break
    return rooms


ROOMS = rooms_on_the_map((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


def room_of(module: str) -> str:
    """The room of `dims.room.module`."""
    return module.split(".")[1]


def home_of(name: str) -> str | None:
    """The room that `from dims import name` reaches; None for the version, which has none."""
    if name in ROOMS:
        return name
    value = getattr(dims, name)
    module = getattr(value, "__module__", None) or getattr(value, "__name__", None)
    return room_of(module) if isinstance(module, str) and module.startswith("dims.") else None


def imported_rooms(text: str, package: str) -> set[str]:
    """The rooms that a module of the package `dims.…` imports, wherever and however it does."""
    rooms: set[str | None] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "dims"]
            # A bare `import dims` reaches everything.
            rooms |= {room_of(name) if "." in name else ROOMS[-1] for name in names}
        if isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) + 1 - node.level]
            module = node.module or ""
            if node.level:
                module = ".".join([*base, module]).rstrip(".")
            if module == "dims":
                rooms |= {home_of(alias.name) for alias in node.names}
            elif module.startswith("dims."):
                rooms.add(room_of(module))
    return {room for room in rooms if room is not None}


def wrong_imports(path: Path) -> list[str]:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    own, package = parts[0], ".".join(("dims", *parts[:-1]))
    rank = ROOMS.index(own)
    found = imported_rooms(path.read_text(encoding="utf-8"), package)
    return [f"{path.relative_to(SOURCE)}: {room}" for room in found if ROOMS.index(room) > rank]


def test_the_map_shows_every_room_and_no_other():
    here = {path.stem for path in SOURCE.iterdir() if path.suffix != ".typed"}
    assert set(ROOMS) == here - {"__init__", "__pycache__"}


def test_imports_point_upwards_only():
    paths = [path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py"]
    assert [wrong for path in paths for wrong in wrong_imports(path)] == []


def test_every_kind_of_import_is_seen():
    text = (
        "import dims.model.shapes\n"
        "from dims import integrate, __version__\n"
        "from dims import curvature\n"
        "from . import swag\n"
        "from ..sampling.draws import Draws\n"
        "def late():\n    from dims.commands import app\n"
    )
    expected = {"model", "mechanics", "curvature", "baselines", "sampling", "commands"}
    assert imported_rooms(text, "dims.baselines") == expected


def test_the_library_does_not_know_the_paper():
    known = [path for path in SOURCE.rglob("*.py") if "dims_paper" in path.read_text()]
    assert known == []
