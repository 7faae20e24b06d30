"""`dims compare`: all methods on your own network and data, as a table and a page."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from dims.commands.exits import end, stop

__all__ = ["compare"]

NEEDED = ("model", "data", "likelihood", "validation", "test")


def compare(
    entry: Annotated[
        str, typer.Argument(help="`file.py:function` of the arguments of dims.compare, as a dict")
    ],
    store: Annotated[Path, typer.Option(help="Folder of the comparison, and of its page.")],
    draws: Annotated[int, typer.Option(min=1, help="Draws of each method.")] = 30,
    methods: Annotated[str | None, typer.Option(help="Some of them: dims,swag.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Scores for programs.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Compare methods on your own network; the same command goes on after a stop.

    ENTRY returns a dict: model, data, likelihood, validation, test, and ood if you have it.

    Example: dims compare my_run.py:comparison --store runs/compared
    """
    from dims import baselines
    from dims.commands.entry import import_entry
    from dims.commands.pages.compare_page import compare_page
    from dims.commands.pages.html import write_page
    from dims.errors import MemoryLimitError

    try:
        module, name = import_entry(entry)
        given = _called(module, name)
        if methods is not None:
            given["methods"] = [method.strip() for method in methods.split(",")]
        found = baselines.compare(**given, draws=draws, seed=seed, store=store, progress=not quiet)
        page = write_page(compare_page(store), store / "comparison.html")
    except KeyboardInterrupt:
        stop(store)
    except (MemoryLimitError, OSError, TypeError, ValueError) as error:
        end(error)
    if as_json:
        print(json.dumps({scores.method: scores.to_json() for scores in found.methods}))
    else:
        print(f"{found}\n\nPage: {page}")


def _called(module: Any, name: str) -> dict[str, Any]:
    from dims.errors import EntryError

    try:
        with redirect_stdout(sys.stderr):  # what is printed there is not the table, nor its JSON
            made = getattr(module, name)()
    except Exception as error:
        raise EntryError(f"ENTRY: {name}() failed: {type(error).__name__}: {error}") from error
    missing = [key for key in NEEDED if not isinstance(made, dict) or key not in made]
    if missing:
        raise EntryError(
            f"ENTRY: {name}() must return a dict with {', '.join(NEEDED)}; missing: "
            f"{', '.join(missing)}"
        )
    return dict(made)
