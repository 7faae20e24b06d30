"""`make test-all` ends with a list of the slow tests that ran."""

from __future__ import annotations

from types import SimpleNamespace

from slow_tests import pytest_terminal_summary


class Terminal:
    """What the terminal is told."""

    def __init__(self, stats: dict[str, list[SimpleNamespace]]) -> None:
        self.stats, self.lines = stats, []

    def section(self, title: str) -> None:
        self.lines.append(title)

    write_line = section


def report(name: str, *keywords: str) -> SimpleNamespace:
    return SimpleNamespace(
        nodeid=f"tests/project/{name}.py::test_it", keywords=dict.fromkeys(keywords)
    )


def test_slow_tests_are_counted_by_file_and_outcome() -> None:
    slow, other = report("test_slow_list", "slow"), report("test_size")
    terminal = Terminal({"passed": [slow, slow, other], "skipped": [slow], "warnings": [slow]})
    pytest_terminal_summary(terminal)
    assert terminal.lines == [
        "slow tests that ran",
        "tests/project/test_slow_list.py: 2 passed, 1 skipped. "
        "`make test-all` ends with a list of the slow tests that ran.",
    ]


def test_without_slow_tests_there_is_no_list() -> None:
    terminal = Terminal({"passed": [report("test_size")]})
    pytest_terminal_summary(terminal)
    assert terminal.lines == []
