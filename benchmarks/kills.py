"""Kill a run at random moments and compare its files with those of an undisturbed run.

    python benchmarks/kills.py

The run is small: 12 draws of a network of 10 parameters in 3 chunks, settled and certified. kill -9
comes 50 times, SIGTERM 20 times, each at a random moment of the run; the next process goes on
where the last one left off. At the end `sha256sum` of all files must be that of a quiet run.
Writes results/benchmarks/kills.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import torch

import dims
from dims.sampling.store import checkpoint

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "results" / "benchmarks" / "kills.json"
CHUNK = 4
MINUTE = checkpoint.EVERY
KINDS = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM}


def problem() -> dims.Posterior:
    """A tiny network, trained by nobody: its draws take long enough to be interrupted."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = torch.linspace(-1, 1, 10, dtype=torch.float64).unsqueeze(-1)
    layers = (torch.nn.Linear(1, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    model = torch.nn.Sequential(*layers).double()
    given = {"tune": False, "prior_precision": 0.5, "noise_std": 0.3}
    return dims.fit(model, (inputs, inputs.sin()), "regression", refine=True, **given)


def sample(posterior: dims.Posterior, store: Path, draws: int) -> None:
    quick = {"max_time": 0.3, "settle": "none", "certify": False}
    how = quick if draws <= 2 * CHUNK else {"max_time": 1.0}
    posterior.sample(draws, store=store, chunk_size=CHUNK, progress=False, **how)


def sums(store: Path) -> dict[str, str]:
    """sha256 of every file but the lock, which is empty."""
    files = sorted(path for path in store.iterdir() if path.name != "lock")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def quiet(store: Path, draws: int) -> dict[str, str]:
    """The undisturbed run, in a process of its own from the start."""
    here, path = str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")
    program = f"import kills; kills.sample(kills.problem(), {str(store)!r}, {draws})"
    command = [sys.executable, "-W", "ignore", "-c", program]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": f"{here}:{path}"})
    return sums(store)


def attempt(posterior: dims.Posterior, store: Path, draws: int, stop: tuple | None) -> int:
    """The run in a forked process, which gets a signal after some seconds; how it ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            sample(posterior, store, draws)
            code = 0
        finally:
            os._exit(code)
    if stop is not None:
        number, after = stop
        time.sleep(after)
        os.kill(child, number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def series(
    posterior: dims.Posterior, number: signal.Signals, kills: int, draws: int, place: Path
) -> dict[str, object]:
    """So many kills over one run after the other; the files of each run that ended are counted."""
    began, generator = time.monotonic(), random.Random(0)
    took = _seconds(posterior, place / "timed", draws)
    where: Counter[str] = Counter()
    ended: list[dict[str, str]] = []
    store, killed = place / "run0", 0
    while killed < kills or not ended:
        stop = (number, generator.uniform(0, took)) if killed < kills else None
        code = attempt(posterior, store, draws, stop)
        if code == -number:
            killed += 1
            chunks, state = len(list(store.glob("chunk_*"))), any(store.glob("partial_*"))
            where[f"{chunks} chunks{', and a part' if state else ''}"] += 1
        elif code == 0:
            ended.append(sums(store))
            store = place / f"run{len(ended)}"
        else:
            sys.exit(f"a run ended with {code}, neither finished nor by the signal")
    if store.exists():
        attempt(posterior, store, draws, None)
        ended.append(sums(store))
    return {
        "kills": killed,
        "runs": len(ended),
        "where": dict(sorted(where.items())),
        "seconds_of_a_run": round(took, 2),
        "seconds": round(time.monotonic() - began, 1),
        "files": ended,
    }


def _seconds(posterior: dims.Posterior, store: Path, draws: int) -> float:
    began = time.monotonic()
    attempt(posterior, store, draws, None)
    return time.monotonic() - began


def measure(kills: dict[str, int], draws: int, every: float) -> dict[str, object]:
    """All series, and whether each of their runs left the files of the quiet one."""
    place = Path(tempfile.mkdtemp())
    record: dict[str, object] = {"python": platform.python_version(), "torch": torch.__version__}
    try:
        expected = quiet(place / "quiet", draws)
        posterior = problem()
        for name in kills:
            number = KINDS[name]
            (place / name).mkdir()
            # Often for kill -9, so that kills hit the writing as well; SIGTERM writes by itself.
            checkpoint.EVERY = every if number is signal.SIGKILL else MINUTE
            found = series(posterior, number, kills[name], draws, place / name)
            equal = [files == expected for files in found.pop("files")]  # type: ignore[attr-defined]
            record[name] = {**found, "runs_with_equal_files": sum(equal)}
    finally:
        checkpoint.EVERY = MINUTE
        shutil.rmtree(place)
    return {**record, "sha256": expected}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--terms", type=int, default=20)
    parser.add_argument("--draws", type=int, default=12)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", dims.DimsWarning)
    kills = {"kill -9": arguments.kills, "SIGTERM": arguments.terms}
    record = measure(kills, arguments.draws, every=0.05)
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
