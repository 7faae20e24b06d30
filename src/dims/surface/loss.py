"""The loss of a network on its training data, as a surface over its flat parameters."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from dims.model.augmentation import passes_of
from dims.model.checks_outputs import check_function, first_outputs
from dims.model.likelihoods import Likelihood, check_terms, resolve_likelihood
from dims.model.network import BatchedNetwork
from dims.model.parameters import Selection
from dims.model.shapes import RowScalars, RowVectors, check_positive, check_prior, check_vectors
from dims.model.torch_support.activations import with_cheap_gelu
from dims.model.torch_support.compiling import compile_first
from dims.model.torch_support.memory import Chunks, measure_bytes_per_point
from dims.model.torch_support.tf32 import warn_of_tf32
from dims.model.training_data import Inputs, collect, describe_inputs
from dims.prediction.showing import Shown
from dims.surface.base import BaseSurface, grad_and_hvp_of
from dims.surface.features import cache_features
from dims.surface.single_rows import SingleRows, channels_last, even_size

__all__ = ["LossSurface"]

PRODUCT_COST = 3  # memory of a Hessian-vector product in units of a gradient's


class LossSurface(Shown, BatchedNetwork, BaseSurface):
    """The loss of a network on its training data, as a surface over its flat parameters.

        L(θ) = c·( (n/N)·Σᵢ −log p(yᵢ|f_θ(xᵢ)) + ½ Σₖ δₖ θₖ² )

    It is a sum over the N data points, not a mean. The given model is copied and never modified.

    Args:
        model: The network, trained; its outputs have shape (points, outputs).
        data: (inputs, targets), a Dataset or a DataLoader.
        likelihood: "regression", "classification" or a `Likelihood` object.
        prior_precision: δ, a number or a vector (K,).
        effective_points: n, tempers the likelihood alone; None means N.
        loss_scale: c, scales likelihood and prior together.
        parameters: Which parameters θ holds: names, prefixes ("head"), patterns ("layers.*.bias")
            or a function of the name; None means all that require gradients. What they do not
            enter is computed once, where torch can trace the forward pass.
        memory_budget: Bytes of activations that are alive at once, or None for a part of what is
            free: points and rows are processed in chunks.

    Raises:
        TypeError: An argument is of the wrong kind.
        ValueError: An argument is out of range, or the model does not suit the data: wrong shapes,
            outputs that are not finite, or outputs that change from call to call (dropout).

    Example:
        >>> surface = dims.LossSurface(model, (x, y), dims.Gaussian(0.1), prior_precision=1.0)
        >>> path = dims.integrate(surface, surface.initial, torch.randn(8, surface.size))
    """

    def __init__(
        self,
        model: nn.Module,
        data: Any,
        likelihood: str | Likelihood,
        prior_precision: float | Tensor = 1.0,
        *,
        effective_points: float | None = None,
        loss_scale: float = 1.0,
        parameters: Selection = None,
        memory_budget: int | None = None,
    ) -> None:
        super().__init__(model, parameters, memory_budget)
        warn_of_tf32(self.module, self.vector.device, self.vector.dtype)
        self.data = collect(data, self.vector.device, self.vector.dtype)
        self.points = len(self.data.targets)
        self._takes_positions = getattr(likelihood, "takes_positions", False)
        outputs = first_outputs(self, self.data.inputs, self.points)
        self.outputs = outputs.shape[-1]
        self.input_shapes = describe_inputs(self.data.inputs)
        self.likelihood = resolve_likelihood(likelihood, self.outputs)
        like_all = outputs.new_empty(self.points, self.outputs)
        targets = self.likelihood.check_targets(like_all, self.data.targets)
        self.data = self.data._replace(targets=targets)
        check_terms(self.likelihood, outputs, targets[: len(outputs)])
        check_function(model, self, self.data)
        self.prior_precision = check_prior(prior_precision, self.size, self.vector.initial)
        tempered = self.points / passes_of(data) if effective_points is None else effective_points
        self.effective_points = check_positive("effective_points", tempered)
        self.loss_scale = check_positive("loss_scale", loss_scale)
        # The training data as the motion sees it, and the network from there to the outputs.
        names, budget = self.vector.names, self.memory_budget
        self.work, self.head = cache_features(self.module, names, self.data, budget)
        self._module_for_gradients = with_cheap_gelu(self.head)
        if self.one_by_one:
            self._take_rows_apart("float32", compiled=False)
        needed = self._measure_bytes_per_point()
        self._chunks = Chunks.on(self.vector.device, self.memory_budget, needed)
        if not self.value(self.vector.initial.unsqueeze(0)).isfinite().all():
            raise ValueError(
                "model: the loss on the training data is NaN or infinite; look for outputs that "
                "overflow and for points far outside the others"
            )

    def _facts(self) -> dict[str, Any]:
        prior = self.prior_precision
        one = prior.ndim == 0
        return {
            "parameters": self.size,
            "points": self.points,
            "likelihood": self.likelihood,
            "prior_precision": float(prior) if one else f"a vector, mean {float(prior.mean()):.4g}",
        }

    @property
    def likelihood_scale(self) -> float:
        """The factor on the summed −log p: c·n/N."""
        return self.loss_scale * self.effective_points / self.points

    @property
    def bytes_per_point(self) -> int:
        """Memory of one more data point in one gradient, measured."""
        return self._chunks.bytes_per_point

    def with_settings(
        self, *, likelihood: Likelihood | None = None, prior_precision: float | Tensor | None = None
    ) -> LossSurface:
        """The same network and data under another likelihood or prior; nothing is copied.

        Args:
            likelihood: The new likelihood; None keeps the old one.
            prior_precision: The new δ; None keeps the old one.

        Returns:
            A surface that shares the network and the data with this one.
        """
        other = copy.copy(self)
        if likelihood is not None:
            other.likelihood = likelihood
            other.renew_gradient()
        if prior_precision is not None:
            other.prior_precision = check_prior(prior_precision, self.size, self.vector.initial)
        return other

    def renew_gradient(self) -> None:
        """One that is compiled, or of single rows, has the likelihood of another surface inside."""
        self.__dict__.pop("_data_gradient", None)
        self.compiled = False
        if self.one_by_one:
            self._take_rows_apart(*self._apart)

    def value(self, thetas: RowVectors) -> RowScalars:
        self._check_thetas(thetas)
        values = self._prior(thetas)
        with torch.no_grad():
            for rows, _, inputs, targets in self._pieces(thetas):
                values[rows] += self._data_term(thetas[rows], inputs, targets)
        return values

    def outputs_on_data(self, thetas: RowVectors) -> Tensor:
        """f_θ(x) of each row on all training points, (S, N, C), for rows θ (S, K)."""
        self._check_thetas(thetas)
        found = thetas.new_empty(len(thetas), self.points, self.outputs)
        with torch.no_grad():
            for rows, part, inputs, _ in self._pieces(thetas):
                found[rows, part] = self.forward(thetas[rows], inputs, self.head)
        return found

    def value_and_grad(self, thetas: RowVectors) -> tuple[RowScalars, RowVectors]:
        self._check_thetas(thetas)
        thetas = thetas.detach()
        values, gradients = self._prior(thetas), self._prior_gradient(thetas)
        if torch.compiler.is_compiling():
            terms, slopes = self._traceable_gradient(thetas, *self.work)
            return values + terms, gradients + slopes
        for rows, _, inputs, targets in self._pieces(thetas):
            terms, slopes = self._data_gradient(thetas[rows], inputs, targets)
            values[rows] += terms
            gradients[rows] += slopes
        return values, gradients

    def in_one_piece(self, rows: int) -> bool:
        return not self.one_by_one and self._chunks.points(slice(0, rows)) >= self.points

    def with_single_rows(self, precision: str = "float32", *, compile: bool = False) -> LossSurface:
        """The same surface whose gradients are computed one row after the other.

        A GPU does so by itself where convolutions are wide.

        Args:
            precision: Of convolutions on a GPU: "float32", "tf32", or "tf32x2" and "bf16x2", which
                round activations and keep the digits of weights (docs/real_networks.md).
            compile: Compile the loss of one row.

        Returns:
            A surface that shares the network and the data with this one.
        """
        other = copy.copy(self)
        other._take_rows_apart(precision, compile)
        return other

    def _take_rows_apart(self, precision: str, compiled: bool) -> None:
        self.one_by_one, self._apart = True, (precision, compiled)
        if self.vector.device.type == "cuda":
            self.work = self.work._replace(inputs=channels_last(self.work.inputs))
        single = SingleRows(self, self._module_for_gradients, precision, compiled)
        self._data_gradient = single  # type: ignore[method-assign]

    def with_compiled_gradient(self) -> LossSurface:
        if self.one_by_one:
            return self.with_single_rows(self._apart[0], compile=True)
        other = copy.copy(self)
        pair = self._traceable_gradient, self._data_gradient
        other._data_gradient = compile_first(self.vector.device, *pair)  # type: ignore[method-assign]
        other.compiled = True
        return other

    def _data_gradient(
        self, thetas: Tensor, inputs: Inputs, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        leaf = thetas.clone().requires_grad_()
        with torch.enable_grad():
            terms = self._data_term(leaf, inputs, targets)
            (gradients,) = torch.autograd.grad(terms.sum(), leaf)
        return terms.detach(), gradients

    def _traceable_gradient(
        self, thetas: Tensor, inputs: Inputs, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The same, written so that the compiler sees one graph."""

        def data_loss(theta: Tensor) -> Tensor:
            tensors = self.vector.unflatten(theta)
            outputs = self.network(tensors, inputs, self._module_for_gradients)
            terms = self.likelihood.negative_log(outputs, targets)
            return self.likelihood_scale * terms.sum(dtype=torch.float64)

        gradients, values = torch.vmap(torch.func.grad_and_value(data_loss))(thetas)
        return values, gradients

    def grad_and_hvp(
        self, thetas: RowVectors, vectors: RowVectors
    ) -> tuple[RowVectors, RowVectors]:
        self._check_thetas(thetas)
        check_vectors(thetas, vectors)
        thetas = thetas.detach()
        gradients, products = self._prior_gradient(thetas), self._prior_gradient(vectors)
        chunks = replace(self._chunks, bytes_per_point=PRODUCT_COST * self.bytes_per_point)
        for rows in chunks.rows(len(thetas), self.points):
            leaf = thetas[rows].clone().requires_grad_()
            for inputs, targets in self.work.chunks(chunks.points(rows)):
                with torch.enable_grad():
                    total = self._data_term(leaf, inputs, targets).sum()
                    gradient, product = grad_and_hvp_of(total, leaf, vectors[rows])
                gradients[rows] += gradient
                products[rows] += product
        return gradients, products

    def _pieces(self, thetas: Tensor) -> Iterator[tuple[slice, slice, Inputs, Tensor]]:
        """Rows and points that are computed at once: which they are, and the points' data."""
        groups = self._chunks.rows(len(thetas), self.points)
        if self.one_by_one:
            groups = [slice(row, row + 1) for row in range(len(thetas))]
        for rows in groups:
            most, start = self._chunks.points(rows), 0
            size = even_size(self.points, most) if self.one_by_one else most
            for inputs, targets in self.work.chunks(size):
                yield rows, slice(start, start + len(targets)), inputs, targets
                start += len(targets)

    def _check_thetas(self, thetas: Tensor) -> None:
        self._check_size(thetas)
        given, own = ((x.dtype, x.device) for x in (thetas, self.vector))
        if given != own:
            raise TypeError(
                f"thetas: {given[0]} on {given[1]}, the model has {own[0]} on {own[1]}; convert "
                "one of them"
            )

    def _data_term(self, thetas: Tensor, inputs: Inputs, targets: Tensor) -> Tensor:
        outputs = self.forward(thetas, inputs, self.head)
        terms = self.likelihood.negative_log(outputs, targets)
        return self.likelihood_scale * terms.sum(-1, dtype=torch.float64)

    def _prior(self, thetas: Tensor) -> Tensor:
        weighted = thetas.detach().square() * self.prior_precision
        return 0.5 * self.loss_scale * weighted.sum(-1, dtype=torch.float64)

    def _prior_gradient(self, thetas: Tensor) -> Tensor:
        return self.loss_scale * self.prior_precision * thetas

    def _measure_bytes_per_point(self) -> int:
        def one_row(points: int) -> None:
            leaf = self.vector.initial.unsqueeze(0).clone().requires_grad_()
            self._data_term(leaf, *self.work.part([0] * points))

        return measure_bytes_per_point(one_row)
