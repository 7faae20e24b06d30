"""Measure how prior, friction and time change the draws: the table of docs/choose.md.

Uses the network of regression_gap.py with 40 points and two priors. For each choice it prints the
spread of the functions in the gap and on the data, the loss, the number of minima, and the cost.

    python examples/how_to_choose.py            # five minutes
    python examples/how_to_choose.py --quick    # a few seconds, with two rows
"""

from __future__ import annotations

import argparse
import itertools

import torch

import dims
from regression_gap import make_data, train

HEADER = "| prior | friction | time | spread in the gap | on the data | loss | minima | gradients |"


def measure(posterior: dims.Posterior, friction: float, time: float, count: int) -> str:
    """One row of the table."""
    motion = {"friction": friction, "max_time": time, "metric": "euclidean"}
    draws = posterior.sample(count, **motion, progress=False)
    gap = torch.linspace(-0.4, 0.7, 12, dtype=torch.float64).unsqueeze(-1)
    inputs, _ = make_data(20)
    minima = sum(verdict == "MINIMUM" for verdict in draws.verdict or ())
    cells = (
        f"{posterior.prior_precision:.3g}",
        f"{friction:g}",
        f"{time:g}",
        f"{draws.predict(gap).epistemic.mean().sqrt():.2f}",
        f"{draws.predict(inputs).epistemic.mean().sqrt():.4f}",
        f"{draws.loss.median():.1f}",
        f"{minima} of {count}",
        f"{draws.evaluations.double().mean():.0f}",
    )
    return "| " + " | ".join(cells) + " |"


def main(quick: bool) -> list[str]:
    inputs, targets = make_data(20)
    model = train(inputs, targets, 1000, width=6) if quick else train(inputs, targets, 3000)
    priors = (0.005,) if quick else (None, 0.02)
    choices = (
        ((0.2, 0.1), (0.2, 0.2)) if quick else itertools.product((0.1, 0.5, 2.0), (1.0, 3.0, 10.0))
    )
    choices = list(choices)
    lines = [HEADER, "| --- " * 8 + "|"]
    print(*lines, sep="\n")
    for prior in priors:
        posterior = dims.fit(
            model, (inputs, targets), "regression", prior_precision=prior, refine=not quick
        )
        for friction, time in choices:
            lines.append(measure(posterior, friction, time, 3 if quick else 12))
            print(lines[-1], flush=True)
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="finish in seconds, with two rows")
    main(parser.parse_args().quick)
