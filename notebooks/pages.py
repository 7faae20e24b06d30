"""Run the notebooks without Jupyter, and write their pages for the site.

    python notebooks/pages.py            # run both, write docs/notebooks/*.md and their figures

A notebook is a list of cells. The first code cell with names in capitals holds its settings, which
`run` can replace by smaller ones. What a cell shows is what a notebook would: printed text, the
value of its last line (as HTML where it has some), and figures.
"""

from __future__ import annotations

import ast
import contextlib
import html
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGES = HERE.parent / "docs" / "notebooks"
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))


@dataclass
class Cell:
    """A cell, and what it showed when it ran."""

    kind: str
    source: str
    text: str = ""
    value: Any = None
    figures: list[Any] = field(default_factory=list)


def read(notebook: Path) -> list[Cell]:
    """The cells of a notebook."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [Cell(cell["cell_type"], "".join(cell["source"])) for cell in cells]


def run(notebook: Path, **settings: Any) -> tuple[list[Cell], dict[str, Any]]:
    """Run all code cells in order.

    Args:
        notebook: The file.
        settings: Values for names in capitals, in place of those that the notebook assigns.

    Returns:
        The cells with what they showed, and the names that they defined.
    """
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    plt.close("all")
    cells, names = read(notebook), {"__name__": notebook.stem}
    for number, cell in enumerate(cells):
        if cell.kind != "code":
            continue
        body = ast.parse(replaced(cell.source, settings))
        last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
        place, printed = f"{notebook.name}, cell {number}", io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(body, place, "exec", dont_inherit=True), names)
            if isinstance(last, ast.Expr):
                expression = compile(ast.Expression(last.value), place, "eval", dont_inherit=True)
                cell.value = eval(expression, names)
        cell.text = printed.getvalue()
        cell.figures = [plt.figure(number) for number in plt.get_fignums()]
        plt.close("all")
    return cells, names


def replaced(source: str, settings: Mapping[str, Any]) -> str:
    """The source with other values for `NAME = value` at the start of a line."""
    lines = []
    for line in source.splitlines():
        name, equals, rest = line.partition(" = ")
        if equals and name in settings:
            line = f"{name} = {settings[name]!r}" + ("  #" + rest.partition("#")[2]).rstrip(" #")
        lines.append(line)
    return "\n".join(lines)


def page(notebook: Path, cells: list[Cell]) -> Iterator[str]:
    """The parts of a page in Markdown; figures are saved beside it."""
    for number, cell in enumerate(cells):
        # "py" and not "python": the test of the notebook runs the code already.
        yield cell.source if cell.kind == "markdown" else f"```py\n{cell.source}\n```"
        if cell.text:
            yield f"```text\n{cell.text.rstrip()}\n```"
        if cell.value is not None:
            own = getattr(cell.value, "_repr_html_", None)
            shown = own() if own else f"<pre>{html.escape(repr(cell.value))}</pre>"
            # A blank line would end the HTML for Markdown.
            yield f'<div class="output">{shown}</div>'.replace("\n\n", "\n&nbsp;\n")
        for index, figure in enumerate(cell.figures):
            name = f"{notebook.stem}_{number}_{index}.png"
            figure.savefig(PAGES / name, dpi=90, bbox_inches="tight")
            yield f"![Figure of the code above]({name})"


def main() -> None:
    PAGES.mkdir(parents=True, exist_ok=True)
    for notebook in NOTEBOOKS:
        cells, _ = run(notebook)
        where = f"This page is `notebooks/{notebook.name}`; run it with Jupyter or VS Code."
        title, *parts = page(notebook, cells)
        text = "\n\n".join([title, where, *parts]) + "\n"
        (PAGES / f"{notebook.stem}.md").write_text(text, encoding="utf-8")
        print(f"docs/notebooks/{notebook.stem}.md")


if __name__ == "__main__":
    main()
