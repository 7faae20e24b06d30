"""Networks that torch cannot batch: row after row, exact, with one warning."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import Tensor, nn

import dims
from dims.curvature import fit_curvature


class Branching(nn.Module):
    """A branch on a value of the hidden layer, and a number read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 4)
        self.outer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.inner(x))
        size = 1.0 if h.abs().max().item() > 2 else 0.5  # never above 1
        return self.outer(size * h if bool(h.square().sum() > 0) else h)


class Plain(Branching):
    def forward(self, x: Tensor) -> Tensor:
        return self.outer(0.5 * torch.tanh(self.inner(x)))


def data(points: int = 10) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(points, 3, generator=generator, dtype=torch.float64)
    return x, (x[:, 0] > 0).long()


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
@pytest.mark.parametrize("structure", ["full", "low_rank"])
def test_rows_one_after_another_are_exact(structure: str) -> None:
    torch.manual_seed(0)
    branching = Branching().double()
    plain = Plain().double()
    plain.load_state_dict(branching.state_dict())
    x, y = data()
    options = {"curvature": structure, "rank": 5, "tune": False}
    with pytest.warns(dims.BatchingWarning, match=r"one after another, so that n of them cost n"):
        found = dims.fit(branching, (x, y), "classification", **options)
    expected = dims.fit(plain, (x, y), "classification", **options)
    torch.testing.assert_close(found.curvature.dense(), expected.curvature.dense())
    thetas = found.map_parameters + found.perturbations(3)
    vectors = found.perturbations(3, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it was said already
        ours = found.surface.grad_and_hvp(thetas, vectors)
        draws = {m: found.sample(2, m, progress=False) for m in ("la", "linla")}
        moved = found.sample(2, "rla", metric="moving", max_time=0.05, progress=False)
    torch.testing.assert_close(ours, expected.surface.grad_and_hvp(thetas, vectors))
    assert moved.energy_violation.max() < 1e-2
    for method, made in draws.items():
        other = expected.sample(2, method, progress=False)
        torch.testing.assert_close(made.predict(x).samples, other.predict(x).samples)


def test_an_error_of_the_network_itself_is_not_hidden() -> None:
    class Refusing(Plain):
        def forward(self, x: Tensor) -> Tensor:
            if len(x) > 8:  # later than the first look at a few points
                raise RuntimeError("too many points")
            return super().forward(x)

    with pytest.raises(RuntimeError, match="too many points"):
        dims.LossSurface(Refusing().double(), data(), "classification")


@pytest.mark.parametrize("slopes", [1, 4])
def test_prelu_is_torchs_and_has_batched_jacobians(slopes: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.PReLU(slopes), nn.Linear(4, 2)).double()
    x, y = data()
    surface = dims.LossSurface(model, (x, y), "classification")
    thetas = surface.initial + 0.3 * torch.randn(3, surface.size, dtype=torch.float64)
    other = copy.deepcopy(model)
    for theta, outputs in zip(thetas, surface.predict(thetas, x), strict=True):
        nn.utils.vector_to_parameters(theta, other.parameters())
        torch.testing.assert_close(outputs, other(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error", dims.BatchingWarning)
        fitted = fit_curvature(surface, surface.initial, "full")
    # JᵀΛJ from autograd on torch's own layer.
    names = [name for name, _ in model.named_parameters()]

    def outputs_of(theta: Tensor) -> Tensor:
        tensors = surface.vector.unflatten(theta)
        return torch.func.functional_call(model, {name: tensors[name] for name in names}, x)

    jacobian = torch.autograd.functional.jacobian(outputs_of, surface.initial)
    weights = surface.likelihood.output_hessian(model(x).detach())
    dense = torch.einsum("nck,ncd,ndl->kl", jacobian, weights, jacobian)
    torch.testing.assert_close(fitted.dense(), dense)


def test_prelu_of_images_has_a_slope_for_each_channel() -> None:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 3, 3), nn.PReLU(3), nn.Flatten(), nn.Linear(27, 2)]
    model = nn.Sequential(*layers).double()
    with torch.no_grad():
        layers[1].weight.copy_(torch.tensor([0.1, 0.5, -1.0]))
    images = torch.randn(4, 1, 5, 5, dtype=torch.float64)
    surface = dims.LossSurface(model, (images, torch.tensor([0, 1, 0, 1])), "classification")
    found = surface.predict(surface.initial.unsqueeze(0), images)[0]
    torch.testing.assert_close(found, model(images))


def test_images_that_were_permuted_are_batched() -> None:
    """`permute(0, 3, 1, 2)` leaves strides that torch.vmap does not take."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(4 * 4, 2))
    network = nn.Sequential(*layers).double()
    images = torch.randn(6, 4, 4, 3, dtype=torch.float64).permute(0, 3, 1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", dims.BatchingWarning)
        surface = dims.LossSurface(network, (images, torch.arange(6) % 2), "classification")
        rows = surface.initial.repeat(3, 1)
        surface.value_and_grad(rows)
        outputs = surface.predict(rows, images)
    assert torch.allclose(outputs[0], network(images))
