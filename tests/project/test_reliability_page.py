"""The page on reliability has the numbers of the files that its programs wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text()
TEXT = " ".join(PAGE.split())


def measured(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "results" / "benchmarks" / f"{name}.json").read_text())


def row(fault: str) -> str:
    (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| {fault} |"))
    return line


def test_kills_of_one_process():
    record = measured("kills")
    killed, ended = record["kill -9"], record["SIGTERM"]
    assert (killed["kills"], ended["kills"]) >= (50, 20)
    assert all(series["runs_with_equal_files"] == series["runs"] for series in (killed, ended))
    moments = f"{killed['kills']} kills at random times of {killed['runs']} runs"
    assert moments in row("kill −9, this process")
    where = ended["where"]
    states = sum(number for place, number in where.items() if "a part" in place)
    last = where["3 chunks"]
    before = ended["kills"] - states - last
    assert (
        f"{ended['kills']} at random times of {ended['runs']} runs; {states} left the state of a "
        f"chunk, {before} came before the next chunk had one, {last} after the last chunk"
    ) in row("SIGTERM, this process")


def test_faults_of_a_cluster():
    record = measured("cluster")
    nodes, head, disk = (record[name] for name in ("nodes killed", "head killed", "disk full"))
    for fault in (nodes, head, disk):
        equal, runs = fault["runs_with_equal_files"].split(" of ")
        assert equal == runs
        assert all(len(run) == record["chunks"] for run in fault["node_of_each_chunk"])
        assert len(fault["chunks_of_each_node"]) >= 2
    assert nodes["kills_of_nodes_at_work"] == nodes["kills"] >= 10
    killed = f"{nodes['kills']} nodes killed at random times, each with a chunk begun"
    assert killed in row("kill −9, a Ray node")
    chunks = ", ".join(str(n) for n in nodes["chunks_of_each_node"].values())
    assert f"The {record['nodes']} nodes computed {chunks} chunks" in TEXT
    assert f"nodes were killed, in {nodes['seconds']:.0f} s" in TEXT
    assert len(head["nodes_at_work"]) == record["nodes"]
    assert f"after {head['seconds_until_it_ended']:.0f} s;" in row(
        "kill −9, the head of the cluster"
    )
    assert (head["first_exit_code"], head["second_exit_code"]) == (1, 0)
    assert f"{disk['chunks_kept']} chunks kept" in row("disk full")
    assert f"({record['draws']} draws in {record['chunks']} chunks)" in TEXT


def test_the_hour_of_lenet():
    record = measured("soak_lenet")
    rounds = record["rounds"]
    resident, used = ([entry[key] for entry in rounds] for key in ("MB", "MB_in_use"))
    assert record["same_bytes"]
    assert record["failed"] == 0
    assert min(used) == max(used)
    assert {entry["open_files"] for entry in rounds} == {record["last_third"]["open_files"]}
    first, last = (record[f"{third}_third"]["cpu_seconds_a_draw"] for third in ("first", "last"))
    assert last < 1.1 * first
    for said in (
        f"{len(rounds)} runs of two draws",
        f"in {record['minutes']:.0f} minutes: {record['draws']} draws",
        f"was {used[0]} MB after every run",
        f"resident memory between {min(resident)} and {max(resident)} MB",
        f"There were {record['last_third']['open_files']} open files throughout",
        f"{first:.1f} CPU seconds in the first third of the runs and {last:.1f} in the last",
        f"of LeNet draws over {record['minutes']:.0f} minutes",
    ):
        assert said in TEXT
