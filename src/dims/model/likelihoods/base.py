"""`Likelihood`: the contract between a network's outputs and its targets.

A subclass in your own file needs a `name`, `negative_log` and `distribution`; the rest has
defaults. `check_likelihood` of tests/conformance tells whether they fit together.
"""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from dims.prediction.predictive import DistributionPredictive, Predictive
from dims.prediction.showing import ShownSettings, four_digits
from dims.prediction.targets import matching_targets

__all__ = ["Likelihood", "check_terms", "likelihood_class"]

Self = TypeVar("Self", bound="Likelihood")

_CLASSES: dict[str, type[Likelihood]] = {}


class Likelihood(ShownSettings, ABC):
    """p(y | f): how the outputs f of a network explain a target y.

    Outputs have the shape (..., N, C), with leading axes for many networks at once; targets are
    shared by all of them, in the shape and type that `check_targets` returns. A class that sets
    `name` is registered under it, so that `dims.load` finds it once its module is imported.

    Attributes:
        name: How the likelihood is called in files; required.
        task: "regression", "classification" or any other text. The adapter for laplace-torch
            compares it with the task of the given object; nothing else reads it.
        takes_positions: Whether outputs with more axes than (N, C) are laid flat, (N, P·C), for a
            likelihood of labels at many positions.
        noise_std: σ where −log p = r(f, y)/σ² + C·log σ + const, so that the evidence can tune it;
            None where there is no such noise.

    Example:
        >>> class WaitingTime(dims.Likelihood):
        ...     name = "waiting_time"
        ...     def negative_log(self, outputs, targets):
        ...         return (outputs + targets * (-outputs).exp()).sum(-1)
        ...     def distribution(self, outputs):
        ...         return torch.distributions.Exponential((-outputs).exp())
        >>> posterior = dims.fit(model, (x, minutes), WaitingTime())
    """

    task: ClassVar[str] = "other"
    takes_positions: ClassVar[bool] = False
    noise_std: float | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name = cls.__dict__.get("name")
        if not isinstance(name, str):  # abstract, or a variant without a name of its own
            return
        taken = _CLASSES.get(name)
        if taken is not None and taken.__qualname__ != cls.__qualname__:
            raise ValueError(
                f"name: {name!r} belongs to {taken.__module__}.{taken.__qualname__}; give "
                f"{cls.__qualname__} a name of its own"
            )
        _CLASSES[name] = cls

    @property
    @abstractmethod
    def name(self) -> str:
        """How the likelihood is called in files; a class attribute in subclasses."""

    @abstractmethod
    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """−log p(yᵢ|fᵢ) of each point, less terms that do not depend on f.

        Args:
            outputs: (..., N, C).
            targets: As `check_targets` returned them.

        Returns:
            One number per point, (..., N), differentiable twice in the outputs.
        """

    @abstractmethod
    def distribution(self, outputs: Tensor) -> Distribution:
        """p(y | f) as a torch distribution.

        Args:
            outputs: (..., N, C).

        Returns:
            A distribution of batch shape (..., N, C), or (..., N) where a point has one target;
            its `log_prob` takes targets as `check_targets` returned them. Quantiles come from its
            `cdf`, where it has one, else from samples.
        """

    def training_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """What `train_ensemble` lowers: `negative_log` unless overridden.

        A likelihood whose −log p is hard to train on gives a loss here that has the same targets.

        Args:
            outputs: (..., N, C).
            targets: As `check_targets` returned them.

        Returns:
            One number per point, (..., N).
        """
        return self.negative_log(outputs, targets)

    def constant(self, outputs_per_point: int) -> float:
        """The terms of −log p of one point that `negative_log` leaves out.

        Terms that depend on y alone may stay out of both: they shift the evidence by a number.

        Args:
            outputs_per_point: C.

        Returns:
            0 unless overridden.
        """
        return 0.0

    def output_hessian(self, outputs: Tensor) -> Tensor:
        """The weight Λ of the GGN, JᵀΛJ: the Fisher information of f, which does not depend on y.

        The default differentiates `negative_log` twice at the target y = E[y|f]. That is exactly
        the Fisher information for every exponential family with the sufficient statistic y,
        whatever the link (Gaussian, Poisson, Gamma and negative binomial of known shape, ...):
        −log p = A(η(f)) − η(f)ᵀy, and the term with η″ has the factor A′ − y = 0 there. For other
        families (Student-t, two outputs for mean and variance) give the Fisher information here.

        Args:
            outputs: (N, C).

        Returns:
            Symmetric and positive semidefinite matrices, (N, C, C).
        """
        mean = self.distribution(outputs.detach()).mean
        return second_derivative(lambda f: self.negative_log(f, mean), outputs)

    def curvature_weights(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """`output_hessian`, less what the targets leave out of the loss (missing labels).

        Args:
            outputs: (N, C).
            targets: As `check_targets` returned them.

        Returns:
            (N, C, C): `output_hessian(outputs)` unless overridden.
        """
        return self.output_hessian(outputs)

    def check_targets(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The targets in the shape and type that `negative_log` takes.

        Args:
            outputs: (N, C); only shape, type and device count.
            targets: As the user gave them.

        Returns:
            Unless overridden, finite targets (N, C) in the precision of the outputs.

        Raises:
            ValueError: The targets do not fit; the message says why.
        """
        return matching_targets(outputs, targets)

    def predictive(self, outputs: Tensor) -> Predictive:
        """What S draws predict.

        Args:
            outputs: Of each draw, (S, N, C). They may be overwritten to save memory.

        Returns:
            A `DistributionPredictive` with the moments and the density of `distribution`, unless
            overridden.
        """
        check = functools.partial(self.check_targets, outputs[0])
        return DistributionPredictive(self.distribution(outputs), check)

    def with_noise(self: Self, noise_std: float) -> Self:
        """The same likelihood with another noise.

        Args:
            noise_std: σ > 0.

        Returns:
            A copy with that σ.

        Raises:
            ValueError: The likelihood has no noise.
        """
        if self.noise_std is None:
            raise ValueError(f"noise_std: {self.name!r} has no noise to set; leave it out")
        return dataclasses.replace(self, noise_std=float(noise_std))  # type: ignore[type-var]

    def settings(self) -> dict[str, Any]:
        """The arguments that make an equal object, of types that JSON knows.

        Returns:
            The fields of a dataclass; {} for any other class.
        """
        return dataclasses.asdict(self) if dataclasses.is_dataclass(self) else {}

    def torch_loss(self) -> tuple[nn.Module, float] | None:
        """A torch loss with the curvature of this likelihood in f, for KFAC.

        Returns:
            `MSELoss`, `BCEWithLogitsLoss` or `CrossEntropyLoss` with reduction "sum", and the
            factor on its Hessian; None (the default): KFAC takes a root of `output_hessian`.
        """
        return None

    def __repr__(self) -> str:
        # Four digits: what was tuned has sixteen, and is printed in every summary.
        inside = ", ".join(f"{name}={four_digits(v)}" for name, v in self.settings().items())
        return f"{type(self).__name__}({inside})"


def second_derivative(function: Callable[[Tensor], Tensor], outputs: Tensor) -> Tensor:
    """∂²/∂f² of a sum over points, by automatic differentiation: outputs (N, C), (N, C, C)."""
    with torch.enable_grad():
        leaf = outputs.detach().clone().requires_grad_()
        (slope,) = torch.autograd.grad(function(leaf).sum(), leaf, create_graph=True)
        if not slope.requires_grad:  # linear in f
            return outputs.new_zeros(*outputs.shape, outputs.shape[-1])
        columns = [
            torch.autograd.grad(part, leaf, retain_graph=True, materialize_grads=True)[0]
            for part in slope.sum(dim=0)
        ]
    return torch.stack(columns, dim=-1)


def check_terms(likelihood: Likelihood, outputs: Tensor, targets: Tensor) -> None:
    """Refuse a `negative_log` that does not give one number per point, (..., N).

    Args:
        likelihood: The likelihood.
        outputs: Of a few points, (N, C).
        targets: Of these points, as `check_targets` returned them.

    Raises:
        ValueError: Its result has another shape, with a batch of networks or without.
    """
    for given in (outputs, outputs.expand(2, *outputs.shape)):
        found, expected = likelihood.negative_log(given, targets), given.shape[:-1]
        if found.shape != expected:
            raise ValueError(
                f"likelihood: negative_log of {type(likelihood).__name__} must return one number "
                f"per point, shape {tuple(expected)} for outputs {tuple(given.shape)}, got "
                f"{tuple(found.shape)}; sum over the outputs of a point with .sum(-1)"
            )


def likelihood_class(name: str) -> type[Likelihood] | None:
    """The class registered under a name, or None."""
    return _CLASSES.get(name)
