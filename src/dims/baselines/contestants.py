"""The methods that `dims.compare` runs, each with the same rows to choose by."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from dims.baselines.ensemble import residual_std
from dims.baselines.last_layer import last_layer
from dims.baselines.mc_dropout import mc_dropout
from dims.baselines.swag import swag
from dims.baselines.temperature import temperature_scaling
from dims.baselines.training import train_ensemble
from dims.model.likelihoods import Likelihood, leaves_noise_open, with_noise_per_output
from dims.model.shapes import RowVectors
from dims.model.training_data import TrainingData
from dims.sampling.draws import Draws
from dims.sampling.fit import fit
from dims.sampling.posterior import Posterior
from dims.sampling.samplers import Sampler
from dims.surface.loss import LossSurface

__all__ = ["BY_EVIDENCE", "CONTESTANTS", "Contest"]

SWAG_RATES = (1e-4, 1e-3, 1e-2)
# An open noise of theirs is that of most evidence; others take it from the held-out rows.
BY_EVIDENCE = ("last_layer", "linla", "rla", "dims")


@dataclass(frozen=True, eq=False)
class Contest:
    """A trained network, its data and the rows that methods may choose by."""

    model: nn.Module
    data: Any
    likelihood: str | Likelihood
    validation: TrainingData
    surface: LossSurface
    draws: int
    sampler: str | Sampler
    curvature: str
    members: int
    seed: int

    def network(self) -> Draws:
        """The trained network alone; an open noise is that of its residuals on held-out rows."""
        surface, theta = self.surface, self.surface.initial.unsqueeze(0)
        if self.open_noise:
            surface = surface.with_settings(likelihood=self._noisy(theta))
        return Draws.from_parameters(surface, theta, "network")

    def temperature(self) -> Draws:
        """With an open noise, the network has the temperature that held-out rows choose already."""
        alone = self.network()
        return alone if self.open_noise else temperature_scaling(alone, self.validation)

    def mc_dropout(self) -> Draws:
        masks = self._masks(self.likelihood)
        return self._masks(self._noisy(masks.parameters)) if self.open_noise else masks

    def last_layer(self) -> Draws:
        return last_layer(self.model, self.data, self.likelihood, self.draws, seed=self.seed)

    def linla(self) -> Draws:
        chosen = self._posterior()
        return chosen.sample(self.draws, "linla", seed=self.seed, progress=False)

    def rla(self) -> Draws:
        chosen = self._posterior()
        return chosen.sample(self.draws, "rla", seed=self.seed, progress=False)

    def swag(self) -> Draws:
        likelihood = self.network().surface.likelihood
        options: dict[str, Any] = {"learning_rate": SWAG_RATES, "validation": self.validation}
        options |= {"seed": self.seed, "progress": False}
        return swag(self.model, self.data, likelihood, self.draws, **options)

    def deep_ensemble(self) -> Draws:
        """From new first weights; a module in training mode draws them by `reset_parameters`."""
        fresh = copy.deepcopy(self.model)
        options: dict[str, Any] = {"validation": self.validation, "seed": self.seed}
        made = train_ensemble(
            fresh, self.data, self.likelihood, self.members, progress=False, **options
        )
        if not self.open_noise or self.surface.outputs == 1:
            return made
        noisy = self._noisy(made.parameters)  # for each output its own, as all methods have
        assert isinstance(made.surface, LossSurface)
        return replace(made, surface=made.surface.with_settings(likelihood=noisy))

    def dims(self) -> Draws:
        """Prior and noise at a minimum; weights of the network and of times by held-out rows."""
        chosen = replace(self._posterior(), validation=self.validation)
        return chosen.sample(self.draws, self.sampler, seed=self.seed, progress=False)

    @property
    def open_noise(self) -> bool:
        """Whether methods choose the noise of a regression themselves."""
        return leaves_noise_open(self.likelihood, None)

    def _noisy(self, thetas: RowVectors) -> Likelihood:
        """A Gaussian with the noise of the residuals on the held-out rows, for each output its own.

        Networks are nearer to rows that they have learned than to others.
        """
        held = self.surface.with_settings()
        held.data = self.validation
        if held.outputs == 1:
            return held.likelihood.with_noise(residual_std(held, thetas))
        outputs = held.predict(thetas, held.data.inputs)
        targets = held.data.targets.expand(outputs.shape)
        return with_noise_per_output(held.likelihood, outputs.flatten(0, 1), targets.flatten(0, 1))

    def _masks(self, likelihood: str | Likelihood) -> Draws:
        return mc_dropout(self.model, self.data, likelihood, self.draws, seed=self.seed)

    def _posterior(self) -> Posterior:
        """All methods that start from a Laplace approximation get prior and noise alike."""
        # `compare` shows one bar, and some versions of rich refuse a second beside it.
        return fit(self.model, self.data, self.likelihood, curvature=self.curvature, progress=False)


CONTESTANTS: dict[str, Callable[[Contest], Draws]] = {
    "network": Contest.network,
    "temperature": Contest.temperature,
    "mc_dropout": Contest.mc_dropout,
    "last_layer": Contest.last_layer,
    "linla": Contest.linla,
    "swag": Contest.swag,
    "deep_ensemble": Contest.deep_ensemble,
    "rla": Contest.rla,
    "dims": Contest.dims,
}
