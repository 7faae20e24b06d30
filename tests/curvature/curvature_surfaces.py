"""Small surfaces of every kind, and dense curvatures written without the package."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn
from torch.autograd.functional import hessian
from torch.func import functional_call, jacrev
from torch.nn import functional

from dims.model.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from dims.surface.loss import LossSurface

LIKELIHOODS: dict[str, tuple[Likelihood, int]] = {
    "gaussian": (Gaussian(0.4), 2),
    "bernoulli": (Bernoulli(), 1),
    "categorical": (Categorical(), 3),
    "smoothed": (Categorical(label_smoothing=0.1), 3),
}


class TokenNet(nn.Module):
    """An embedding and a gain, called with one dict."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Linear(3, outputs)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return self.head(torch.tanh(self.embedding(batch["token"]) * batch["gain"]))


class Attention(nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.query, self.head = nn.Linear(2, 4), nn.Linear(4, outputs)

    def forward(self, x: Tensor) -> Tensor:
        q = self.query(x.unflatten(-1, (2, 2)))
        return self.head(functional.scaled_dot_product_attention(q, q, q).mean(1))


def targets_for(likelihood: str, points: int) -> Tensor:
    _, outputs = LIKELIHOODS[likelihood]
    if likelihood == "gaussian":
        return torch.randn(points, outputs)
    return torch.randint(max(outputs, 2), (points,))


def network(name: str, outputs: int) -> tuple[nn.Module, Tensor | dict[str, Tensor]]:
    """A model in eval mode, float32, and 14 inputs for it."""
    points = 14
    if name == "mlp":
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, outputs)), torch.randn(
            points, 4
        )
    if name == "frozen":
        model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, outputs))
        model[0].weight.requires_grad_(False)
        return model, torch.randn(points, 4)
    if name == "cnn":
        model = nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, outputs)
        )
        return model, torch.randn(points, 1, 6, 6)
    if name == "layernorm":
        model = nn.Sequential(
            nn.Linear(4, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, outputs, bias=False)
        )
        return model, torch.randn(points, 4)
    if name == "batchnorm":
        model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, outputs))
        model[1].running_mean.normal_()
        model[1].running_var.uniform_(0.5, 2)
        return model, torch.randn(points, 4)
    if name == "embedding":
        return TokenNet(outputs), {
            "token": torch.randint(5, (points,)),
            "gain": torch.rand(points, 1),
        }
    if name == "attention":
        return Attention(outputs), torch.randn(points, 4)
    if name == "groupnorm":
        model = nn.Sequential(
            nn.Linear(4, 6), nn.ReLU(inplace=True), nn.GroupNorm(2, 6), nn.Linear(6, outputs)
        )
        return model, torch.randn(points, 4)
    raise KeyError(name)


NETWORKS = (
    *("mlp", "frozen", "cnn", "layernorm", "batchnorm", "groupnorm", "embedding", "attention"),
)


def surface_of(
    name: str = "mlp",
    likelihood: str = "categorical",
    dtype: torch.dtype = torch.float64,
    **settings: float,
) -> LossSurface:
    torch.manual_seed(3)
    kind, outputs = LIKELIHOODS[likelihood]
    model, inputs = network(name, outputs)
    return LossSurface(
        model.eval().to(dtype),
        (inputs, targets_for(likelihood, 14)),
        kind,
        prior_precision=0.7,
        **settings,
    )


def _outputs(surface: LossSurface, theta: Tensor) -> Tensor:
    tensors, start = {}, 0
    for name in surface.vector.names:
        shape = surface.module.get_parameter(name).shape
        tensors[name] = theta[start : start + math.prod(shape)].reshape(shape)
        start += math.prod(shape)
    return functional_call(surface.module, tensors, (surface.data.inputs,))


def _total_loss(surface: LossSurface, outputs: Tensor) -> Tensor:
    likelihood, targets = surface.likelihood, surface.data.targets
    scale = surface.loss_scale * surface.effective_points / surface.points
    if isinstance(likelihood, Gaussian):
        return scale * (outputs - targets).square().sum() / (2 * likelihood.noise_std**2)
    if isinstance(likelihood, Bernoulli):
        loss = functional.binary_cross_entropy_with_logits
        return scale * loss(outputs[:, 0], targets, reduction="sum")
    loss = functional.cross_entropy
    smoothing = likelihood.label_smoothing
    return scale * loss(outputs, targets, reduction="sum", label_smoothing=smoothing)


def dense_hessian(surface: LossSurface, theta: Tensor) -> Tensor:
    """∇² of the likelihood part, in float64, by plain autograd on the plain module.

    Not by torch.func.hessian: under its transforms the second derivatives of LayerNorm's weight
    are wrong (torch 2.13), which finite differences show.
    """
    wide = _in_float64(surface)
    return hessian(lambda t: _total_loss(wide, _outputs(wide, t)), theta.double())


def dense_ggn(surface: LossSurface, theta: Tensor) -> Tensor:
    """JᵀΛJ of all points at once, in float64, with Λ by autograd on the loss of the outputs."""
    wide = _in_float64(surface)
    jacobian = jacrev(lambda t: _outputs(wide, t))(theta.double()).flatten(0, 1)
    outputs = _outputs(wide, theta.double())
    middle = hessian(lambda f: _total_loss(wide, f), outputs)
    return jacobian.T @ middle.reshape(len(jacobian), len(jacobian)) @ jacobian


def _in_float64(surface: LossSurface) -> LossSurface:
    def widen(tensor: Tensor) -> Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    inputs = surface.data.inputs
    wide = {k: widen(v) for k, v in inputs.items()} if isinstance(inputs, dict) else widen(inputs)
    model = copy.deepcopy(surface.module).double()
    for name in surface.vector.names:
        model.get_parameter(name).requires_grad_(True)
    return LossSurface(
        model,
        (wide, surface.data.targets),
        surface.likelihood,
        effective_points=surface.effective_points,
        loss_scale=surface.loss_scale,
    )
