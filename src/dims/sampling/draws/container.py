"""`Draws`: S parameter vectors, how each came about, and the network they belong to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from dims.mechanics.status import Status
from dims.model.network import BatchedNetwork
from dims.model.shapes import RowIntegers, RowScalars, RowVectors, Vector
from dims.model.training_data import Inputs
from dims.prediction.predictive import Predictive
from dims.prediction.showing import shown_text
from dims.sampling.draws.fields import (
    LINEARISED_METHODS,
    ROW_LISTS,
    ROW_TENSORS,
    check_parameters,
    checked_fields,
    row_indices,
    selected_weights,
)
from dims.sampling.draws.measure import measure as measured
from dims.sampling.draws.mixture import Mixture
from dims.sampling.draws.modules import AsModules
from dims.sampling.draws.predict import predict
from dims.sampling.draws.summary import summarise
from dims.sampling.draws.times import SavedTimes
from dims.surface.loss import LossSurface

__all__ = ["Draws"]


def _left_out() -> Tensor:
    return torch.empty(0, dtype=torch.float64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Draws(AsModules, SavedTimes):
    """S draws of θ around the trained θ* of one network: what every sampler returns.

    What is left out is not known: NaN, no status, no evaluations, no saved times. Loss, gradient
    norm, smallest eigenvalue and displacement belong to the delivered draw; energies, arc length
    and evaluations to its trajectory.

    Attributes:
        parameters: The draws, (S, K).
        method: The name of the sampler.
        surface: A `LossSurface`, or the network alone after loading without data.
        map_parameters: θ*, (K,).
        status: How each trajectory ended; None where there was none.
        loss: Loss of each draw, (S,), as all numbers below.
        gradient_norm: Norm of the gradient of the loss.
        smallest_eigenvalue: Smallest eigenvalue of the Hessian of the loss.
        displacement: How far settling moved the draw.
        kinetic_energy: Kinetic energy at the end of the trajectory.
        energy_violation: Largest relative violation of the energy law.
        energy_balance: Energy lost, less what friction took.
        arc_length: Length of the trajectory on the graph of the loss.
        metric_length: Its length in the metric of the motion; the same in the euclidean one.
        evaluations: Gradients and Hessian-vector products that the trajectory took.
        gradient_equivalents: Those, and the time of a moving metric in units of one gradient of one
            row, timed in the same batch; NaN in the files of a store, which do not depend on time.
        verdict: Names of `dims.certify`'s verdicts; None if draws were not certified.
        seed: The seed of the perturbations.
        settings: The settings of the sampler, in JSON's types.
        times: Saved times, (T,); see `at`.
        saved: Positions at those times, as the particle passed, not settled, (S, T, K).
        saved_loss: Loss there, (S, T).
        saved_gradient_norm: Norm of the gradient there, (S, T).
        saved_kinetic_energy: Kinetic energy at that time, (S, T).
        weights: What each draw counts in predictions, (S,), with the sum 1; None: all alike.
        mixture: What the trained network and the saved times count in predictions, as `stacked` or
            `across_times` set it; None: the delivered draws predict alone.

    Example:
        >>> draws = posterior.sample(30)
        >>> draws.predict(x).metrics(y)
    """

    parameters: RowVectors
    method: str
    surface: BatchedNetwork
    map_parameters: Vector
    status: Sequence[Status | None] = ()
    loss: RowScalars = field(default_factory=_left_out)
    gradient_norm: RowScalars = field(default_factory=_left_out)
    smallest_eigenvalue: RowScalars = field(default_factory=_left_out)
    displacement: RowScalars = field(default_factory=_left_out)
    kinetic_energy: RowScalars = field(default_factory=_left_out)
    energy_violation: RowScalars = field(default_factory=_left_out)
    energy_balance: RowScalars = field(default_factory=_left_out)
    arc_length: RowScalars = field(default_factory=_left_out)
    metric_length: RowScalars = field(default_factory=_left_out)
    evaluations: RowIntegers = field(default_factory=_left_out)
    gradient_equivalents: RowScalars = field(default_factory=_left_out)
    verdict: Sequence[str] | None = None
    seed: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    times: Tensor = field(default_factory=_left_out)
    saved: Tensor = field(default_factory=_left_out)
    saved_loss: Tensor = field(default_factory=_left_out)
    saved_gradient_norm: Tensor = field(default_factory=_left_out)
    saved_kinetic_energy: Tensor = field(default_factory=_left_out)
    weights: Tensor | None = None
    mixture: Mixture | None = None

    def __post_init__(self) -> None:
        for name, value in checked_fields(self).items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_parameters(
        cls,
        surface: BatchedNetwork,
        parameters: RowVectors,
        method: str = "given",
        map_parameters: Vector | None = None,
        measure: bool = True,
    ) -> Draws:
        """Make draws of any parameter vectors, so that they predict like those of a sampler.

        Args:
            surface: The surface that they are points of, such as `posterior.surface`.
            parameters: The vectors, (S, K).
            method: A name for what made them.
            map_parameters: The trained θ*, (K,); None takes the parameters of the module.
            measure: Compute loss and gradient norm of each.

        Returns:
            S draws.

        Raises:
            TypeError: The vectors have another precision than the network, or the surface has no
                training data to measure on.
            ValueError: The vectors have another shape.

        Example:
            >>> draws = dims.Draws.from_parameters(posterior.surface, thetas)
            >>> draws.predict(x).metrics(y)
        """
        check_parameters("parameters", parameters, 2, surface.vector)
        if measure and not isinstance(surface, LossSurface):
            raise TypeError("surface: it has no training data to measure on; give measure=False")
        return cls(
            parameters=parameters,
            method=method,
            surface=surface,
            map_parameters=surface.initial if map_parameters is None else map_parameters,
            **(measured(surface, parameters) if measure else {}),  # type: ignore[arg-type]
        )

    def __len__(self) -> int:
        return len(self.parameters)

    def __repr__(self) -> str:
        return f"Draws({len(self)} by {self.method!r}, {self.parameters.shape[1]} parameters)"

    def _repr_html_(self) -> str:
        return shown_text(self.summary())

    @property
    def linearised(self) -> bool:
        """Whether the draws are read by the network linearised at θ*."""
        return self.method in LINEARISED_METHODS

    def select(self, rows: Any) -> Draws:
        """Choose draws.

        Args:
            rows: A boolean mask (S,), a list of indices or a slice.

        Returns:
            The chosen draws in that order, with all that is known of them. Their weights are
            divided by their sum; where it is 0 they count alike.

        Raises:
            ValueError: A mask has another length.
            IndexError: An index is out of range.
            TypeError: `rows` is something else.

        Example:
            >>> low = draws.select(draws.loss < draws.loss.median())
        """
        index = row_indices(rows, len(self))
        chosen: dict[str, Any] = {
            name: getattr(self, name)[index.to(self.parameters.device)] for name in ROW_TENSORS
        }
        for name in ROW_LISTS:
            value = getattr(self, name)
            chosen[name] = None if value is None else [value[i] for i in index.tolist()]
        if self.mixture is not None:
            chosen["mixture"] = self.mixture.select(index)
        return replace(self, weights=selected_weights(self.weights, index), **chosen)

    def predict(
        self,
        inputs: Inputs,
        *,
        batch_size: int | None = None,
        weights: Tensor | str | None = None,
    ) -> Predictive:
        """The predictive distribution at new inputs.

        Activations stay within the memory budget of the surface. What is kept are the outputs of
        all draws, S·N·C numbers.

        Args:
            inputs: New inputs, given like the training inputs.
            batch_size: Inputs that are moved to the model's device, and computed on, at once; None:
                all are moved, and computed on in parts that fit the memory budget.
            weights: Of the delivered draws, (S,); "equal": they all count alike; None: `mixture`
                if there is one, else `self.weights`.

        Returns:
            Samples, mean and uncertainty at each input.

        Raises:
            ValueError: There are no draws, outputs are NaN or infinite, or an argument is wrong.

        Example:
            >>> draws.predict(x).mean
            >>> draws.predict(many, batch_size=1000).interval(0.95)
        """
        return predict(self, inputs, batch_size, weights)

    def summary(self) -> str:
        """A report in plain text: how the draws ended, where they are, and what to do.

        Returns:
            Some lines to print.

        Example:
            >>> print(draws.summary())
        """
        return summarise(self)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a safetensors file, whole or not at all; `dims.load` reads it.

        Args:
            path: The file to write.
            overwrite: Whether to replace an existing file.

        Raises:
            FileExistsError: The file exists and `overwrite` is False.
            FileNotFoundError: Its folder does not exist.
            OSError: It could not be written.

        Example:
            >>> draws.save("run.safetensors")
        """
        from dims.sampling.draws.file import save  # it builds Draws, so it comes after them

        save(self, path, overwrite=overwrite)

    def to_datatree(self) -> Any:
        """The draws as an ArviZ DataTree: one chain, `posterior` and `sample_stats`.

        Returns:
            An `xarray.DataTree`; parameters have names such as "0.weight[3, 2]" (numbers, if there
            are more than a million), and saved times are a dimension `time`.

        Raises:
            ImportError: arviz-base is not installed.

        Example:
            >>> draws.to_datatree()["posterior/parameters"]
        """
        from dims.sampling.draws.datatree import to_datatree  # arviz-base is an extra

        return to_datatree(self)
