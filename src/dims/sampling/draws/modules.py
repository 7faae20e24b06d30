"""Draws as modules: one draw in the user's own class, or all of them in a module to export."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.func import functional_call

from dims.model.training_data import point_outputs
from dims.prediction.predictive import ClassificationPredictive
from dims.prediction.weights import average
from dims.sampling.draws.mixture import members, widened_weight

if TYPE_CHECKING:
    from dims.sampling.draws.container import Draws

__all__ = ["AsModules", "EnsembleModule"]


class AsModules:
    """What draws are as modules; `Draws` inherits it."""

    def to_module(self: Draws, index: int) -> nn.Module:  # type: ignore[misc]
        """A draw as a module of your own class, with its weights; the frozen parts are the model's.

        Args:
            index: The number of the draw.

        Returns:
            A copy of the model that was given to `fit`.

        Raises:
            IndexError: There is no such draw.
            TypeError: The draws are read by a linearised network (LinLA).

        Example:
            >>> torch.save(draws.to_module(0).state_dict(), "first.pt")
        """
        _refuse_linearised(self)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index: {index} is out of range for {len(self)} draws")
        module = copy.deepcopy(self.surface.given)
        with torch.no_grad():
            for name, value in self.surface.vector.unflatten(self.parameters[index]).items():
                module.get_parameter(name).copy_(value)
        return module

    def modules(self: Draws) -> Iterator[nn.Module]:  # type: ignore[misc]
        """The draws as modules, one after another, made as they are asked for.

        Returns:
            An iterator over `to_module(0)`, `to_module(1)`, …

        Example:
            >>> outputs = [module(x) for module in draws.modules()]
        """
        return (self.to_module(index) for index in range(len(self)))

    def to_ensemble(self: Draws) -> EnsembleModule:  # type: ignore[misc]
        """All draws as one module that returns mean and variance, for `torch.export`.

        Returns:
            A module that is called like the model and returns `predict(x).mean` and `.variance`;
            a `mixture` has the network and the draws at saved times in it too.

        Raises:
            TypeError: The draws are read by a linearised network (LinLA).
            ValueError: There are no draws.

        Example:
            >>> mean, variance = draws.to_ensemble()(x)
        """
        return EnsembleModule(self)


class EnsembleModule(nn.Module):
    """All draws as one module, which returns the mean and variance of the target.

    It holds the frozen parts of the network once and the sampled ones for each draw. Called like
    the network, it returns what `draws.predict(x)` has as `mean` and `variance`, (N, C) each, in
    plain torch operations, so that `torch.export` and `torch.save` take it.

    Args:
        draws: Draws of any method but LinLA.

    Raises:
        TypeError: The draws are those of a linearised network.
        ValueError: There are none.

    Example:
        >>> ensemble = draws.to_ensemble()
        >>> mean, variance = ensemble(x)
        >>> torch.export.export(ensemble, (x,))
    """

    weights: Tensor | None
    thetas: Tensor

    def __init__(self, draws: Draws) -> None:
        super().__init__()
        _refuse_linearised(draws)
        if len(draws) == 0:
            raise ValueError("draws: there are none; select or sample at least one")
        self.network = copy.deepcopy(draws.surface.module)
        thetas, weights = draws.parameters, draws.weights
        if draws.mixture is not None:  # the network and the saved times predict too
            groups = list(members(draws))
            if not groups or widened_weight(draws) > 0:
                warnings.warn(
                    "draws: widened ones are linearised networks, which a module has not; the "
                    "others count for them, so it predicts less uncertainty than draws.predict",
                    UserWarning,
                    stacklevel=3,
                )
            thetas = torch.cat([group.thetas for group in groups]) if groups else thetas
            weights = torch.cat([group.weights for group in groups]) if groups else None
            weights = None if weights is None else weights / weights.sum()
        self.register_buffer("thetas", thetas.clone())
        self.register_buffer("weights", None if weights is None else weights.clone())
        self._vector = draws.surface.vector
        self._likelihood = draws.surface.likelihood  # not the surface, which has the data

    def forward(self, *arguments: Any, **keywords: Any) -> tuple[Tensor, Tensor]:
        """Mean and variance of the target at the given inputs, (N, C) each."""
        outputs = [
            point_outputs(
                functional_call(self.network, self._vector.unflatten(theta), arguments, keywords),
                self._likelihood.takes_positions,
            )
            for theta in self.thetas
        ]
        with _without_checks():
            predictive = self._likelihood.predictive(torch.stack(outputs))
            # They were checked when the draws were made.
            object.__setattr__(predictive, "weights", self.weights)
            if isinstance(predictive, ClassificationPredictive):  # of a one-hot vector
                mean = average(predictive.samples, self.weights)
                return mean, mean * (1 - mean)
            return predictive.mean, predictive.variance


@contextmanager
def _without_checks() -> Iterator[None]:
    """No checks of values by torch's distributions while a graph is made, which has none."""
    if not torch.compiler.is_compiling():
        yield
        return
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


def _refuse_linearised(draws: Draws) -> None:
    if draws.linearised:
        raise TypeError(
            f"draws: those of {draws.method!r} are read by the network linearised at θ*, which is "
            "not a module of yours; use draws.predict, or another method"
        )
