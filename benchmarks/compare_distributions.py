"""Do two runs of benchmarks/energy_law.py draw from the same distributions?

    python benchmarks/compare_distributions.py results/benchmarks/energy_law/{default,tight}.json

Two-sample Kolmogorov-Smirnov tests of the end points of the trajectories and of E(t) before, with
p-values as they are and after Holm's correction for their number. A run may be several files, which
are joined: --first a.json b.json --second c.json d.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ks_2samp

from tables import markdown

ENDS = ("loss", "distance", "arc_length", "rms_gap", "rms_data", "deviation_gap", "deviation_data")
TIMES = (2.0, 10.0, 20.0)


def joined(paths: list[Path]) -> dict[str, Any]:
    """The rows of all files of a run."""
    parts = [json.loads(path.read_text()) for path in paths]
    names = [name for name in (*ENDS, "energy") if name in parts[0]]
    rows = {name: [row for part in parts for row in part[name]] for name in names}
    return {**rows, "times": parts[0]["settings"]["times"]}


def holm(values: list[float]) -> list[float]:
    """p-values that stay valid though there are many: Holm's step-down correction."""
    adjusted, worst = [0.0] * len(values), 0.0
    for rank, index in enumerate(np.argsort(values)):
        worst = max(worst, (len(values) - rank) * values[index])
        adjusted[index] = min(1.0, worst)
    return adjusted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--first", type=Path, nargs="+")
    parser.add_argument("--second", type=Path, nargs="+")
    options = parser.parse_args()
    first = joined(options.first or options.runs[:1])
    second = joined(options.second or options.runs[1:])
    columns = [(name, first[name], second[name]) for name in ENDS if name in first]
    energies = np.array(first["energy"]), np.array(second["energy"])
    for when in TIMES:
        index = first["times"].index(when)
        columns.append((f"E({when:g})", energies[0][:, index], energies[1][:, index]))
    values = [ks_2samp(a, b).pvalue for _, a, b in columns]
    rows = []
    for (name, a, b), p, corrected in zip(columns, values, holm(values), strict=True):
        shown = [f"{np.mean(x):.4g} ± {np.std(x) / len(x) ** 0.5:.2g}" for x in (a, b)]
        rows.append([name, *shown, f"{p:.3f}", f"{corrected:.3f}"])
    print(markdown(["quantity", "first", "second", "p", "Holm"], rows))


if __name__ == "__main__":
    main()
