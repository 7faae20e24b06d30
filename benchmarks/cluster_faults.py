"""A Ray cluster of three nodes that loses nodes, its head, and room on the disk.

    python benchmarks/cluster_faults.py

The head and the nodes are raylets in network namespaces of their own on one machine, joined by a
bridge (`benchmarks/cluster_nodes.py`); the program that samples runs beside the head, which
computes nothing. The draws are those of `benchmarks/kills.py`; after each fault the files must be
those of a quiet run in one process. Nodes are killed (kill -9 of the raylet and all its workers)
at ten random moments while they compute a chunk, and started again. The head is killed while a
program uses the cluster, and the cluster started again. The disk is full after some chunks, and
then has room again. Which node computed each chunk is written down (`benchmarks/cluster_diary.py`).
Writes results/benchmarks/cluster.json. GPU workers and SLURM are not part of it.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cluster_diary
import cluster_nodes
import dims
import kills
from cluster_nodes import Cluster, Node

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "results" / "benchmarks" / "cluster.json"
NODES = 3
LONGEST_LIFE = 5.0  # seconds until the next node is killed, at most, if it computes then
LONGEST_RUN = 900.0  # seconds
DISK = 512  # KiB
SETTINGS = {
    # A program whose cluster is gone gives up after so many seconds.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONPATH": f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}",
}


class Run:
    """A program of a user beside the head: one run on the cluster, with its store and diary."""

    def __init__(self, cluster: Cluster, store: Path, diary: Path, draws: int) -> None:
        self.cluster, self.store, self.diary = cluster, store, diary
        given = f"{cluster.address!r}, {str(store)!r}, {str(diary)!r}, {draws}"
        code = f"import cluster_faults as c; c.drive({given})"
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = cluster.head.run(sys.executable, "-c", code, **pipes)

    def goes_on(self) -> bool:
        return self.process.poll() is None

    def end(self) -> tuple[int, str]:
        """Exit code and what it said, when it has ended."""
        said, _ = self.process.communicate(timeout=LONGEST_RUN)
        return self.process.returncode, said.decode().strip()

    def chunks(self) -> int:
        return len(list(self.store.glob("chunk_*")))

    def node_of_each_chunk(self) -> list[str]:
        """Numbered as their addresses."""
        nodes = {node.namespace: node.address for node in self.cluster.nodes}
        found = cluster_diary.computed_by(cluster_diary.read(self.diary))
        return [nodes[found[chunk]] for chunk in sorted(found)]


def drive(address: str, store: str, diary: str, draws: int) -> None:
    """In the program of the user."""
    warnings.simplefilter("ignore", dims.DimsWarning)
    cluster_diary.keep(Path(diary))
    engine = dims.Ray(address=address, retries=1000)
    how = {"chunk_size": kills.CHUNK, "max_time": 1.0, "progress": False}
    try:
        kills.problem().sample(draws, store=Path(store), engine=engine, **how)
    except OSError as error:
        print(error, flush=True)
        sys.exit(1)


def cluster_of(nodes: int = NODES) -> Any:
    return cluster_nodes.cluster_of(nodes, SETTINGS)


def lose_nodes(place: Path, times: int, draws: int) -> dict[str, Any]:
    """Runs on a cluster whose nodes die at random moments, until so many have."""
    ended, by_node, lost = [], [], []
    began, generator = time.monotonic(), random.Random(0)
    with cluster_of() as cluster:
        while len(lost) < times or not ended:
            name = f"run{len(ended)}"
            run = Run(cluster, place / name, place / f"{name}.diary", draws)
            while run.goes_on():
                time.sleep(generator.uniform(0, LONGEST_LIFE))
                busy = [node for node in cluster.nodes if at_work(node, run.diary)]
                if len(lost) < times and busy and run.goes_on():
                    lost.append(lose(generator.choice(busy), run.diary, cluster.head))
            code, said = run.end()
            if code != 0:
                sys.exit(f"a run on a cluster that loses nodes ended with {code}: {said}")
            ended.append(kills.sums(run.store))
            by_node.append(run.node_of_each_chunk())
        for node in cluster.nodes:
            node.wait()
    return {
        "kills": len(lost),
        "kills_of_nodes_at_work": sum(chunk is not None for _, chunk in lost),
        "killed": [{"node": node, "chunk": chunk} for node, chunk in lost],
        "runs": len(ended),
        "seconds": round(time.monotonic() - began, 1),
        "node_of_each_chunk": by_node,
        "files": ended,
    }


def at_work(node: Node, diary: Path) -> list[int]:
    """The chunks that living workers of a node compute."""
    living = node.processes()
    begun = cluster_diary.unfinished(cluster_diary.read(diary), node.namespace)
    return [chunk for worker, chunk in begun.items() if worker in living]


def lose(node: Node, diary: Path, head: Node) -> tuple[str, int | None]:
    """Kill a node and start it again; its address, and the chunk that it could not end."""
    living = node.processes()
    node.kill()
    begun = cluster_diary.unfinished(cluster_diary.read(diary), node.namespace)
    cut = [chunk for worker, chunk in begun.items() if worker in living]
    node.start(head)
    return node.address, cut[0] if cut else None


def lose_the_head(place: Path, draws: int) -> dict[str, Any]:
    """The head dies after the first chunk; on the cluster started again the program goes on."""
    store = place / "head"
    with cluster_of() as cluster:
        run = Run(cluster, store, place / "head.diary", draws)
        while not run.chunks() and run.goes_on():
            time.sleep(0.05)
        busy = [node.address for node in cluster.nodes if at_work(node, run.diary)]
        cluster.head.kill(spare=[run.process.pid])
        killed = time.monotonic()
        code, _ = run.end()
        left, kept = time.monotonic() - killed, run.chunks()
        for node in cluster.nodes:
            node.kill()  # Ray leaves by itself, some time later
        cluster.start()
        again = Run(cluster, store, run.diary, draws)
        second, _ = again.end()
        by_node = again.node_of_each_chunk()
    return {
        "nodes_at_work": busy,
        "first_exit_code": code,
        "seconds_until_it_ended": round(left, 1),
        "chunks_kept": kept,
        "second_exit_code": second,
        "node_of_each_chunk": [by_node],
        "files": [kills.sums(store)],
    }


def fill_the_disk(place: Path, draws: int) -> dict[str, Any]:
    """A file system with room for some chunks, then for all."""
    disk = place / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}k", "tmpfs", str(disk)], check=True)
    try:
        free = os.statvfs(disk)
        (disk / "ballast").write_bytes(bytes(free.f_bavail * free.f_frsize - 3 * 4096))
        with cluster_of() as cluster:
            run = Run(cluster, disk / "run", place / "disk.diary", draws)
            code, said = run.end()
            kept = run.chunks()
            (disk / "ballast").unlink()
            again = Run(cluster, run.store, run.diary, draws)
            second, _ = again.end()
            by_node = again.node_of_each_chunk()
        found = kills.sums(run.store)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    return {
        "first_exit_code": code,
        "said": said.replace(str(disk), "STORE"),
        "chunks_kept": kept,
        "second_exit_code": second,
        "node_of_each_chunk": [by_node],
        "files": [found],
    }


def measure(node_kills: int, draws: int) -> dict[str, Any]:
    """All faults, and whether the files are those of the quiet run."""
    place = Path(tempfile.mkdtemp())
    record: dict[str, Any] = {"python": platform.python_version(), "ray": version("ray")}
    record |= {"nodes": NODES, "network": "one namespace for each node, and one for the head"}
    record |= {"draws": draws, "chunks": -(-draws // kills.CHUNK)}
    faults: dict[str, Callable[[], dict[str, Any]]] = {
        "disk full": lambda: fill_the_disk(place, draws),
        "head killed": lambda: lose_the_head(place, draws),
        "nodes killed": lambda: lose_nodes(place, node_kills, draws),
    }
    try:
        expected = kills.quiet(place / "quiet", draws)
        for name, fault in faults.items():
            found = fault()
            equal = [files == expected for files in found.pop("files")]
            chunks = Counter(node for run in found["node_of_each_chunk"] for node in run)
            found["chunks_of_each_node"] = dict(sorted(chunks.items()))
            record[name] = {**found, "runs_with_equal_files": f"{sum(equal)} of {len(equal)}"}
            print(name, record[name], flush=True)
    finally:
        shutil.rmtree(place)
    return {**record, "sha256": expected}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--node-kills", type=int, default=10)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    if reason := cluster_nodes.why_not():
        sys.exit(reason)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and leave no namespace behind
    record = measure(arguments.node_kills, arguments.draws)
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
