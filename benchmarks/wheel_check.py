"""Does the content of a wheel import and sample on this machine?

    python -m build --no-isolation
    python benchmarks/wheel_check.py dist/dims-0.1.0-py3-none-any.whl

Needs torch, numpy and safetensors only. The wheel is unpacked into a temporary folder and imported
from there, in a new process that sees no other dims. It samples on the CPU and, where there is one,
on the GPU.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

PROGRAM = """
import platform, sys
from pathlib import Path
import numpy, safetensors, torch
import dims

assert Path(dims.__file__).is_relative_to(sys.argv[1]), f"imported {dims.__file__}"
print(f"dims {dims.__version__}, python {platform.python_version()}, torch {torch.__version__}, "
      f"numpy {numpy.__version__}, safetensors {safetensors.__version__}, {platform.platform()}")
devices = sys.argv[2:] or ["cpu"] + ["cuda"] * torch.cuda.is_available()
for device in devices:
    if device != "cpu":
        print(f"{device}: {torch.cuda.get_device_name()}")
    torch.manual_seed(0)
    inputs = torch.linspace(-1, 1, 20).double().unsqueeze(-1)
    targets = torch.sin(3 * inputs) + 0.1 * torch.randn_like(inputs)
    model = torch.nn.Sequential(torch.nn.Linear(1, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
    model, data = model.double().to(device), (inputs.to(device), targets.to(device))
    given = {"prior_precision": 0.05, "noise_std": 0.1, "refine": True}
    posterior = dims.fit(model, data, "regression", **given)
    draws = posterior.sample(4, friction=0.5, max_time=1.0, progress=False)
    assert draws.parameters.device.type == device
    near, far = (draws.predict(k * data[0]).epistemic.mean().sqrt() for k in (1, 3))
    assert 0 < near < far < float("inf"), (near, far)
    assert (draws.energy_violation < 0.01).all(), draws.energy_violation
    print(f"{device}: {len(draws)} draws, spread {near:.3g} on the data, {far:.3g} away")
"""


def check(wheel: Path, devices: Sequence[str] = ()) -> str:
    """What the program prints; RuntimeError with its output if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, folder, *devices],
            env={**os.environ, "PYTHONPATH": folder},
            cwd=folder,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(f"{wheel}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("devices", nargs="*", help="cpu, cuda; by default what there is")
    given = parser.parse_args()
    print(check(given.wheel.resolve(), given.devices), end="")
