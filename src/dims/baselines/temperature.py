"""Temperature scaling: one number, fitted on held-out rows, that makes predictions calibrated.

    classification:  p(y|x) = softmax(f(x)/T)        regression:  y ~ N(f(x), (T·σ)²)

T minimises the held-out −log p. For one network that is a convex problem in 1/T, or has the closed
form T·σ = √(mean residual²). For several draws it is −log of the mean density of the draws.

Reference: C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural
networks", ICML 2017.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from dims.baselines.calibrate import HIGHEST, LOWEST, best_noise_factor, best_temperature
from dims.baselines.held_out import collect_unseen, member_nll, mixture_nll
from dims.baselines.hmc import Fitted
from dims.errors import TemperatureWarning
from dims.model.likelihoods import HeteroscedasticGaussian, Likelihood, likelihood_class
from dims.model.network import BatchedNetwork
from dims.model.shapes import check_positive
from dims.model.training_data import Inputs
from dims.prediction.predictive import Predictive
from dims.sampling.draws import Draws
from dims.sampling.draws.fields import SAVED_TENSORS
from dims.sampling.draws.measure import measure
from dims.surface.loss import LossSurface

__all__ = ["Tempered", "temperature_scaling"]


class Tempered(Likelihood):
    """Another likelihood at outputs divided by a temperature, p(y | f/T).

    Args:
        likelihood: A likelihood object, or its name and settings as a file has them.
        temperature: T > 0.
    """

    name = "tempered"
    task = "classification"

    def __init__(self, likelihood: Likelihood | Mapping[str, Any], temperature: float) -> None:
        if isinstance(likelihood, Mapping):
            kind = likelihood_class(str(likelihood.get("name")))
            if kind is None:
                raise ValueError(f"likelihood: {likelihood.get('name')!r} is unknown; import it")
            likelihood = kind(**{key: v for key, v in likelihood.items() if key != "name"})
        self.likelihood = likelihood
        self.temperature = check_positive("temperature", temperature)
        self.takes_positions = likelihood.takes_positions  # type: ignore[misc]

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.likelihood.negative_log(outputs / self.temperature, targets)

    def distribution(self, outputs: Tensor) -> Distribution:
        return self.likelihood.distribution(outputs / self.temperature)

    def constant(self, outputs_per_point: int) -> float:
        return self.likelihood.constant(outputs_per_point)

    def output_hessian(self, outputs: Tensor) -> Tensor:
        inner = self.likelihood.output_hessian(outputs / self.temperature)
        return inner / self.temperature**2

    def curvature_weights(self, outputs: Tensor, targets: Tensor) -> Tensor:
        inner = self.likelihood.curvature_weights(outputs / self.temperature, targets)
        return inner / self.temperature**2

    def check_targets(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.likelihood.check_targets(outputs, targets)

    def predictive(self, outputs: Tensor) -> Predictive:
        return self.likelihood.predictive(outputs / self.temperature)

    def settings(self) -> dict[str, Any]:
        inner = {"name": self.likelihood.name, **self.likelihood.settings()}
        return {"likelihood": inner, "temperature": self.temperature}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tempered) and self.settings() == other.settings()

    def __hash__(self) -> int:
        return hash((self.likelihood, self.temperature))


def temperature_scaling(draws: Any, validation: Any) -> Draws:
    """Fit a temperature on held-out rows: the same draws, with calibrated predictions.

    It divides the outputs of a classifier and multiplies the noise of a regressor. One temperature
    serves all draws.

    Args:
        draws: Draws of any method; or a posterior or loss surface, for its trained network alone.
        validation: Rows (x, y) that the network was not trained on, a Dataset or a DataLoader.

    Returns:
        The draws with the fitted likelihood, and `settings["temperature"]`. Loss and gradient norm
        are those of this likelihood; saved times, and weights of them, are left out.

    Raises:
        TypeError: `draws` is something else.
        ValueError: The held-out rows do not fit the network, or the likelihood has neither classes
            nor a noise.

    Example:
        >>> calibrated = dims.temperature_scaling(posterior, (x_held_out, y_held_out))
        >>> calibrated.settings["temperature"], calibrated.predict(x).metrics(y)
    """
    draws = _resolve(draws)
    network = draws.surface
    rows = collect_unseen(validation, network)
    outputs = _outputs(draws, rows.inputs)
    targets = network.likelihood.check_targets(outputs[0], rows.targets)
    likelihood = network.likelihood
    if isinstance(likelihood, Tempered):  # the temperature is that of the network's own outputs
        likelihood = likelihood.likelihood
    if likelihood.noise_std is not None:
        temperature = best_noise_factor(likelihood, outputs, targets)
        fitted: Likelihood = likelihood.with_noise(temperature * likelihood.noise_std)
    elif isinstance(likelihood, HeteroscedasticGaussian):
        temperature = _fit_noises(likelihood, outputs, targets)
        factor = temperature * likelihood.noise_factor
        fitted = HeteroscedasticGaussian(likelihood.min_noise_std, factor)
    elif likelihood.task == "classification":
        temperature = _fit_classes(likelihood, outputs, targets)
        fitted = Tempered(likelihood, temperature)
    else:
        raise ValueError(
            f"draws: their likelihood {likelihood.name!r} has neither classes nor one noise, so "
            "there is no temperature to fit"
        )
    return _with_likelihood(draws, fitted, temperature)


def _resolve(draws: Any) -> Draws:
    """Draws as they are; the trained network of a posterior or surface as one draw."""
    if isinstance(draws, Draws):
        return draws
    if isinstance(draws, LossSurface):
        surface, theta = draws, draws.initial
    elif isinstance(draws, Fitted) and isinstance(draws.surface, LossSurface):
        surface, theta = draws.surface, draws.map_parameters
    else:
        raise TypeError(
            f"draws: expected draws, what dims.fit returns or a dims.LossSurface, got "
            f"{type(draws).__name__}"
        )
    return Draws.from_parameters(surface, theta.unsqueeze(0), "temperature_scaling", theta)


def _outputs(draws: Draws, inputs: Inputs) -> Tensor:
    """f of each draw and held-out point, (S, N, C), in float64."""
    if len(draws) == 0:
        raise ValueError("draws: there are none; select or sample at least one")
    network, thetas = draws.surface, draws.parameters.to(draws.surface.vector.device)
    if draws.linearised:
        centre = draws.map_parameters.to(thetas.device)
        outputs = network.predict_linearised(centre, thetas, inputs)
    else:
        outputs = network.predict(thetas, inputs)
    if not outputs.isfinite().all():
        raise ValueError("draws: some outputs on the held-out rows are NaN or infinite")
    return outputs.double()


def _fit_classes(likelihood: Likelihood, outputs: Tensor, targets: Tensor) -> float:
    """T of the classes; 1 where every smaller T is better, because then no T is the best."""

    def loss(temperature: Tensor) -> Tensor:
        return mixture_nll(member_nll(likelihood, outputs / temperature, targets)).mean()

    temperature = best_temperature(loss, outputs.device)
    if temperature == LOWEST:
        warnings.warn(
            "temperature_scaling: on the held-out rows every smaller temperature is better (all "
            "are classified right), so that none is the best; T = 1 is kept. Give more rows",
            TemperatureWarning,
            stacklevel=3,
        )
        return 1.0
    if temperature == HIGHEST:
        warnings.warn(
            "temperature_scaling: on the held-out rows equal probabilities of all classes are "
            f"better than the draws; T = {HIGHEST:g} predicts nearly that",
            TemperatureWarning,
            stacklevel=3,
        )
    return temperature


def _fit_noises(likelihood: HeteroscedasticGaussian, outputs: Tensor, targets: Tensor) -> float:
    """T of noises that depend on the row."""
    means, stds = likelihood.moments(outputs)
    squares = ((targets.double() - means) / stds).square()

    def loss(temperature: Tensor) -> Tensor:
        nll = (0.5 * squares / temperature.square() + (temperature * stds).log()).sum(-1)
        return mixture_nll(nll).mean()

    return best_temperature(loss, outputs.device)


def _with_likelihood(draws: Draws, likelihood: Likelihood, temperature: float) -> Draws:
    """The draws on the same network with another likelihood."""
    surface: BatchedNetwork = copy.copy(draws.surface)
    surface.likelihood = likelihood
    changed: dict[str, Any] = dict.fromkeys(("times", *SAVED_TENSORS), draws.loss.new_empty(0))
    if isinstance(surface, LossSurface):
        changed |= measure(surface, draws.parameters.to(surface.vector.device))
    else:
        unknown = torch.full_like(draws.loss, torch.nan)
        changed |= {"loss": unknown, "gradient_norm": unknown}
    settings = {**draws.settings, "temperature": temperature}
    return replace(draws, surface=surface, settings=settings, mixture=None, **changed)
