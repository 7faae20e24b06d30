"""`dims data`: where the data sets are, and how to get them."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

from dims_paper.tables import Table

data = typer.Typer(no_args_is_help=True)


@data.callback()
def root() -> None:
    """List, fetch and check the data sets of the experiments.

    Example: dims data list
    """


@data.command(name="list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """All data sets, and which are here.

    Example: dims data list
    """
    from dims_paper.datasets.locate import available, data_directories
    from dims_paper.datasets.registry import list_datasets

    here = available()
    if as_json:
        print(json.dumps({source.name: source.name in here for source in list_datasets()}))
        return
    rows = []
    for source in list_datasets():
        size = sum(file.size for file in source.files) / 1e6
        present = "yes" if source.name in here else "no"
        rows.append([source.name, str(len(source.files)), f"{size:.1f} MB", present])
    console = Console()
    Table(("name", "files", "size", "here"), rows).show(console)
    places = ", ".join(str(place) for place in data_directories())
    console.print(f"Looked for in {places}. Get one with: dims data fetch NAME")


@data.command()
def fetch(
    names: Annotated[list[str], typer.Argument(help="Data sets, as `dims data list` names them.")],
) -> None:
    """Download data sets into the cache and verify them.

    Example: dims data fetch snelson banana
    """
    from dims_paper.datasets.download import fetch as fetch_one

    for name in names:
        try:
            places = fetch_one(name)
        except (OSError, ValueError) as error:
            sys.exit(f"dims: {error}")
        Console().print(f"{name}: {len(places)} files in {places[0].parent}")


@data.command()
def check() -> None:
    """Compare every file that is here with its checksum; exit with 1 if one is damaged.

    Example: dims data check
    """
    from dims_paper.datasets.locate import FileState
    from dims_paper.datasets.locate import check as check_all

    statuses = check_all()
    for status in statuses:
        if status.state is not FileState.MISSING:
            print(f"{status.state.value:8} {status.location}")
    damaged = sum(status.state is FileState.DAMAGED for status in statuses)
    missing = sum(status.state is FileState.MISSING for status in statuses)
    print(f"{len(statuses)} files, {missing} not here, {damaged} damaged")
    if damaged:
        raise typer.Exit(1)
