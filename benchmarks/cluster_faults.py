"""A Ray cluster of three nodes on one machine that loses nodes, its head, and room on the disk.

    python benchmarks/cluster_faults.py

Each node is a raylet of its own with one CPU. The draws are those of `benchmarks/kills.py`; after
each fault the files must be those of a quiet run in one process. Nodes are killed (kill -9) at ten
random moments while chunks are computed, and replaced. The head is killed while a program uses the
cluster, and a new one started. The disk is full after one chunk, and then has room again.
Writes results/benchmarks/cluster.json. GPU workers and SLURM are not part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# A program whose cluster is gone gives up after so many seconds. Read when Ray is imported.
os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Other programs of this machine must not take this cluster for theirs.
os.environ.setdefault("RAY_TMPDIR", tempfile.mkdtemp(prefix="ray"))

import ray
from ray.cluster_utils import Cluster

import dims
import kills

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "results" / "benchmarks" / "cluster.json"
NODES = 3
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
LONGEST_LIFE = 5.0  # seconds until the next node is killed, at most
DISK = 512  # KiB


@contextmanager
def cluster_of(nodes: int) -> Iterator[Cluster]:
    """A head and other nodes, each with one CPU."""
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    for _ in range(nodes - 1):
        cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    try:
        yield cluster
    finally:
        cluster.shutdown()


def sample(posterior: dims.Posterior, store: Path, draws: int, address: str) -> None:
    engine = dims.Ray(address=address, retries=1000)
    how = {"chunk_size": kills.CHUNK, "max_time": 1.0, "progress": False}
    posterior.sample(draws, store=store, engine=engine, **how)


def lose_nodes(place: Path, times: int, draws: int) -> dict[str, Any]:
    """Runs on a cluster whose nodes die at random moments, until so many have."""
    ended, began, killed = [], time.monotonic(), 0
    generator = random.Random(0)
    with cluster_of(NODES) as cluster:
        while killed < times or not ended:
            store = place / f"run{len(ended)}"
            program = _program(cluster.address, store, draws)
            while program.poll() is None:
                time.sleep(generator.uniform(0, LONGEST_LIFE))
                if killed < times and store.exists() and program.poll() is None:
                    node = generator.choice(list(cluster.worker_nodes))
                    cluster.remove_node(node, allow_graceful=False)
                    killed += 1
                    cluster.add_node(**NODE)
            if program.returncode != 0:
                sys.exit(f"a run on a cluster that loses nodes ended with {program.returncode}")
            ended.append(kills.sums(store))
    seconds = round(time.monotonic() - began, 1)
    return {"kills": killed, "runs": len(ended), "seconds": seconds, "files": ended}


def drive(address: str, store: str, draws: int) -> None:
    """A program of a user: one run on the cluster."""
    warnings.simplefilter("ignore", dims.DimsWarning)
    sample(kills.problem(), Path(store), draws, address)


def _program(address: str, store: Path, draws: int) -> subprocess.Popen[bytes]:
    path = f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"
    code = f"import cluster_faults as c; c.drive({address!r}, {str(store)!r}, {draws})"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.DEVNULL,
    )


def lose_the_head(store: Path, draws: int) -> dict[str, Any]:
    """The head dies after the first chunk; with a new head the same program goes on."""
    with cluster_of(NODES) as cluster:
        program = _program(cluster.address, store, draws)
        while not any(store.glob("chunk_*")) and program.poll() is None:
            time.sleep(0.05)
        cluster.remove_node(cluster.head_node, allow_graceful=False)
        killed = time.monotonic()
        code = program.wait(timeout=300)
        left = time.monotonic() - killed
        kept = len(list(store.glob("chunk_*")))
    with cluster_of(NODES) as cluster:
        again = _program(cluster.address, store, draws).wait(timeout=300)
    return {
        "first_exit_code": code,
        "seconds_until_it_ended": round(left, 1),
        "chunks_kept": kept,
        "second_exit_code": again,
        "files": [kills.sums(store)],
    }


def fill_the_disk(posterior: dims.Posterior, place: Path, draws: int) -> dict[str, Any]:
    """A file system with room for some chunks, then for all."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}k", "tmpfs", str(place)], check=True)
    try:
        free = os.statvfs(place)
        (place / "ballast").write_bytes(bytes(free.f_bavail * free.f_frsize - 3 * 4096))
        with cluster_of(NODES) as cluster:
            try:
                sample(posterior, place / "run", draws, cluster.address)
                said = "nothing"
            except OSError as error:
                said = str(error)
            kept = len(list((place / "run").glob("chunk_*")))
            (place / "ballast").unlink()
            sample(posterior, place / "run", draws, cluster.address)
        found = kills.sums(place / "run")
    finally:
        subprocess.run(["umount", str(place)], check=True)
    return {"said": said.replace(str(place), "STORE"), "chunks_kept": kept, "files": [found]}


def measure(node_kills: int, draws: int) -> dict[str, Any]:
    """All faults, and whether the files are those of the quiet run."""
    place = Path(tempfile.mkdtemp())
    record: dict[str, Any] = {"python": platform.python_version(), "ray": ray.__version__}
    record |= {"nodes": NODES, "draws": draws}
    try:
        expected = kills.quiet(place / "quiet", draws)
        posterior = kills.problem()
        faults = {
            "disk full": lambda: fill_the_disk(posterior, place / "disk", draws),
            "head killed": lambda: lose_the_head(place / "head", draws),
            "nodes killed": lambda: lose_nodes(place, node_kills, draws),
        }
        for name, fault in faults.items():
            found = fault()
            equal = [files == expected for files in found.pop("files")]
            record[name] = {**found, "runs_with_equal_files": f"{sum(equal)} of {len(equal)}"}
            print(name, record[name], flush=True)
    finally:
        shutil.rmtree(place)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--node-kills", type=int, default=10)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", dims.DimsWarning)
    record = measure(arguments.node_kills, arguments.draws)
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
