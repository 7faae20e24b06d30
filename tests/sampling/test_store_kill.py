"""kill -9 at random moments: nothing is lost, nothing doubled, and the bits are those of peace."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_store import assert_same, chunks, make_posterior, sample

LONG = {"friction": 0.1, "max_time": 2.0}

# States of half-done chunks are kept often, so that kills hit their writing as well.
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import torch
import dims.sampling.store.checkpoint
import test_store, test_store_kill
dims.sampling.store.checkpoint.EVERY = 0.05
torch.set_num_threads(1)
posterior = test_store.make_posterior()
print("ready", flush=True)
test_store.sample(posterior, Path({store!r}), **test_store_kill.LONG)
"""


class Runner:
    """The same run in a process of its own, over and over, killed or not."""

    def __init__(self, store: Path) -> None:
        self.store = store
        program = PROGRAM.format(tests=str(Path(__file__).parent), store=str(store))
        self.command = [sys.executable, "-W", "ignore", "-c", program]

    def run(self, kill_after: float | None) -> bool:
        """True where the process was killed before its end; counted from when it is ready."""
        child = subprocess.Popen(self.command, stdout=subprocess.PIPE)
        assert child.stdout is not None
        with child.stdout:
            assert child.stdout.readline() == b"ready\n"
        began = time.monotonic()
        if kill_after is not None:
            time.sleep(kill_after)
            child.send_signal(signal.SIGKILL)
        code = child.wait()
        self.took = time.monotonic() - began
        assert code in (0, -signal.SIGKILL)
        return code != 0


@pytest.mark.parametrize(
    "kills",
    [2, pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])],
)
def test_killed_at_random_moments_it_ends_with_the_same_bits(tmp_path, kills):
    quiet, store = tmp_path / "quiet", tmp_path / "killed"
    undisturbed = Runner(quiet)
    undisturbed.run(kill_after=None)
    runner, generator = Runner(store), random.Random(0)
    seen: set[tuple[int, bool]] = set()
    killed = 0
    while killed < kills:
        if runner.run(kill_after=generator.uniform(0, undisturbed.took)):
            killed += 1
            seen.add((len(chunks(store)), bool(list(store.glob("partial_*")))))
        else:  # it was done: begin again, so that there is something to interrupt
            assert len(chunks(store)) == 3
            for path in chunks(store):
                path.unlink()
    assert not runner.run(kill_after=None)
    posterior = make_posterior()
    assert_same(sample(posterior, store, **LONG), sample(posterior, quiet, **LONG))
    assert sorted(os.listdir(store)) == [
        *(f"chunk_0000{i}.safetensors" for i in range(3)),
        "lock",
        "manifest.json",
    ]
    if kills >= 50:  # the moments were spread over the whole run
        assert {number for number, _ in seen} >= {0, 1, 2}
        assert {half_done for _, half_done in seen} == {False, True}
