"""What pytest says at the end of a run with slow tests."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the slow tests that ran, so that `make test-all` says what it covers."""
    found: dict[str, Counter[str]] = {}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            if "slow" in getattr(report, "keywords", {}):
                found.setdefault(report.nodeid.split("::")[0], Counter())[outcome] += 1
    if found:
        terminalreporter.section("slow tests that ran")
    for place, outcomes in sorted(found.items()):
        told = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
        purpose = (ROOT / place).read_text(encoding="utf-8").split("\n")[0].strip('" ')
        terminalreporter.write_line(f"{place}: {told}. {purpose}")
