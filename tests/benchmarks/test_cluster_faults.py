"""A small cluster that loses nodes, its head and room on the disk; some minutes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import cluster_diary
import cluster_nodes
from cluster_diary import Entry

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "cluster_faults.py"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cluster_that_loses_nodes_leaves_the_files_of_a_quiet_run(tmp_path):
    """In a process of its own: it changes settings of Ray."""
    pytest.importorskip("ray")
    if reason := cluster_nodes.why_not():
        pytest.skip(reason)
    out = tmp_path / "cluster.json"
    command = [sys.executable, str(PROGRAM), "--node-kills", "2", "--draws", "24"]
    subprocess.run([*command, "--out", str(out)], check=True)
    record = json.loads(out.read_text())
    for fault in ("disk full", "head killed", "nodes killed"):
        equal, runs = record[fault]["runs_with_equal_files"].split(" of ")
        assert equal == runs
        assert all(len(run) == record["chunks"] for run in record[fault]["node_of_each_chunk"])
    assert "No space left" in record["disk full"]["said"]
    assert record["nodes killed"]["kills"] == 2
    assert len(record["nodes killed"]["chunks_of_each_node"]) >= 2


def test_the_diary_knows_who_computes_and_who_computed(tmp_path):
    diary = tmp_path / "diary"
    assert cluster_diary.read(diary) == []
    for event, chunk in (("began", 3), ("ended", 3), ("began", 5)):
        cluster_diary.write(str(diary), event, chunk)
    entries = cluster_diary.read(diary)
    here = entries[0].namespace
    elsewhere = [Entry("began", 4, here + 1, 7), Entry("ended", 4, here + 1, 7)]
    elsewhere.append(Entry("began", 6, here + 1, 8))
    assert list(cluster_diary.unfinished(entries + elsewhere, here).values()) == [5]
    assert cluster_diary.unfinished(entries + elsewhere, here + 1) == {8: 6}
    assert cluster_diary.computed_by(entries + elsewhere) == {3: here, 4: here + 1}
