"""Do two runs of benchmarks/energy_law.py draw from the same distributions?

    python benchmarks/compare_distributions.py results/benchmarks/energy_law/{default,tight}.json

Two-sample Kolmogorov-Smirnov tests of the end points of the trajectories, and of E(t) before.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.stats import ks_2samp

from tables import markdown

ENDS = ("loss", "distance", "arc_length", "deviation_gap", "deviation_data", "gradient_norm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs=2)
    options = parser.parse_args()
    first, second = (json.loads(path.read_text()) for path in options.runs)
    columns = [(name, first[name], second[name]) for name in ENDS]
    energies = np.array(first["energy"]), np.array(second["energy"])
    for index, when in enumerate(first["settings"]["times"]):
        columns.append((f"E({when:g})", energies[0][:, index], energies[1][:, index]))
    rows = []
    for name, a, b in columns:
        shown = [f"{np.mean(x):.4g} ± {np.std(x) / len(x) ** 0.5:.2g}" for x in (a, b)]
        rows.append([name, *shown, f"{ks_2samp(a, b).pvalue:.3f}"])
    print(markdown(["quantity", "first", "second", "p"], rows))


if __name__ == "__main__":
    main()
