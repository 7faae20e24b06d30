"""The rows that the paper's tables lack: ensemble, SWAG, our defaults, the published solver.

    python paper/programs/more_rows.py --experiment uci --dataset glass --seed 0 --out runs/uci
    python paper/programs/more_rows.py --experiment snelson --out runs/snelson
    python paper/programs/more_rows.py --all --workers 16 --stop-after 540 --out runs

Rows are kept as they are finished, and the same command goes on where an earlier one stopped. With
`--all` everything is shared out among processes of one thread each, under OUT/uci, OUT/banana and
OUT/snelson; `--stop-after` ends them after so many seconds. Needs torch, numpy, safetensors and
DIMS_DATA.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from dims_paper.datasets.uci import UCI_NAMES
from dims_paper.experiments import banana, snelson, uci
from dims_paper.experiments.more import row_names, run_more, run_rows
from dims_paper.experiments.more_settings import MoreSettings, Problem

UCI_SEEDS = 5
# The longest first, so that no process is left alone with one of them at the end.
LONGEST_FIRST = ("recipe-dims", "recipe-rla", "network", "defaults", "ensemble", "swag")
EXPERIMENTS = ("snelson", "banana", "uci")


@dataclass(frozen=True)
class Unit:
    """One network of an experiment."""

    experiment: str
    dataset: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.dataset}, seed {self.seed}"

    def problem(self, options: argparse.Namespace) -> tuple[Problem, MoreSettings]:
        if self.experiment == "uci":
            uci_settings = uci.UciSettings()
            uci_settings = uci.quick(uci_settings) if options.quick else uci_settings
            problem, more = uci.problem_of(self.dataset, self.seed, uci_settings), MoreSettings()
        elif self.experiment == "banana":
            settings = banana.BananaSettings(seed=self.seed)
            settings = banana.quick(settings) if options.quick else settings
            problem, more = banana.problem_of(settings), banana.MORE
        else:
            network = snelson.SnelsonSettings(seed=self.seed, compile=options.compile)
            network = snelson.quick(network) if options.quick else network
            problem, more = snelson.problem_of(network), snelson.MORE
        more = more.quick() if options.quick else more
        if options.recipe_limit is not None:
            more = replace(more, recipe_limit=options.recipe_limit)
        return problem, more


def units() -> list[Unit]:
    return [
        Unit("snelson", "snelson", 0),
        Unit("banana", "banana", 0),
        *(Unit("uci", dataset, seed) for seed in range(UCI_SEEDS) for dataset in UCI_NAMES),
    ]


def run_unit(unit: Unit, options: argparse.Namespace) -> None:
    problem, settings = unit.problem(options)
    began = time.perf_counter()
    last = ""

    def say(what: str) -> None:
        nonlocal last
        if what.split()[0] != last:
            last = what.split()[0]
            print(f"{time.perf_counter() - began:7.1f} s  {unit.name}: {what}", flush=True)

    names = row_names(problem, settings)
    if options.rows is not None:
        if unknown := set(options.rows) - {"network", *names}:
            raise SystemExit(f"--rows: {', '.join(unknown)}; there are network, {', '.join(names)}")
        names = [name for name in names if name in options.rows]
    complete = run_rows(problem, settings, options.out, names, say)
    if complete:
        run_more(problem, settings, options.out)
    say("done" if complete else "rows are missing still")


@dataclass
class Job:
    unit: Unit
    row: str  # or "network", which all others wait for

    def ready(self, out: Path, problem: Problem) -> bool:
        network = out / self.unit.experiment / f"{problem.name}_more.parts/network.safetensors"
        return self.row == "network" or network.exists()

    def command(self, options: argparse.Namespace) -> list[str]:
        words = [sys.executable, __file__, "--experiment", self.unit.experiment]
        words += ["--dataset", self.unit.dataset, "--seed", str(self.unit.seed)]
        words += ["--rows", self.row, "--out", str(options.out / self.unit.experiment)]
        words += ["--quick"] if options.quick else []
        words += [] if options.compile else ["--no-compile"]
        limit = options.recipe_limit
        return words if limit is None else [*words, "--recipe-limit", str(limit)]


def run_all(options: argparse.Namespace) -> None:
    """All rows of all units that are missing, in so many processes."""
    began = time.perf_counter()
    waiting, problems = [], {}
    for unit in units():
        problem, settings = unit.problem(options)
        problems[unit] = problem
        folder = options.out / unit.experiment
        if (folder / f"{problem.name}_more.json").exists():
            continue
        parts = folder / f"{problem.name}_more.parts"
        rows = [n for n in row_names(problem, settings) if not (parts / f"{n}.row").exists()]
        if not (parts / "network.safetensors").exists():
            rows = ["network", *rows]
        # With nothing but the last file missing, any row writes it.
        waiting += [Job(unit, row) for row in rows or ["swag"]]
    waiting.sort(
        key=lambda job: next(i for i, n in enumerate(LONGEST_FIRST) if job.row.startswith(n))
    )
    running: list[tuple[Job, subprocess.Popen[bytes]]] = []
    # One thread each: the processes share the cores.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    while waiting or running:
        if options.stop_after is not None and time.perf_counter() - began > options.stop_after:
            for _, process in running:
                process.terminate()
            for _, process in running:
                process.wait()
            raise SystemExit(f"{len(waiting) + len(running)} jobs left; give the command again")
        for job, process in [entry for entry in running if entry[1].poll() is not None]:
            running.remove((job, process))
            if process.returncode != 0:
                print(f"{job.unit.name}, {job.row}: failed ({process.returncode})", flush=True)
        ready = [job for job in waiting if job.ready(options.out, problems[job.unit])]
        for job in ready[: options.workers - len(running)]:
            waiting.remove(job)
            running.append((job, subprocess.Popen(job.command(options), env=environment)))
        if not running and not ready:
            raise SystemExit(f"{len(waiting)} jobs wait for networks whose training failed")
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every experiment, set and seed")
    parser.add_argument("--experiment", choices=EXPERIMENTS)
    parser.add_argument("--dataset", choices=(*UCI_NAMES, "banana", "snelson"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", nargs="*", help="only these, or network; else all")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--recipe-limit", type=float, help="seconds of each row of the recipe")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--stop-after", type=float, help="seconds, with --all")
    options = parser.parse_args()
    if options.all:
        run_all(options)
        return
    if options.experiment is None or (options.experiment == "uci" and options.dataset is None):
        parser.error("give --all, or --experiment and for uci --dataset")
    torch.set_num_threads(1)
    run_unit(Unit(options.experiment, options.dataset or options.experiment, options.seed), options)


if __name__ == "__main__":
    main()
