"""`dims init`: a file to begin with."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

__all__ = ["init"]


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("my_run.py"),
) -> None:
    """Write an example of what `dims sample` reads: a function with network, data and likelihood.

    Example: dims init my_run.py
    """
    name = str(file)[:80]
    if file.suffix != ".py" or not file.stem.isidentifier() or file.stem in sys.stdlib_module_names:
        _refuse(f"FILE: {name!r} cannot name a module; give a name such as my_run.py")
    text = resources.files("dims.commands").joinpath("entry_template.py").read_text("utf-8")
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text.replace("my_run.py", file.name))
    except FileExistsError:
        _refuse(f"FILE: {name} exists; give another name")
    except (OSError, ValueError) as error:
        _refuse(f"FILE: {name!r} cannot be written ({error})")
    Console(highlight=False).print(
        f"Wrote {name}. Next: dims sample {name}:problem --store runs/first", soft_wrap=True
    )


def _refuse(message: str) -> None:
    print(f"dims: {message}", file=sys.stderr)
    raise typer.Exit(2)
