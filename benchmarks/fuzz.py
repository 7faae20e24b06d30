"""Run the fuzz tests with many cases each and record the outcomes.

    python benchmarks/fuzz.py

Each target is a test that has a few hundred cases in `make test`; here it gets 10 000.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "results" / "benchmarks" / "fuzz.json"

TARGETS = {
    "manifest": "tests/commands/test_fuzz.py::test_any_manifest_is_the_wanted_one_or_refused",
    "idx loader": "tests/paper/datasets/test_idx.py::test_any_bytes_give_a_tensor_or_a_value_error",
    "CSV loader": (
        "tests/paper/datasets/test_text.py::test_banana_from_any_bytes_is_sound_or_a_value_error"
    ),
    "safetensors header": (
        "tests/sampling/test_draws_file_damage.py::test_any_safetensors_header_is_read_or_refused"
    ),
    "command line": (
        "tests/commands/test_fuzz.py::test_any_command_line_ends_with_a_documented_code"
    ),
}
CASES = re.compile(r"(\d+) passing, (\d+) failing, and (\d+) invalid")
EVENT = re.compile(r"([\d.]+)%, ((?:exit code|refused|accepted|read).*)")


def fuzz(test: str, cases: int) -> dict[str, object]:
    """Run one test in its own process and read the number of cases from its output."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", test, "-q", "-p", "no:xdist", "--timeout", "0",
         "--hypothesis-show-statistics"],
        cwd=ROOT,
        env={**os.environ, "DIMS_FUZZ_EXAMPLES": str(cases)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    counts = [tuple(map(int, found)) for found in CASES.findall(done.stdout)]
    if not counts:
        sys.exit(f"{test}: no statistics\n{done.stdout}\n{done.stderr}")
    passing, failing, invalid = (sum(column) for column in zip(*counts, strict=True))
    return {
        "test": test,
        "passing": passing,
        "failing": failing,
        "invalid": invalid,
        "events_percent": {name.strip(): float(part) for part, name in EVENT.findall(done.stdout)},
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--target", choices=TARGETS, action="append")
    arguments = parser.parse_args()
    record = json.loads(RESULT.read_text()) if RESULT.exists() else {"targets": {}}
    record["python"] = platform.python_version()
    for name in arguments.target or TARGETS:
        record["targets"][name] = fuzz(TARGETS[name], arguments.cases)
        print(name, record["targets"][name], flush=True)
        RESULT.write_text(json.dumps(record, indent=1) + "\n")
    if any(target["failing"] for target in record["targets"].values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
