"""ENTRY of `dims sample`: where a Python function is, and what it must return."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from dims.errors import EntryError

__all__ = ["call_entry", "import_entry", "import_source"]

MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def import_entry(entry: str) -> tuple[ModuleType, str]:
    """The module of `file.py:function` or `module:function`, and the function's name."""
    source, _, name = entry.rpartition(":")
    if not source or not name.isidentifier():
        raise EntryError(
            f"ENTRY: {entry[:80]!r} is not `file.py:function` or `module:function`; "
            "`dims init` writes an example"
        )
    module = import_source(source)
    if not callable(getattr(module, name, None)):
        raise EntryError(f"ENTRY: {source} has no function {name!r}")
    return module, name


def import_source(source: str, argument: str = "ENTRY") -> ModuleType:
    """Import `file.py` or a module by its name; errors name the argument that gave it."""
    if source.endswith(".py"):
        return _import_file(Path(source), argument)
    return _import_module(source, argument)


def call_entry(module: ModuleType, name: str) -> tuple[nn.Module, Any, Any, Any]:
    """(model, data, likelihood, held-out rows), as the function returns them.

    The rows may be left out; then they are None.
    """
    try:
        made = getattr(module, name)()
    except Exception as error:
        raise EntryError(f"ENTRY: {name}() failed: {_where(error, module)}") from error
    if not isinstance(made, tuple) or len(made) not in (3, 4) or not isinstance(made[0], nn.Module):
        kind = f"{len(made)} values" if isinstance(made, tuple) else type(made).__name__
        raise EntryError(
            f"ENTRY: {name}() must return (model, data, likelihood) with a torch.nn.Module first, "
            f"and rows (x, y) that it has not seen last if you have some; it returned {kind}"
        )
    return made if len(made) == 4 else (*made, None)


def _import_file(path: Path, argument: str) -> ModuleType:
    try:
        plain = path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        plain = False
    if not plain:
        raise EntryError(f"{argument}: there is no file {str(path)[:80]!r}; `dims init` writes one")
    if not path.stem.isidentifier() or path.stem in sys.stdlib_module_names:
        raise EntryError(
            f"{argument}: {path.name!r} cannot name a module; rename it, say, my_run.py"
        )
    # Its neighbours can be imported, as if the file were run.
    _search(path.resolve().parent)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[path.stem]
        raise EntryError(f"{argument}: {path} failed: {_where(error, module)}") from error
    return module


def _import_module(source: str, argument: str) -> ModuleType:
    if MODULE.fullmatch(source) is None:
        raise EntryError(
            f"{argument}: {source[:80]!r} is neither the name of a module nor a file.py"
        )
    _search(Path.cwd())
    try:
        return importlib.import_module(source)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise EntryError(f"{argument}: {source} cannot be imported ({reason})") from error


def _search(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _where(error: Exception, module: ModuleType) -> str:
    """The last line of the user's own file that led to the error, and the error."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == module.__file__]
    place = f"{module.__file__}, line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {error}".replace("\n", " ")
