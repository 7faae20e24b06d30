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
from dims.errors import TableError

__all__ = ["init"]

HELD_OUT = 0.2  # in the program that is written
# Rows of a whole table; below, a simpler model is often as good. How many held-out rows it takes to
# judge an answer is another question: `FEWEST_TO_JUDGE_BY` of the verdict.
FEWEST_TO_LEARN_FROM = 60
FEW = (
    "{} rows are few: ask by cross-validation whether a linear model or a Gaussian process "
    "predicts them better: python {} --cross-validate"
)
NO_NAMES = (
    "WARNING: the first line ({}, …) looks like the rows below it; it must have the names of the "
    "columns, or its row is lost"
)
OTHER = {"regression": "classification", "classification": "regression"}


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("my_run.py"),
    csv: Annotated[
        Path | None, typer.Option(help="Your table, with names in its first line.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Its column to predict; the last one without it.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="regression or classification; by its values without it.")
    ] = None,
) -> None:
    """Write a program to begin with: network, data and likelihood, for `dims sample` or on its own.

    With --csv it reads your table: `python my_run.py` then trains, draws and makes a picture.

    Example: dims init my_run.py --csv houses.csv --target price
    """
    name = str(file)[:80]
    _check_name(file, name)
    if target is not None and csv is None:
        end("--target: it is a column of a table; give --csv too")
    if task is not None and csv is None:
        end("--task: it says what is predicted of a table; give --csv too")
    if task is not None and task not in OTHER:
        end(f"--task: {task[:40]!r} is unknown; regression (numbers) or classification (classes)")
    text, told = _template("entry_template.py", file.stem), ""
    if csv is not None:
        text, told = _for_table(csv, target, task, file)
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


def _check_name(file: Path, shown: str) -> None:
    """`dims sample` imports the program by its name."""
    if file.suffix != ".py":
        end(f"FILE: give {shown!r} a name that ends in .py, such as my_run.py")
    if not file.stem.isidentifier():
        end(f"FILE: {shown!r} may have letters, digits and _ only, and no digit first")
    if file.stem in sys.stdlib_module_names:
        end(f"FILE: {shown!r} is the name of a module of Python; give another, such as my_run.py")


def _for_table(csv: Path, target: str | None, task: str | None, file: Path) -> tuple[str, str]:
    """The program for a table, and what was decided about its columns."""
    try:
        from dims.estimators import tables
    except ImportError as error:
        end(f"--csv: {error}")
    try:
        table = tables.read_text(csv)
        target = str(table.cells.columns[-1]) if target is None else target
        if target not in table.cells:
            there = ", ".join(map(str, table.cells.columns[:20]))
            meant = tables.did_you_mean([target], table.cells.columns)
            end(f"--target: no column {target!r}; there are {there}{meant}")
        chosen = tables.choose_task(table, target, task)
        columns = tables.choose_columns(table, target)
        kinds = {name: column.kind for name, column in columns.items()}
        read = tables.read(csv, kinds, target, chosen.kind, table.format)
        known, _ = read.split(HELD_OUT)  # as the program does, which then says the same
        sign = tables.other_decimal_sign(table)
        notes = [sign, *read.notes, *tables.decisions(tables.preparation(kinds), known)]
        if tables.looks_like_a_row(table):
            notes.append(NO_NAMES.format(", ".join(map(str, table.cells.columns[:4]))))
        if len(read) < FEWEST_TO_LEARN_FROM:
            notes.append(FEW.format(len(read), file))
    except TableError as error:
        end(f"--csv: {str(error).replace('set TASK = ', 'give --task ')}")
    listed = [
        f"    {_literal(name)}: {_literal(each.kind)},  # {' '.join(each.why.split())}"
        for name, each in columns.items()
    ]
    text = _template("csv_template.txt", file.stem).format(
        csv=_literal(_seen_from(file.resolve().parent, csv.resolve())),
        separator=_literal(table.format.separator),
        decimal=_literal(table.format.decimal),
        encoding=_literal(table.format.encoding),
        format_comment=f"# {' '.join(sign.split())}\n" if sign else "",
        target=_literal(target),
        task=chosen.kind,
        task_comment=f'or "{OTHER[chosen.kind]}"; {chosen.why}',
        columns="\n".join(listed),
        held_out=HELD_OUT,
    )
    found = {target: tables.Column(f"{chosen.kind} target", chosen.why)} | columns
    wide, kind = max(map(len, found)), max(len(column.kind) for column in found.values())
    lines = [f"{name:{wide}}  {each.kind:{kind}}  {each.why}" for name, each in found.items()]
    head = (
        f"{len(table.cells)} rows, separator {table.format.separator!r}, decimal sign "
        f"{table.format.decimal!r}, encoding {table.format.encoding}:"
    )
    return text, "\n".join([head, *(f"  {line}" for line in lines), *filter(None, notes)]) + "\n"


def _seen_from(folder: Path, csv: Path) -> str:
    """A table in or below the folder of its program can be moved with it."""
    return csv.relative_to(folder).as_posix() if csv.is_relative_to(folder) else str(csv)


def _literal(text: str) -> str:
    """Python source of a string: a name in a table stays text."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\x7f")


def _template(name: str, stem: str) -> str:
    text = resources.files("dims.commands").joinpath(name).read_text("utf-8")
    return text.replace("my_run", stem)
