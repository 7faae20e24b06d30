"""Is the network the function that its user means? Asked on a few points, before anything else.

Four questions whose wrong answer would go unnoticed: does it draw random numbers; does dims compute
what `model(x)` gives; does a point's output depend on the other points; and are the outputs logits
where the likelihood takes logits?
"""

from __future__ import annotations

import copy
import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional

from dims.errors import ModelWarning
from dims.model.likelihoods import Bernoulli, Categorical
from dims.model.network import BatchedNetwork
from dims.model.training_data import Inputs, TrainingData, describe_inputs, slice_inputs

__all__ = ["check_function", "first_outputs"]

FEW = 8
POINTS = 16
TAKE_LOGITS = ("bernoulli", "categorical", "multi_label_bernoulli", "position_categorical")
PROBABILITIES = ("Sigmoid", "Softmax", "LogSigmoid")
# Steps of autograd that change shapes, not values.
RESHAPING = {"View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Clone", "Alias"}
RESHAPING |= {"ToCopy", "T", "Transpose", "Permute", "Expand", "Slice", "Select"}
CLEARLY_BETTER = 0.1  # nats per point by which outputs must be better as probabilities


def first_outputs(network: BatchedNetwork, inputs: Inputs, points: int) -> Tensor:
    """Outputs on a few points, computed twice: the right shape, finite, and deterministic?

    Args:
        network: What dims computes of a module.
        inputs: All training inputs.
        points: How many there are.

    Raises:
        ValueError: The network does not suit the inputs; the message says what to do.
    """
    tensors = network.vector.unflatten(network.vector.initial)
    if not torch.isfinite(network.vector.initial).all():
        raise ValueError("model: its parameters contain NaN or infinite values")
    few = slice_inputs(inputs, slice(0, FEW))
    try:
        with torch.no_grad():
            first, second = network.network(tensors, few), network.network(tensors, few)
    except (RuntimeError, TypeError, AttributeError, LookupError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"data: the model refuses the training inputs, {describe_inputs(few)} a point "
            f"({reason}); give them in the shape and type it was trained on, and a model "
            "whose output is one tensor"
        ) from error
    if first.ndim != 2 or len(first) != min(FEW, points):
        raise ValueError(
            f"model: its outputs must have shape (points, outputs), got {tuple(first.shape)}"
        )
    if not torch.equal(first, second):
        raise ValueError(
            "model: two calls on the same inputs differ, so its loss is not a function of θ; "
            "remove random layers or call model.eval()"
        )
    if not torch.isfinite(first).all():
        raise ValueError("model: its outputs on the training data contain NaN or infinities")
    return first


def check_function(model: nn.Module, network: BatchedNetwork, data: TrainingData) -> None:
    """Refuse or warn of a network that is not a function of one point and θ, or gives no logits.

    Args:
        model: The module as the user gave it.
        network: What dims computes of it, with its likelihood.
        data: The training data, of which some points spread over all are used.

    Raises:
        ValueError: The network draws random numbers, differs from `model(x)`, mixes the points of
            a batch, or ends in probabilities where logits are needed; the message says what to do.
    """
    total = len(data.targets)
    rows = torch.linspace(0, total - 1, min(POINTS, total)).round().long()
    rows = rows.to(data.targets.device)
    inputs, targets = data.part(rows)
    tensors = network.vector.unflatten(network.vector.initial)
    with torch.no_grad():
        outputs = _without_random_numbers(network, tensors, inputs)
        _compare_with_own_call(model, network, inputs)
        _check_points_apart(network, tensors, inputs, outputs)
    if network.likelihood.name in TAKE_LOGITS:
        _refuse_probabilities(network, inputs, outputs)
    if isinstance(network.likelihood, Bernoulli):
        _warn_of_probabilities(outputs, targets)


def _without_random_numbers(
    network: BatchedNetwork, tensors: dict[str, Tensor], inputs: Inputs
) -> Tensor:
    """The outputs. Dropout that fires rarely leaves them as they are, but draws all the same."""
    device = network.vector.device
    cuda = device.type == "cuda"
    before = torch.get_rng_state(), torch.cuda.get_rng_state(device) if cuda else None
    outputs = network.network(tensors, inputs)
    drawn = not torch.equal(before[0], torch.get_rng_state())
    if before[1] is not None:
        drawn |= not torch.equal(before[1], torch.cuda.get_rng_state(device))
    if drawn:
        raise ValueError(
            "model: it draws random numbers, so its loss is not a function of θ; call "
            "model.eval(), and give functional dropout training=self.training"
        )
    return outputs


def _compare_with_own_call(model: nn.Module, network: BatchedNetwork, inputs: Inputs) -> None:
    """What dims computes against `model(x)` in eval mode, by a copy that nothing has changed."""
    theirs = network.network({}, inputs, copy.deepcopy(model).eval())
    ours = network.forward(network.vector.initial.unsqueeze(0), inputs)[0]
    if _close(ours, theirs):
        return
    apart = float((ours - theirs).abs().max())
    if any(layer.training for layer in model.modules()):
        raise ValueError(
            f"model: it is in training mode, and its outputs differ by up to {apart:.2g} from "
            "those in eval mode; call model.eval() first"
        )
    encoders = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
    if any(isinstance(layer, encoders) for layer in model.modules()):
        warnings.warn(
            f"model: model(x) in eval mode differs by up to {apart:.2g} from what is trained and "
            "sampled. The likely cause: torch's fused attention, which only inference uses, "
            "returns zeros at padded positions. dims samples the network without it, as it was "
            "trained. To make both agree, keep padded positions out of what follows (such as a "
            "mean over all positions), or call torch.backends.mha.set_fastpath_enabled(False)",
            ModelWarning,
            stacklevel=6,  # the caller of `fit`, which is decorated
        )
        return
    raise ValueError(
        f"model: computed as a function of its parameters, its outputs differ by up to "
        f"{apart:.2g} from model(x); look for weights that are kept outside of the module's "
        "parameters, hooks, or a forward that changes the module"
    )


def _check_points_apart(
    network: BatchedNetwork, tensors: dict[str, Tensor], inputs: Inputs, outputs: Tensor
) -> None:
    """A point in other company, and at other places in a smaller batch, has the same output."""
    for point in {0, len(outputs) - 1}:
        copies = network.network(tensors, slice_inputs(inputs, [point] * 3))
        alone = outputs[point].expand_as(copies)
        if not _close(copies, alone):
            apart = float((copies - alone).abs().max())
            raise ValueError(
                f"model: the output of a point changes by up to {apart:.2g} with the other points "
                "of its batch, so its loss is not a sum over points; normalise over features "
                "(LayerNorm, GroupNorm) or with stored statistics, and give whatever belongs "
                "together as one point"
            )


def _close(ours: Tensor, theirs: Tensor) -> bool:
    """Equal but for rounding; TF32 rounds a product to about √ε of float32.

    Outputs that are not finite are another check's business.
    """
    if ours.shape != theirs.shape:
        return False
    known = ours.isfinite() & theirs.isfinite()
    rounding = 10 * torch.finfo(ours.dtype).eps ** 0.5
    scale = theirs.where(known, 0.0).abs().amax().clamp(min=1e-3)
    return bool(((ours - theirs).abs() <= rounding * scale)[known].all())


def _refuse_probabilities(network: BatchedNetwork, inputs: Inputs, outputs: Tensor) -> None:
    """By the last operation, or because the outputs of every point sum to 1.

    LogSoftmax is welcome: softmax takes log-probabilities back to the same probabilities, and
    every derivative is that of the logits.
    """
    name = type(network.likelihood).__name__
    last = _last_operation(network, inputs)
    classes = isinstance(network.likelihood, Categorical)
    if last == "Sigmoid" and classes:
        raise ValueError(
            f"model: it ends in Sigmoid, a probability for each label, and {name} takes the logits "
            "of one class among several; for several labels of a point give "
            "dims.with_logits(model, sigmoid=True) and dims.MultiLabelBernoulli(), for one class "
            "train the network without the Sigmoid and with cross entropy"
        )
    if last is not None:
        raise ValueError(
            f"model: it ends in {last}, and {name} takes logits, so it would be applied twice; "
            "give dims.with_logits(model), which takes it off, or a network without it"
        )
    sums = outputs.sum(-1)
    if (
        classes
        and len(outputs) > 1
        and (outputs >= 0).all()
        and _close(sums, torch.ones_like(sums))
    ):
        raise ValueError(
            f"model: its outputs are probabilities (not negative, and of sum 1 for every point), "
            f"and {name} takes logits; give dims.with_logits(model), or a network without its "
            "last softmax"
        )


def _last_operation(network: BatchedNetwork, inputs: Inputs) -> str | None:
    """The operation that made probabilities of the outputs, by autograd's graph; None if none."""
    leaf = network.initial.requires_grad_()
    with torch.enable_grad():
        step = network.network(network.vector.unflatten(leaf), inputs).grad_fn
    while step is not None:
        name = step.name().rstrip("0123456789").removesuffix("Backward")
        if name not in RESHAPING:
            return name if name in PROBABILITIES else None
        step = next((before for before, _ in step.next_functions if before is not None), None)
    return None


def _warn_of_probabilities(outputs: Tensor, targets: Tensor) -> None:
    """One output between 0 and 1 that explains the labels far better as a probability."""
    inside = bool(((outputs >= 0) & (outputs <= 1)).all())
    if not inside or len(targets.unique()) < 2:
        return
    values = outputs.squeeze(-1)
    as_logits = functional.binary_cross_entropy_with_logits(values, targets)
    as_probabilities = functional.binary_cross_entropy(values, targets)
    if as_probabilities < as_logits - CLEARLY_BETTER:
        warnings.warn(
            f"model: its outputs lie between 0 and 1 and explain the labels better as "
            f"probabilities (loss {as_probabilities:.2g} per point) than as the logits that "
            f"Bernoulli takes ({as_logits:.2g}). If they are probabilities, give "
            "dims.with_logits(model)",
            ModelWarning,
            stacklevel=6,  # the caller of `fit`, which is decorated
        )
