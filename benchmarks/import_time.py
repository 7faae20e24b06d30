"""Compare the time of `import dims` with that of `import torch`, in core-seconds of new processes.

python benchmarks/import_time.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys

REPEATS = 7
PROGRAM = "import time; import {}; print(time.process_time())"


def seconds(module: str) -> float:
    """Core-seconds of a process that imports the module."""
    command = [sys.executable, "-c", PROGRAM.format(module)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    pairs = [(seconds("torch"), seconds("dims")) for _ in range(REPEATS)]  # alternating
    torch_time, dims_time = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"torch {torch_time:.2f} s, dims {dims_time:.2f} s, ratio {dims_time / torch_time:.3f}")


if __name__ == "__main__":
    main()
