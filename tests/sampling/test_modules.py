"""Draws as modules: one in the user's class, all in one that torch can export."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import dims
from dims.sampling.draws.mixture import Mixture
from draws_problems import draws_of
from draws_problems import problem as mixture_problem

pytestmark = pytest.mark.usefixtures("without_shape_checks")


class Network(nn.Module):
    """A frozen part, a convolution and an LSTM, which dims computes by layers of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(3, 4).requires_grad_(False)
        self.recurrent = nn.LSTM(4, 2, batch_first=True)
        self.convolution = nn.Conv2d(1, 1, (2, 2))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.recurrent(torch.tanh(self.frozen(x)))[0]  # (N, 5, 2)
        return self.head(self.convolution(h.unsqueeze(1)).flatten(1))


@pytest.fixture(scope="module")
def problem() -> tuple[nn.Module, Tensor, dims.Draws]:
    torch.manual_seed(0)
    model = Network().double()
    x = torch.randn(6, 5, 3, dtype=torch.float64)
    surface = dims.LossSurface(model, (x, torch.arange(6) % 3), "classification")
    thetas = surface.initial + 0.3 * torch.randn(3, surface.size, dtype=torch.float64)
    return model, x, dims.Draws.from_parameters(surface, thetas)


def test_a_draw_is_a_module_of_the_users_class(
    problem: tuple[nn.Module, Tensor, dims.Draws],
) -> None:
    model, x, draws = problem
    before = {name: value.clone() for name, value in model.state_dict().items()}
    made = list(draws.modules())
    assert len(made) == 3
    for index, module in enumerate(made):
        assert type(module) is Network
        assert [type(part) for part in module.modules()] == [type(p) for p in model.modules()]
        flags = [p.requires_grad for p in module.parameters()]
        assert flags == [p.requires_grad for p in model.parameters()]
        assert not module.frozen.weight.requires_grad
        probabilities = torch.softmax(module(x), -1)
        torch.testing.assert_close(probabilities.detach(), draws.predict(x).samples[index])
    with torch.no_grad():
        made[0].head.weight.zero_()  # a copy: nothing else changes
    torch.testing.assert_close(
        torch.softmax(draws.to_module(0)(x), -1).detach(), draws.predict(x).samples[0]
    )
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    with pytest.raises(IndexError, match="index: 3 is out of range for 3 draws"):
        draws.to_module(3)


def test_an_ensemble_is_exported(problem: tuple[nn.Module, Tensor, dims.Draws]) -> None:
    _, x, draws = problem
    draws = replace(draws, weights=torch.tensor([0.5, 0.2, 0.3]))
    ensemble = draws.to_ensemble()
    exported = torch.export.export(
        ensemble, (x,), dynamic_shapes={"arguments": ({0: torch.export.Dim("points")},)}
    )
    for inputs in (x, torch.randn(4, 5, 3, dtype=torch.float64)):
        expected = draws.predict(inputs)
        for found in (ensemble(inputs), exported.module()(inputs)):
            torch.testing.assert_close(found, (expected.mean, expected.variance))


LIKELIHOODS = {
    "gaussian": (dims.GaussianPerOutput((0.1, 2.0)), torch.randn(6, 2)),
    "poisson": (dims.Poisson(), torch.ones(6, 2)),
    "student": (dims.StudentT(), torch.randn(6, 2)),
    "multi-label": (dims.MultiLabelBernoulli(), torch.ones(6, 2)),
    "tokens": (dims.PositionCategorical(2), torch.ones(6, 1).long()),
    "heteroscedastic": (dims.HeteroscedasticGaussian(), torch.randn(6, 1)),
}


@pytest.mark.parametrize("case", LIKELIHOODS)
def test_every_likelihood_is_exported(case: str) -> None:
    likelihood, targets = LIKELIHOODS[case]
    torch.manual_seed(0)
    x = torch.randn(6, 3)
    surface = dims.LossSurface(nn.Linear(3, 2), (x, targets), likelihood)
    draws = dims.Draws.from_parameters(surface, surface.initial + torch.randn(3, 8))
    exported = torch.export.export(draws.to_ensemble(), (x,)).module()
    expected = draws.predict(x)
    torch.testing.assert_close(exported(x), (expected.mean, expected.variance))
    assert torch.distributions.Distribution._validate_args  # as it was before


def test_an_ensemble_answers_as_a_mixture_does() -> None:
    surface, new = mixture_problem("two logits")
    draws = draws_of(surface, rows=4, scale=0.3)
    numbers = torch.ones(4, 1, dtype=torch.float64)
    saved = {"saved_loss": numbers, "saved_gradient_norm": numbers, "saved_kinetic_energy": numbers}
    saved |= {"times": torch.ones(1), "saved": draws.parameters.unsqueeze(1) + 0.5}
    mixture = Mixture(surface.initial, torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64))
    weighed = replace(draws, mixture=mixture, **saved)
    mean, variance = weighed.to_ensemble()(new)
    torch.testing.assert_close(mean, weighed.predict(new).mean)
    torch.testing.assert_close(variance, weighed.predict(new).variance)
    assert not torch.allclose(mean, draws.predict(new).mean)


def test_an_ensemble_does_not_carry_the_training_data() -> None:
    few, many = (
        dims.LossSurface(nn.Linear(2, 1), (torch.randn(n, 2), torch.randn(n, 1)), "regression")
        for n in (10, 10_000)
    )
    sizes = []
    for surface in (few, many):
        kept = io.BytesIO()
        draws = dims.Draws.from_parameters(surface, surface.initial.repeat(2, 1))
        torch.save(draws.to_ensemble(), kept)
        sizes.append(kept.tell())
    assert abs(sizes[1] - sizes[0]) < 1000


def test_linearised_draws_are_not_modules(problem: tuple[nn.Module, Tensor, dims.Draws]) -> None:
    draws = replace(problem[2], method="linla")
    for convert in (lambda: draws.to_module(0), draws.to_ensemble):
        with pytest.raises(TypeError, match="linearised at θ"):
            convert()
