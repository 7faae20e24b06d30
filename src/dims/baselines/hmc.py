"""Hamiltonian Monte Carlo: the ground truth of small problems, by the No-U-Turn sampler.

    p(θ) ∝ exp(−L(θ)),   H(θ, r) = L(θ) + ½·rᵀM⁻¹r

With `effective_points` or `loss_scale` L is that of the surface, so its tempered posterior.

Reference: M. D. Hoffman and A. Gelman, "The No-U-Turn sampler: adaptively setting path lengths in
Hamiltonian Monte Carlo", JMLR 15, 2014.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from dims.errors import HmcWarning, renamed_arguments
from dims.model.shapes import RowIntegers, RowVectors, Vector, check_integer
from dims.model.training import seeded
from dims.sampling.draws import Draws
from dims.sampling.draws.measure import measure
from dims.sampling.progress import part_reporter
from dims.surface.loss import LossSurface

__all__ = ["hmc"]


@runtime_checkable
class Fitted(Protocol):
    """A surface and θ* on it: a `Posterior`."""

    @property
    def surface(self) -> LossSurface: ...

    @property
    def map_parameters(self) -> Vector: ...


class Chain(NamedTuple):
    """The draws of one chain, in float64, and how it ran."""

    positions: RowVectors
    evaluations: RowIntegers
    report: dict[str, float]  # as in the settings of the draws


@renamed_arguments(count="draws")
def hmc(
    posterior: LossSurface | Fitted,
    draws: int,
    *,
    warmup: int = 500,
    chains: int = 1,
    dense_mass: bool = True,
    target_acceptance: float = 0.8,
    max_tree_depth: int = 10,
    seed: int = 0,
    progress: bool | Callable[[float], None] = True,
) -> Draws:
    """Draw from exp(−L) by the No-U-Turn sampler, with chains that start at θ*.

    Args:
        posterior: What `dims.fit` returned, or a loss surface.
        draws: Number of draws of all chains together; they come chain after chain.
        warmup: Steps of each chain that adapt it and are not kept.
        chains: Number of chains.
        dense_mass: Adapt a full mass matrix instead of a diagonal one.
        target_acceptance: Acceptance that the step size is adapted to, between 0 and 1.
        max_tree_depth: Largest number of doublings of a trajectory.
        seed: Of all chains.
        progress: Show a bar in a terminal, or a function to call with the part that is done.

    Returns:
        Draws whose `settings` hold divergences, acceptance and step size of each chain, the
        smallest effective sample size and the largest split R-hat of all parameters.

    Raises:
        ValueError: A number is out of its range.
        ImportError: pyro is not installed.

    Example:
        >>> truth = dims.hmc(posterior, 1000, chains=4)
    """
    surface, start = _resolve(posterior)
    settings: dict[str, Any] = {
        "warmup": check_integer("warmup", warmup),
        "chains": check_integer("chains", chains),
        "dense_mass": dense_mass,
        "target_acceptance": target_acceptance,
        "max_tree_depth": check_integer("max_tree_depth", max_tree_depth),
    }
    check_integer("seed", seed, lowest=0)
    if check_integer("draws", draws) % chains:
        raise ValueError(f"draws: {draws} draws cannot be shared by {chains} chains equally")
    if not 0 < target_acceptance < 1:
        raise ValueError(f"target_acceptance: must lie in (0, 1), got {target_acceptance}")
    with part_reporter(progress, "hmc") as report:
        return _sample(surface, start, draws // chains, settings, seed, report)


def _sample(
    surface: LossSurface,
    start: Vector,
    count: int,
    settings: dict[str, Any],
    seed: int,
    report: Callable[[float], None],
) -> Draws:
    """Run the chains, `count` draws each, and report on them."""
    nuts, effective_sample_size, split_r_hat = _load_pyro()

    def run(number: int) -> Chain:
        # Sums such as seed + number would give chain 1 of seed 0 the numbers of chain 0 of seed 1.
        own = int(np.random.SeedSequence((seed, number)).generate_state(1)[0])
        counter = Potential(surface)
        kernel = nuts(
            potential_fn=counter,
            full_mass=settings["dense_mass"],
            target_accept_prob=settings["target_acceptance"],
            max_tree_depth=settings["max_tree_depth"],
        )
        with seeded(own), torch.enable_grad():
            return _run_chain(
                kernel,
                counter,
                start.double(),
                settings["warmup"],
                count,
                lambda part: report((number + part) / settings["chains"]),
            )

    finished = [run(number) for number in range(settings["chains"])]
    positions = torch.stack([chain.positions for chain in finished])
    enough = positions.shape[1] >= 4
    smallest = _finite(effective_sample_size(positions).min()) if enough else None
    largest = _finite(split_r_hat(positions).max()) if enough else None
    thetas = positions.flatten(0, 1).to(surface.vector.dtype)
    reports = {name: [chain.report[name] for chain in finished] for name in finished[0].report}
    if any(reports["divergences"]):
        warnings.warn(
            f"hmc: {sum(reports['divergences'])} transitions diverged, so parts of the posterior "
            "may be missing; raise target_acceptance (0.95) or warmup",
            HmcWarning,
            stacklevel=4,
        )
    return Draws(
        parameters=thetas,
        method="hmc",
        surface=surface,
        map_parameters=start,
        evaluations=torch.cat([chain.evaluations for chain in finished]),
        seed=seed,
        settings={**settings, **reports, "effective_sample_size": smallest, "r_hat": largest},
        **measure(surface, thetas),
    )


class Potential:
    """L as pyro takes it: a function of named tensors with a graph; counts its gradients."""

    def __init__(self, surface: LossSurface) -> None:
        self.surface = surface
        self.calls = 0

    def __call__(self, tensors: dict[str, Tensor]) -> Tensor:
        self.calls += 1
        theta = tensors["theta"]
        rows = theta.detach().unsqueeze(0).to(self.surface.vector.dtype)
        value, gradient = self.surface.value_and_grad(rows)
        # The plane through L(θ) with its slope there: value and gradient are those of L.
        return value[0] + gradient[0].double() @ (theta - theta.detach())


def _run_chain(
    kernel: Any,
    counter: Potential,
    start: Vector,
    warmup: int,
    count: int,
    report: Callable[[float], None],
) -> Chain:
    kernel.initial_params = {"theta": start}
    kernel.setup(warmup)
    state = kernel.initial_params
    for step in range(warmup):
        state = kernel.sample(state)
        report((step + 1) / (warmup + count))
    positions, calls = [], [counter.calls]
    for step in range(count):
        state = kernel.sample(state)
        report((warmup + step + 1) / (warmup + count))
        positions.append(state["theta"].detach().clone())
        calls.append(counter.calls)
    found = {
        "divergences": len(kernel.diagnostics()["divergences"]),
        "acceptance": float(kernel.logging()["acc. prob"]),
        "step_size": float(kernel.step_size),
        "warmup_evaluations": calls[0],
    }
    return Chain(torch.stack(positions), torch.tensor(calls).diff(), found)


def _resolve(posterior: Any) -> tuple[LossSurface, Vector]:
    if isinstance(posterior, LossSurface):
        return posterior, posterior.initial
    if isinstance(posterior, Fitted) and isinstance(posterior.surface, LossSurface):
        return posterior.surface, posterior.map_parameters
    raise TypeError(
        f"posterior: expected a dims.LossSurface or what dims.fit returns, got "
        f"{type(posterior).__name__}"
    )


def _load_pyro() -> tuple[Callable[..., Any], Callable[..., Tensor], Callable[..., Tensor]]:
    try:
        from pyro.infer.mcmc import NUTS
        from pyro.ops.stats import effective_sample_size, split_gelman_rubin
    except ImportError as error:
        raise ImportError("hmc needs pyro: pip install 'dims[hmc]'") from error
    return NUTS, effective_sample_size, split_gelman_rubin


def _finite(number: Tensor) -> float | None:
    return float(number) if number.isfinite() else None
