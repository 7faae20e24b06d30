"""What every sampler must do, as a check that you can run on your own."""

from __future__ import annotations

import functools
import json
import tempfile
from dataclasses import fields, is_dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from dims.sampling.draws import Draws, load
from dims.sampling.draws.fields import ROW_TENSORS
from dims.sampling.fit import fit
from dims.sampling.posterior import Posterior
from dims.sampling.samplers import Sampler

__all__ = ["check_sampler"]

DRAWS, CHUNK = 5, 2


def check_sampler(sampler: Sampler) -> None:
    """Assert that a sampler keeps the contract of `dims.Sampler`, on a network of 7 parameters.

    Its draws have the right shapes, draw i depends on (seed, i) only, they survive saving and
    loading, the settings of the sampler survive JSON, and it works in a store.

    Args:
        sampler: The sampler to check. Give it short trajectories, as rounding grows along them.

    Raises:
        AssertionError: Something is not as it must be.

    Example:
        >>> check_sampler(MySampler())
    """
    model, data, posterior = _problem()
    draws = posterior.sample(DRAWS, sampler, seed=1, progress=False)
    _check_fields(sampler, draws, posterior)
    fewer = posterior.sample(DRAWS - 2, sampler, seed=1, progress=False)
    _assert_close(fewer, draws.select(slice(0, DRAWS - 2)), "draw i depends on other draws")
    other = posterior.sample(DRAWS, sampler, seed=2, progress=False)
    assert not torch.equal(other.parameters, draws.parameters), "draws do not depend on the seed"
    text = json.dumps(sampler.settings)
    parts = [getattr(sampler, field.name) for field in fields(sampler)]  # type: ignore[arg-type]
    classes = [type(part) for part in parts if is_dataclass(part)]
    again = type(sampler).from_settings(json.loads(text), classes)
    assert again == sampler, f"settings: {again} is not {sampler}"
    with tempfile.TemporaryDirectory() as folder:
        draws.save(Path(folder) / "draws")
        _assert_equal(load(Path(folder) / "draws", model, data), draws, "after loading")
        kept = {"seed": 1, "progress": False, "store": Path(folder) / "run", "chunk_size": CHUNK}
        stored = posterior.sample(DRAWS, sampler, **kept)  # type: ignore[arg-type]
        _assert_close(stored, draws, "draws in a store differ")
        found = posterior.sample(DRAWS, sampler, **kept)  # type: ignore[arg-type]
        _assert_equal(found, stored, "from a store")


@functools.cache
def _problem() -> tuple[nn.Module, tuple[Tensor, Tensor], Posterior]:
    inputs = torch.linspace(-1, 1, 6, dtype=torch.float64).unsqueeze(-1)
    data = (inputs, (2 * inputs).sin())
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(1, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    posterior = fit(
        model, data, "regression", tune=False, prior_precision=1.0, noise_std=0.5, refine=True
    )
    return model, data, posterior


def _check_fields(sampler: Sampler, draws: Draws, posterior: Posterior) -> None:
    theta = posterior.map_parameters
    assert isinstance(draws, Draws), f"sample: expected Draws, got {type(draws).__name__}"
    assert draws.parameters.shape == (DRAWS, len(theta)), "parameters: expected shape (S, K)"
    assert draws.parameters.dtype == theta.dtype, "parameters: another precision than the network"
    assert draws.parameters.isfinite().all(), "parameters: NaN or infinite"
    assert draws.method == sampler.name, f"method: {draws.method!r} is not the sampler's name"
    assert draws.settings == json.loads(json.dumps(sampler.settings)), "settings: others in draws"
    assert draws.surface is posterior.surface, "surface: another one than that of the posterior"
    assert torch.equal(draws.map_parameters, theta), "map_parameters: not θ*"


def _assert_close(one: Draws, other: Draws, message: str) -> None:
    """To rounding: batches of other sizes round differently."""
    torch.testing.assert_close(
        one.parameters, other.parameters, rtol=1e-5, atol=1e-7, msg=lambda m: f"{message}: {m}"
    )
    assert one.status == other.status, message


TIMED = ("gradient_equivalents",)  # seconds, in a moving metric


def _assert_equal(one: Draws, other: Draws, message: str) -> None:
    for name in ("times", *(name for name in ROW_TENSORS if name not in TIMED)):
        same = torch.allclose(getattr(one, name), getattr(other, name), 0.0, 0.0, equal_nan=True)
        assert same, f"{name}: another {message}"
    for name in ("method", "status", "verdict", "seed", "settings"):
        assert getattr(one, name) == getattr(other, name), f"{name}: another {message}"
