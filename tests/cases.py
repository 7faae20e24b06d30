"""Which cases `make test` runs; the others are marked `slow` and run in `make test-all`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

import pytest

__all__ = ["diagonal", "examples", "first", "slow"]

brief = True  # set by conftest.py: whether the slow tests are left out


def examples(count: int) -> int:
    """How many examples hypothesis makes: all of them in `make test-all`, an eighth otherwise."""
    wanted = os.environ.get("DIMS_FUZZ_EXAMPLES")  # for a longer hunt
    return int(wanted) if wanted else -(-count // 8) if brief else count


def slow(*values: Any, id: str | None = None) -> Any:
    """A case that only `make test-all` runs."""
    return pytest.param(*values, id=id, marks=pytest.mark.slow)


def first(values: Sequence[Any], brief: int = 1) -> list[Any]:
    """The first cases always, the others among the slow tests."""
    return [*values[:brief], *(slow(value) for value in values[brief:])]


def diagonal(*lists: Sequence[Any]) -> list[Any]:
    """All combinations, few of them always: so many that each value of each list is in one."""
    longest = max(len(values) for values in lists)
    always = {tuple(number % len(values) for values in lists) for number in range(longest)}
    found = []
    for place in itertools.product(*(range(len(values)) for values in lists)):
        case = [values[index] for values, index in zip(lists, place, strict=True)]
        found.append(pytest.param(*case, marks=() if place in always else pytest.mark.slow))
    return found
