"""Write the tables of all pages between their marks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from dims_paper.pages import images, tabular
from dims_paper.pages.results import Results
from dims_paper.tables import Table

Make = Callable[[Results], Table | str]

# page → mark → what is written there
MARKS: dict[str, dict[str, Make]] = {
    "uci": tabular.UCI,
    "banana": {"banana": tabular.banana_table},
    "snelson": {"snelson": tabular.snelson_table},
    "images": images.MARKS,
    "images_ood": {"images-ood-study": images.ood_study},
    "images_full": {
        "images-ours": images.rows_tables,
        "images-differences": images.difference_tables,
    },
    "images_study": {"images-study": images.study_table},
    "solver": {"solver": tabular.solver_table, "networks": tabular.networks},
}


def write_pages(folder: Path, pages: Path) -> None:
    """Fill every page from a folder of results; the cells beside the paper's go to CSV files."""
    results = Results(folder)
    for name, marks in MARKS.items():
        page = pages / f"{name}.md"
        text = page.read_text(encoding="utf-8")
        for mark, make in marks.items():
            text = _filled(text, mark, _body(make, results), page)
        page.write_text(text, encoding="utf-8")


def _body(make: Make, results: Results) -> str:
    try:
        made = make(results)
    except FileNotFoundError:
        return "Not run yet."
    return made if isinstance(made, str) else made.markdown()


def _filled(text: str, mark: str, body: str, page: Path) -> str:
    pattern = rf"(<!-- {mark} -->\n).*?(<!-- end -->)"
    text, found = re.subn(pattern, lambda m: f"{m[1]}{body}\n{m[2]}", text, flags=re.DOTALL)
    if found != 1:
        raise ValueError(f"{page}: the mark <!-- {mark} --> is there {found} times, not once")
    return text
