"""The command-line options of the examples."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def options(description: str) -> dict[str, Any]:
    """Parse `--quick` and `--out`, the arguments of each example's `main`."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, with rough results")
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="output folder")
    return vars(parser.parse_args())
