"""A network as a function of flat parameters: many parameter rows at once, in bounded memory."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp, vjp
from torch.nn.attention import SDPBackend, sdpa_kernel

from dims.model.arrays import as_arrays
from dims.model.checks_module import check_module
from dims.model.likelihoods import Likelihood
from dims.model.parameters import ParameterVector, Selection
from dims.model.shapes import RowVectors, Vector, check_integer, check_rows
from dims.model.torch_support.activations import use_plain_prelu
from dims.model.torch_support.attention import calls_attention, unfuse_attention
from dims.model.torch_support.batching import Batching
from dims.model.torch_support.convolution import has_wide_convolutions, use_matrices
from dims.model.torch_support.memory import Chunks, default_memory_budget, measure_bytes_per_point
from dims.model.torch_support.recurrent import use_steps
from dims.model.training_data import (
    Inputs,
    check_finite,
    describe_inputs,
    input_length,
    map_inputs,
    module_arguments,
    point_outputs,
    slice_inputs,
    without_labels,
)

__all__ = ["BatchedNetwork", "jacobian_products", "prior_curvature"]


class BatchedNetwork:
    """f_θ(x) of a module for rows θ (S, K), with all that is known about it but its data.

    The module is copied and never modified: `given` is the copy as the user wrote it, `module` one
    on the same memory whose layers are replaced by faster ones. A subclass says what the outputs
    mean and which points the module takes: it sets the attributes below.
    """

    outputs: int
    input_shapes: Any  # of one point, as `describe_inputs` writes them
    likelihood: Likelihood
    prior_precision: Tensor
    points: int
    effective_points: float
    loss_scale: float
    _takes_positions = False  # see `Likelihood.takes_positions`

    def __init__(
        self, model: nn.Module, parameters: Selection = None, memory_budget: int | None = None
    ) -> None:
        check_module(model)
        if memory_budget is not None and memory_budget <= 0:
            raise ValueError(f"memory_budget: must be a positive number of bytes, {memory_budget}")
        _refuse_random_layers(model)
        self.vector = ParameterVector(model, parameters)
        self.given, self.module = _two_copies(model)
        self._attention: bool | None = unfuse_attention(self.module) or None  # None: not known yet
        use_steps(self.module)
        use_plain_prelu(self.module)
        self.batching = Batching()
        self.one_by_one = self.vector.device.type == "cuda" and has_wide_convolutions(self.module)
        if not self.one_by_one:
            use_matrices(self.module)
        self.memory_budget = memory_budget or default_memory_budget(self.vector.device)

    @property
    def size(self) -> int:
        """K, the number of parameters."""
        return self.vector.size

    @property
    def initial(self) -> Vector:
        """θ of the given model."""
        return self.vector.initial.clone()

    def forward(self, thetas: Tensor, inputs: Inputs, module: nn.Module | None = None) -> Tensor:
        """f_θ(x) of all rows at once, differentiable in θ, (S, N, C); `module` as in `network`."""

        def one(tensors: dict[str, Tensor]) -> Tensor:
            return self.network(tensors, inputs, module)

        def together() -> Tensor:
            return torch.vmap(one)(self.vector.unflatten(thetas))

        def one_by_one() -> Tensor:
            return torch.stack([one(self.vector.unflatten(theta)) for theta in thetas])

        if self.one_by_one:
            return one_by_one()
        if self._attention is None:
            few = slice_inputs(inputs, slice(0, 2))
            tensors = self.vector.unflatten(self.vector.initial)
            self._attention = calls_attention(lambda: self.network(tensors, few, module))
        # The fused attention kernels are not batched over rows but looped over.
        with sdpa_kernel(SDPBackend.MATH) if self._attention else nullcontext():
            return self.batching.attempt("draws", together, one_by_one)

    def network(
        self, tensors: dict[str, Tensor], inputs: Inputs, module: nn.Module | None = None
    ) -> Tensor:
        """f(x) of one set of named tensors, (N, C); by another form of the module, if given."""

        module = module or self.module
        return self.arrange(functional_call(module, tensors, *module_arguments(module, inputs)))

    def arrange(self, outputs: Any) -> Tensor:
        """What a module returned as outputs (N, C): its logits, positions side by side."""
        return point_outputs(outputs, self._takes_positions)

    def predict(self, thetas: RowVectors, inputs: Inputs, batch_size: int | None = None) -> Tensor:
        """f_θ(x) of each row and point, (S, N, C); inputs are moved `batch_size` at a time."""
        return self._predict(self.forward, thetas, inputs, batch_size)

    def predict_linearised(
        self, centre: Vector, thetas: RowVectors, inputs: Inputs, batch_size: int | None = None
    ) -> Tensor:
        """f(x, θ*) + J_f(x, θ*)·(θ − θ*) of each row and point, (S, N, C), around θ* = `centre`.

        Products with J in forward mode: no Jacobian is formed.
        """

        def linear(thetas: Tensor, inputs: Inputs) -> Tensor:
            def outputs(theta: Tensor) -> Tensor:
                return self.network(self.vector.unflatten(theta), inputs)

            return outputs(centre) + jacobian_products(outputs, centre, thetas - centre)

        return self._predict(linear, thetas, inputs, batch_size)

    def convert_inputs(self, inputs: Inputs) -> Inputs:
        """Inputs on the model's device, floats in its precision."""

        def convert(tensor: Any) -> Tensor:
            tensor = torch.as_tensor(tensor)
            dtype = self.vector.dtype if tensor.is_floating_point() else None
            return tensor.to(device=self.vector.device, dtype=dtype).contiguous()

        if isinstance(inputs, Mapping) and isinstance(self.input_shapes, dict):
            inputs = without_labels(inputs, kept=self.input_shapes)
        return map_inputs(convert, inputs)

    def check_inputs(self, inputs: Inputs) -> Inputs:
        """Converted inputs that the network can predict on, or an error that says why not."""
        inputs = self.convert_inputs(inputs)
        given = describe_inputs(inputs)
        hint = f"the model was trained on points {self.input_shapes}, these are {given}"
        if _ranks(given) != _ranks(self.input_shapes):
            raise ValueError(f"inputs: {hint}; give shape (points, features), as in training")
        if input_length(inputs) == 0:
            raise ValueError("inputs: there are no points; give at least one")
        check_finite(inputs)
        few = slice_inputs(inputs, slice(0, 2))
        try:
            with torch.no_grad():
                outputs = self.network(self.vector.unflatten(self.vector.initial), few)
        except (RuntimeError, ValueError, TypeError, LookupError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ValueError(f"inputs: the model refuses them ({reason}); {hint}") from error
        if outputs.shape != (input_length(few), self.outputs):
            raise ValueError(
                f"inputs: {input_length(few)} points give outputs of shape "
                f"{tuple(outputs.shape)}, not {(input_length(few), self.outputs)}; {hint}"
            )
        return inputs

    def _predict(
        self,
        function: Callable[[Tensor, Inputs], Tensor],
        thetas: Tensor,
        inputs: Inputs,
        batch_size: int | None,
    ) -> Tensor:
        self._check_size(thetas)
        inputs = as_arrays("inputs", inputs)
        if batch_size is None:
            return self._predict_batch(function, thetas, self.check_inputs(inputs))
        size = check_integer("batch_size", batch_size)
        inputs = map_inputs(lambda x: x if hasattr(x, "ndim") else torch.as_tensor(x), inputs)
        points = input_length(inputs)
        outputs = thetas.new_empty(len(thetas), points, self.outputs)
        for start in range(0, max(1, points), size):
            part = slice(start, start + size)
            batch = self.check_inputs(slice_inputs(inputs, part))
            outputs[:, part] = self._predict_batch(function, thetas, batch)
        return outputs

    def _predict_batch(
        self, function: Callable[[Tensor, Inputs], Tensor], thetas: Tensor, inputs: Inputs
    ) -> Tensor:
        """Of inputs that are checked and on the model's device."""
        points = input_length(inputs)

        def one_row(count: int) -> None:
            leaf = self.vector.initial.unsqueeze(0).clone().requires_grad_()
            self.forward(leaf, slice_inputs(inputs, [0] * count))

        chunks = Chunks.on(thetas.device, self.memory_budget, measure_bytes_per_point(one_row))
        outputs = thetas.new_empty(len(thetas), points, self.outputs)
        with torch.no_grad():
            for rows in chunks.rows(len(thetas), points):
                step = chunks.points(rows)
                for start in range(0, points, step):
                    part = slice(start, min(start + step, points))
                    outputs[rows, part] = function(thetas[rows], slice_inputs(inputs, part))
        return outputs

    def _check_size(self, thetas: Tensor) -> None:
        check_rows("thetas", thetas)
        if thetas.shape[1] != self.size:
            raise ValueError(f"thetas: {thetas.shape[1]} parameters, the model has {self.size}")


def prior_curvature(surface: object) -> float:
    """c·δ, the curvature of directions about which the data say nothing; 0 without a prior."""
    if not isinstance(surface, BatchedNetwork):
        return 0.0
    return surface.loss_scale * float(surface.prior_precision.median())


def jacobian_products(
    function: Callable[[Tensor], Tensor], centre: Tensor, tangents: Tensor
) -> Tensor:
    """J(centre)·u of each row u."""

    def forward_mode(tangent: Tensor) -> Tensor:
        return jvp(function, (centre,), (tangent,))[1]

    def reverse_mode(tangent: Tensor) -> Tensor:
        # Jᵀw is linear in w, so its own pull-back is J, wherever it is taken.
        outputs, pull = vjp(function, centre)[:2]
        return vjp(lambda w: pull(w)[0], torch.zeros_like(outputs))[1](tangent)[0]

    _load_forward_mode()
    with sdpa_kernel(SDPBackend.MATH):
        try:
            return torch.vmap(forward_mode)(tangents)
        except NotImplementedError:  # some operations know reverse mode only
            return torch.vmap(reverse_mode)(tangents)


@cache
def _load_forward_mode() -> None:
    """Torch compiles its forward-mode rules at first use, and warns of its own way to do so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        jvp(torch.sin, (torch.zeros(1),), (torch.zeros(1),))


def _ranks(description: Any) -> Any:
    """Number of feature dimensions of each part: lengths may vary, structure may not."""

    def rank(text: str) -> int:
        return 0 if text.endswith("[]") else text.count(",") + 1

    return map_inputs(rank, description)


def _two_copies(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """A copy in the user's own classes, and one on the same memory whose layers we may replace."""
    try:
        given = copy.deepcopy(model)
    except RuntimeError as error:
        raise ValueError(
            "model: it cannot be copied, because it keeps tensors that autograd computed, as the "
            "old torch.nn.utils.weight_norm does; use torch.nn.utils.parametrizations.weight_norm, "
            f"or detach them ({str(error).splitlines()[0]})"
        ) from error
    shared: dict[int, Any] = {id(buffer): buffer for buffer in given.buffers()}
    for parameter in given.parameters():
        shared[id(parameter)] = nn.Parameter(parameter.detach(), requires_grad=False)
    return given, copy.deepcopy(given, shared)


def _refuse_random_layers(model: nn.Module) -> None:
    for name, layer in model.named_modules():
        dropout = isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0
        recurrent = isinstance(layer, nn.RNNBase) and layer.dropout > 0
        normaliser = isinstance(layer, nn.modules.batchnorm._BatchNorm)
        if layer.training and (dropout or recurrent or normaliser):
            raise ValueError(
                f"model: layer {name!r} ({type(layer).__name__}) is in training mode, where the "
                "loss is not a function of θ alone; call model.eval() first"
            )
        if normaliser and not layer.track_running_stats:
            raise ValueError(
                f"model: layer {name!r} ({type(layer).__name__}) normalises by the batch at hand; "
                "use track_running_stats=True, GroupNorm or LayerNorm"
            )
