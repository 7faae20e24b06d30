"""Are draws of this checkout bitwise those of another one, on the same machine?

    git worktree add ../before 35a10b1
    python benchmarks/same_draws.py ../before

Each checkout draws by every method, curvature, solver and precision in a process of its own. The
program prints a line a case with the SHA-256 of its numbers and exits with 1 if one differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
DRAWS = 6
SHORT: dict[str, Any] = {"friction": 0.5, "max_time": 2.0}
PLAIN: dict[str, Any] = {"settle": None, "certify": False, "precondition": False}


def problem(kind: str, dtype: torch.dtype) -> tuple[nn.Module, tuple[Tensor, Tensor], str]:
    """A small network, data for it, and the likelihood."""
    torch.manual_seed(0)
    inputs = torch.randn(40, 3, dtype=torch.float64).to(dtype)
    outputs = {"regression": 2, "one logit": 1, "classes": 3}[kind]
    model = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 8), nn.Tanh())
    model.append(nn.Linear(8, outputs)).to(dtype)
    if kind == "regression":
        return model, (inputs, torch.sin(inputs[:, :2])), "regression"
    return model, (inputs, (inputs.sum(-1) > 0).long() % max(outputs, 2)), "classification"


def cases() -> Iterator[tuple[str, Tensor]]:
    """Names and numbers; old and new checkouts share all the names that are used here."""
    import dims

    for dtype in (torch.float64, torch.float32):
        for kind in ("regression", "one logit", "classes"):
            model, data, likelihood = problem(kind, dtype)
            for curvature in ("full", "diagonal", "kronecker", "low_rank"):
                posterior = dims.fit(
                    model, data, likelihood, curvature=curvature, rank=20, tune=True
                )
                name = f"{str(dtype)[6:]}, {kind}, {curvature}"
                evidence = torch.tensor(posterior.log_marginal_likelihood, dtype=torch.float64)
                yield f"{name}: evidence", evidence
                for method in ("la", "linla", "rla", "dims"):
                    how = {**SHORT, **PLAIN} if method == "dims" else {}
                    draws = posterior.sample(DRAWS, method, seed=3, progress=False, **how)
                    yield f"{name}: {method}", draws.parameters
                    yield f"{name}: {method}, predicted", draws.predict(data[0]).samples
            posterior = dims.fit(model, data, likelihood, refine=True, tune=True)
            name = f"{str(dtype)[6:]}, {kind}"
            for settle in ("stiff", "full"):
                draws = posterior.sample(DRAWS, "dims", progress=False, settle=settle, **SHORT)
                yield f"{name}: settled ({settle})", draws.parameters
                yield f"{name}: eigenvalues ({settle})", draws.smallest_eigenvalue
                yield f"{name}: energies ({settle})", draws.energy_balance
            draws = posterior.sample(
                DRAWS,
                "dims",
                solver="dopri5",
                progress=False,
                **{**SHORT, **PLAIN, "max_time": 0.2},
            )
            yield f"{name}: dopri5", draws.parameters


def digests() -> dict[str, str]:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    return {
        name: hashlib.sha256(value.contiguous().numpy().tobytes()).hexdigest()
        for name, value in cases()
    }


def in_checkout(place: Path) -> dict[str, str]:
    """The digests of a checkout, by a process that imports dims from there."""
    paths = os.pathsep.join(str(place / part) for part in ("src", "paper"))
    done = subprocess.run(
        [sys.executable, __file__, "--print"],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{place}: {done.stderr.strip().splitlines()[-1]}")
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, nargs="?", help="folder of the other checkout")
    parser.add_argument("--print", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.print:
        print(json.dumps(digests()))
        return
    if options.other is None:
        parser.error("give the folder of the other checkout")
    here, there = in_checkout(ROOT), in_checkout(options.other.resolve())
    for name in sorted(here | there):
        same = here.get(name) == there.get(name)
        print(f"{'same' if same else 'DIFFERENT':9} {here.get(name, '-')[:16]}  {name}")
    different = sum(here.get(name) != there.get(name) for name in here | there)
    print(f"{len(here | there)} cases, {different} different")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
