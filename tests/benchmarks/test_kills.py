"""The series of kills: files are those of a quiet run."""

from __future__ import annotations

import pytest

import kills
from cases import slow

SERIES = [
    (1, 0, 2),
    slow(1, 1, 6),
    slow(2, 1, 6),
    pytest.param(50, 20, 12, marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(("killed", "ended", "draws"), SERIES)
def test_killed_runs_leave_the_files_of_a_quiet_one(killed, ended, draws) -> None:
    numbers = {"kill -9": killed} | ({"SIGTERM": ended} if ended else {})
    record = kills.measure(numbers, draws, every=0.02)
    for name, number in numbers.items():
        series = record[name]
        assert series["kills"] == number
        assert series["runs_with_equal_files"] == series["runs"] >= 1
    # The manifest, the findings and the chunks.
    assert len(record["sha256"]) == 2 + -(-draws // kills.CHUNK)
    if killed >= 50:  # the moments were spread over the whole run
        assert {place[0] for place in record["kill -9"]["where"]} >= {"0", "1", "2"}
