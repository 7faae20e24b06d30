"""Shapes are checked in the rooms' tests, and missing data is a failure only under CI."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

# One thread for each worker and the programs it starts: the tests' networks are so small that two
# threads spend their time waiting for each other. Torch reads it once, when it is imported; where
# a plugin of pytest was earlier, it is told below.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import jaxtyping
import pytest
import torch
from hypothesis import settings

import cases
import shape_checks
from slow_tests import pytest_terminal_summary

__all__ = ["pytest_terminal_summary"]

TESTS = Path(__file__).parent
# Problems that several rooms share, and the programs that tests run.
sys.path[:0] = [
    str(path)
    for path in (
        TESTS,
        TESTS / "model",
        TESTS / "sampling",
        TESTS.parent / "benchmarks",
    )
]
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
# The same cases every time, so that a red run means a change; `make test-all` may vary the seed.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
shape_checks.install("dims", "dims_paper")


def pytest_configure(config: pytest.Config) -> None:
    cases.brief = config.option.markexpr == "not slow"


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder that DIMS_DATA names."""
    named = os.environ.get("DIMS_DATA", "")
    if named and Path(named).is_dir():
        return Path(named)
    reason = f"DIMS_DATA names no folder ({named or 'not set'})"
    if os.environ.get("CI") == "true":
        pytest.fail(f"missing data is a failure under CI: {reason}")
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def _need_data(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("data") is not None:
        request.getfixturevalue("data_root")


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """Metrics and likelihoods that a test registers are gone after it."""
    from dims.model.likelihoods import base
    from dims.prediction.metrics import registry

    before = dict(registry._METRICS), dict(base._CLASSES)
    yield
    for now, then in zip((registry._METRICS, base._CLASSES), before, strict=True):
        now.clear()
        now.update(then)


# Shapes are checked in the tests of these rooms. Whole programs (the paper's experiments, commands,
# documentation, examples) run as users run them: there the checks would take most of the time.
CHECKED = {"model", "surface", "curvature", "mechanics", "prediction", "sampling", "baselines"}


@pytest.fixture(autouse=True)
def _check_first_calls() -> None:
    shape_checks.forget_calls()


@pytest.fixture(autouse=True)
def _as_a_user(request: pytest.FixtureRequest) -> None:
    if request.path.relative_to(TESTS).parts[0] not in CHECKED:
        request.getfixturevalue("unchecked")


@pytest.fixture(scope="module")
def without_shape_checks() -> Iterator[None]:
    """For modules with long runs, most of whose time the checks would take."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No shape checks: what a user without jaxtyping sees when an argument has the wrong type."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
