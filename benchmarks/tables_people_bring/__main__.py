"""Fit the estimators to tables as people bring them; count missing and false warnings.

    DIMS_DATA=/path/to/data python -m tables_people_bring           # in benchmarks/
    python -m tables_people_bring --table

One file for each case; a second call goes on. An answer is bad where it is significantly worse than
the mean or the majority class on fresh rows; a warning is false where it is significantly better.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cells import Cell, compute
from tables_people_bring.cases import run_case
from tables_people_bring.problems import PROBLEMS
from tables_people_bring.verdicts import false, missing, read_cases, summary, table

OUT = Path(__file__).parents[2] / "results" / "benchmarks" / "tables_people_bring"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=list(PROBLEMS), choices=PROBLEMS)
    parser.add_argument("--seeds", nargs="+", type=int, default=range(10))
    parser.add_argument("--max-time", type=float, help="of the motion; the default without it")
    parser.add_argument("--workers", type=int, default=1, help="tables at once, each on one core")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="print what is finished, run nothing")
    given = parser.parse_args()
    if not given.table:
        settings = {} if given.max_time is None else {"max_time": given.max_time}
        run(given.only, given.seeds, given.out, given.workers, **settings)
    cases = read_cases(given.out)
    ordered = {name: cases[name] for name in PROBLEMS if name in cases}
    print(table(ordered), summary(ordered), sep="\n\n")


def run(
    names: Sequence[str], seeds: Sequence[int], out: Path, workers: int = 1, **settings: Any
) -> None:
    """All cases that have no file yet, one seed after the other."""
    cells = []
    for seed in seeds:
        for name in names:
            folder = "".join(letter if letter.isalnum() else "_" for letter in name)
            path = out / folder.replace("__", "_") / f"{seed}.json"
            cells.append(Cell(f"{seed} {name}", path, (name, seed, settings)))
    compute(cells, _run, _told, workers)


def _run(name: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    return {"table": name, "seed": seed, **run_case(PROBLEMS[name], seed, **settings)}


def _told(case: dict[str, Any]) -> str:
    verdict = "MISSING WARNING" if missing(case) else "false warning" if false(case) else ""
    gain = case["over_constant"]["log_score"][0]
    return f"{gain:+.3f} nats, {case['seconds']} s {verdict}"


if __name__ == "__main__":
    main()
