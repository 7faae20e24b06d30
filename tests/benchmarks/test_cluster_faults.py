"""A small cluster that loses nodes, its head and room on the disk; a minute or two."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "cluster_faults.py"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_cluster_that_loses_nodes_leaves_the_files_of_a_quiet_run(tmp_path):
    """In a process of its own: it changes settings of Ray."""
    pytest.importorskip("ray")
    out = tmp_path / "cluster.json"
    command = [sys.executable, str(PROGRAM), "--node-kills", "2", "--draws", "12"]
    subprocess.run([*command, "--out", str(out)], check=True)
    record = json.loads(out.read_text())
    for fault in ("disk full", "head killed", "nodes killed"):
        equal, runs = record[fault]["runs_with_equal_files"].split(" of ")
        assert equal == runs
    assert "No space left" in record["disk full"]["said"]
    assert record["nodes killed"]["kills"] == 2
