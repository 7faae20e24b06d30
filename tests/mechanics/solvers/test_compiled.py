"""Compiled runs are the same runs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cases import slow
from dims.mechanics.batch import batch_sizes, fitting_size

# In a process of its own: the shape checks of the tests cannot be traced by the compiler.
PROGRAM = """
import json, sys, warnings
import torch, dims

torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
inputs = torch.linspace(-1, 1, 12, dtype=torch.float64).unsqueeze(-1)
surface = dims.LossSurface(
    model,
    (inputs, torch.sin(3 * inputs)),
    dims.Gaussian(0.3),
    prior_precision=0.5,
    memory_budget=json.loads(sys.argv[1]),
)
rows = json.loads(sys.argv[2])
velocity = torch.randn(rows, surface.size, dtype=torch.float64)
# Some rows are slow, so that they end at different times and a batch of more than four shrinks.
velocity *= torch.linspace(0.1, 2.0, rows, dtype=torch.float64).unsqueeze(-1)
plain, compiled = (
    dims.integrate(surface, surface.initial, velocity, max_time=1.0, compile=how)
    for how in (False, True)
)
print(json.dumps({
    "in_one_piece": surface.in_one_piece(rows),
    "difference": float((plain.end - compiled.end).abs().max()),
    "moved": float((plain.end - surface.initial).abs().max()),
    "same_status": plain.status == compiled.status,
}))
"""


@pytest.mark.parametrize(
    ("memory_budget", "rows"),
    [
        # The compiler takes most of the time, once for each size of a batch; four rows are one.
        pytest.param(None, 4, id="whole step"),
        slow(None, 16, id="sixteen rows"),
        slow(2**13, 16, id="gradient in pieces"),
        slow(None, 40, id="shrinking"),
    ],
)
def test_a_compiled_run_is_the_same_run(memory_budget: int | None, rows: int) -> None:
    command = [sys.executable, "-c", PROGRAM, json.dumps(memory_budget), json.dumps(rows)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "CompileWarning" not in ran.stderr
    found = json.loads(ran.stdout)
    assert found["in_one_piece"] == (memory_budget is None)
    # Rounding differs, and the flow amplifies it, but little over such a time.
    assert found["difference"] < 1e-6 < found["moved"]
    assert found["same_status"]


def test_compiled_batches_shrink_to_few_sizes() -> None:
    assert batch_sizes(1000, 4, 16) == [1000, 250, 63, 16]
    assert batch_sizes(20, 4, 1) == [20, 5, 2, 1]
    assert batch_sizes(10, 2, 16) == [10]
    sizes = batch_sizes(1000, 4, 16)
    found = [fitting_size(alive, 1000, sizes) for alive in range(1, 1001)]
    assert set(found) == set(sizes)
    assert all(size >= alive for alive, size in enumerate(found, start=1))
    assert fitting_size(3, 10, sizes) == 10
    assert fitting_size(0, 1000, sizes) == 0
    assert fitting_size(900, 1000, None) == 1000
    assert fitting_size(700, 1000, None) == 700
