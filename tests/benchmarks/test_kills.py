"""The series of kills, with few of them: files are those of a quiet run."""

from __future__ import annotations

import pytest

import kills


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_killed_runs_leave_the_files_of_a_quiet_one() -> None:
    record = kills.measure({"kill -9": 2, "SIGTERM": 1}, draws=5, every=0.02)
    for name, number in (("kill -9", 2), ("SIGTERM", 1)):
        series = record[name]
        assert series["kills"] == number
        assert series["runs_with_equal_files"] == series["runs"] >= 1
    assert len(record["sha256"]) == 3
