"""The benchmark of networks' parts runs, and the sampled part costs what it would cost alone."""

from __future__ import annotations

import pytest

from network_parts import measure_features


@pytest.mark.slow
def test_two_layers_of_a_network_cost_what_they_cost_alone() -> None:
    found = measure_features(20_000, repeats=7)
    assert found["parameters"] == 16 * 32 + 32 + 32 * 10 + 10
    assert found["ratio"] <= 1.5
