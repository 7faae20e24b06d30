"""`dims init`: a file to begin with."""

from __future__ import annotations

import json
import sys
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dims.commands.exits import end
from dims.commands.table import GAPS, read_table
from dims.errors import TableError

__all__ = ["init"]


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("my_run.py"),
    csv: Annotated[
        Path | None, typer.Option(help="Your table, with names in its first line.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Its column to predict; the last one without it.")
    ] = None,
) -> None:
    """Write a program to begin with: network, data and likelihood, for `dims sample` or on its own.

    With --csv it reads your table: `python my_run.py` then trains, draws and makes a picture.

    Example: dims init my_run.py --csv houses.csv --target price
    """
    name = str(file)[:80]
    if file.suffix != ".py" or not file.stem.isidentifier() or file.stem in sys.stdlib_module_names:
        end(f"FILE: {name!r} cannot name a module; give a name such as my_run.py")
    if target is not None and csv is None:
        end("--target: it is a column of a table; give --csv too")
    text, told = _template("entry_template.py", file.stem), ""
    if csv is not None:
        text, told = _for_table(csv, target, file.stem)
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        end(f"FILE: {name} exists; give another name")
    except (OSError, ValueError) as error:
        end(f"FILE: {name!r} cannot be written ({error})")
    following = (
        f"dims sample {name}:problem --store runs/first" if csv is None else f"python {name}"
    )
    Console(highlight=False, markup=False).print(
        f"{told}Wrote {name}. Next: {following}", soft_wrap=True
    )


def _for_table(csv: Path, target: str | None, stem: str) -> tuple[str, str]:
    """The program for a table, and what was found in it."""
    try:
        table = read_table(csv, target)
    except TableError as error:
        end(f"--csv: {error}")
    other = {"regression": "classification", "classification": "regression"}[table.likelihood]
    text = _template("csv_template.txt", stem).format(
        csv=json.dumps(str(csv.resolve()), ensure_ascii=False),
        inputs=json.dumps(table.inputs, ensure_ascii=False),
        target=json.dumps(table.target, ensure_ascii=False),
        likelihood=table.likelihood,
        other=other,
        gaps=json.dumps(GAPS),
    )
    gaps = f" ({table.gaps} with gaps left out)" if table.gaps else ""
    told = (
        f"{table.rows} complete rows{gaps}; {table.likelihood} of {table.target!r} from "
        f"{', '.join(table.inputs)}.\n"
    )
    if table.left_out:
        told += f"Not numbers, left out: {', '.join(table.left_out)}.\n"
    return text, told


def _template(name: str, stem: str) -> str:
    text = resources.files("dims.commands").joinpath(name).read_text("utf-8")
    return text.replace("my_run", stem)
