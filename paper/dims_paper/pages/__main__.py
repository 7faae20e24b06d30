"""Gather finished runs into results/paper, and write the tables of docs/reproduction/*.md.

    python -m dims_paper.pages uci runs/uci
    python -m dims_paper.pages

The first keeps what tables need of each run, in small JSON files of that name: uci, banana,
snelson, mnist, mnist_study, mnist_ood. Both write the cells beside the
paper's (CSV) and the tables.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dims_paper.pages.results import gather
from dims_paper.pages.write import write_pages

RESULTS, PAGES = Path("results/paper"), Path("docs/reproduction")

if __name__ == "__main__":
    if len(sys.argv) == 3:
        gather(sys.argv[1], Path(sys.argv[2]), RESULTS)
    elif len(sys.argv) != 1:
        raise SystemExit(__doc__)
    write_pages(RESULTS, PAGES)
