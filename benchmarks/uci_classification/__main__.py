"""Run the six UCI classification sets, one file for each split; a second call goes on.

    python -m uci_classification --sets glass --seeds 5        # in benchmarks/
    python -m uci_classification --table

The data are found through DIMS_DATA (`dims data list`). Rules were chosen on the sets of
`CHOSEN_ON`; the others confirm them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from cells import Cell, compute, told_of_split
from dims_paper.datasets.uci import UCI_NAMES, load_uci
from uci_classification.differences import FIVE, table
from uci_classification.networks import train_paper_networks
from uci_classification.protocol import PROTOCOLS, run_one

OUT = Path(__file__).parents[2] / "results" / "benchmarks" / "uci_classification"
CHOSEN_ON = ("australian", "glass", "vehicle")  # every second in alphabetical order
SEEDS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", nargs="+", default=UCI_NAMES, choices=UCI_NAMES)
    parser.add_argument("--protocols", nargs="+", default=PROTOCOLS, choices=PROTOCOLS)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--networks", type=Path, default=Path("../runs/uci_classification"))
    parser.add_argument("--workers", type=int, default=1, help="splits at once, each on one core")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="print what is finished, run nothing")
    given = parser.parse_args()
    if not given.table:
        run(given)
    print(table(given.out, CHOSEN_ON))
    print(f"\nFrom five networks:\n\n{table(given.out, CHOSEN_ON, FIVE)}")


def run(given: argparse.Namespace) -> None:
    """All splits that have no file yet."""
    cells = []
    for name in given.sets:
        for protocol in given.protocols:
            if protocol == "class" and load_uci(name, 0).classes < 3:
                continue
            if protocol == "paper":
                train_paper_networks(name, SEEDS, given.networks)
            for seed in range(given.first_seed, given.first_seed + given.seeds):
                path = given.out / f"{name}_{protocol}" / f"{seed:02d}.json"
                how = (name, protocol, seed, given.draws, given.networks)
                cells.append(Cell(f"{name} {protocol} {seed}", path, how))
    compute(cells, run_one, told_of_split, given.workers)


if __name__ == "__main__":
    main()
