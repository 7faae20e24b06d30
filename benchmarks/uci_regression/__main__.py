"""Run the UCI regression benchmark, one file for each split; a second call goes on.

    python -m uci_regression --sets yacht boston --splits 5        # in benchmarks/
    python -m uci_regression --table

The data are found through DIMS_DATA (`dims data list`). One configuration serves all sets; rules
were chosen on the first five splits of `CHOSEN_ON`, and the other sets confirm them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from cells import Cell, compute, told_of_split
from dims_paper.datasets.uci_regression import REGRESSION_NAMES, load_regression, split_count
from uci_regression.counts import counts
from uci_regression.protocol import Configuration, run_split
from uci_regression.published_table import read_results, summary, table

OUT = Path(__file__).parents[2] / "results" / "benchmarks" / "uci_regression"
CHOSEN_ON = ("boston", "energy", "kin8nm", "power")  # written down before any run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", nargs="+", default=REGRESSION_NAMES, choices=REGRESSION_NAMES)
    parser.add_argument("--splits", type=int, default=None, help="the first so many; all without")
    parser.add_argument("--first-split", type=int, default=0)
    parser.add_argument("--draws", type=int, default=Configuration.draws)
    parser.add_argument("--max-time", type=float, default=None)
    parser.add_argument("--ensemble", type=int, default=Configuration.ensemble, help="0: none")
    parser.add_argument("--no-held-out", action="store_true", help="the default answer alone")
    parser.add_argument("--device", default="cpu", help="of fits and motion")
    parser.add_argument("--train-device", default="cpu", help="of training: cuda for protein")
    parser.add_argument("--workers", type=int, default=1, help="splits at once, each on one core")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="print what is finished, run nothing")
    given = parser.parse_args()
    if not given.table:
        how = Configuration(
            draws=given.draws,
            max_time=given.max_time,
            ensemble=given.ensemble,
            held_out=not given.no_held_out,
            device=given.device,
            train_device=given.train_device,
        )
        run(given.sets, given.first_split, given.splits, how, given.out, given.workers)
    results = read_results(given.out)
    print(summary(results))
    for answer in ("default", "held out"):
        print(*(f"\n{table(results, score, answer)}" for score in ("nll", "rmse")), sep="\n")
        print(f"\n{counts(results, answer, CHOSEN_ON)}")


def run(
    sets: list[str],
    first: int,
    splits: int | None,
    how: Configuration,
    out: Path,
    workers: int = 1,
) -> None:
    """All splits that have no file yet."""
    cells = []
    for name in sets:
        count = split_count(name)
        for split in range(first, count if splits is None else min(first + splits, count)):
            path = out / name / f"{split:02d}.json"
            cells.append(Cell(f"{name} {split}", path, (name, split, how)))
    compute(cells, _run, told_of_split, workers)


def _run(name: str, split: int, how: Configuration) -> dict[str, Any]:
    return run_split(name, load_regression(name, split, torch.float32), split, how)


if __name__ == "__main__":
    main()
