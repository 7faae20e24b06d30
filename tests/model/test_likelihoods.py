"""Likelihoods against torch's own losses and distributions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, distributions
from torch.nn import functional

import dims
from dims.model.likelihoods import Likelihood, resolve_likelihood


def normal(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("noise_std", [0.3, 2.0])
def test_gaussian_is_the_normal_distribution(width, noise_std):
    outputs, targets = normal(6, width), normal(6, width) + 1
    likelihood = dims.Gaussian(noise_std)
    expected = -distributions.Normal(outputs, noise_std).log_prob(targets).sum(-1)
    ours = likelihood.negative_log(outputs, targets) + likelihood.constant(width)
    torch.testing.assert_close(ours, expected)
    # What was left out is the part that does not depend on f.
    perfect = likelihood.negative_log(targets, targets)
    assert torch.equal(perfect, torch.zeros(6, dtype=torch.float64))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_bernoulli_is_binary_cross_entropy(smoothing):
    outputs, labels = normal(7, 1), torch.tensor([0, 1, 1, 0, 1, 0, 0])
    likelihood = dims.Bernoulli(smoothing)
    targets = likelihood.check_targets(outputs, labels)
    smooth = torch.where(labels == 1, 1 - smoothing / 2, smoothing / 2).double()
    expected = functional.binary_cross_entropy_with_logits(
        outputs.squeeze(-1), smooth, reduction="none"
    )
    torch.testing.assert_close(likelihood.negative_log(outputs, targets), expected)
    assert likelihood.constant(1) == 0


def test_bernoulli_is_categorical_with_a_second_logit_of_zero():
    outputs, labels = normal(7, 1), torch.tensor([0, 1, 1, 0, 1, 0, 0])
    pair = torch.cat([torch.zeros_like(outputs), outputs], -1)
    one, two = dims.Bernoulli(0.1), dims.Categorical(0.1)
    torch.testing.assert_close(
        one.negative_log(outputs, one.check_targets(outputs, labels)),
        two.negative_log(pair, labels),
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.2, 0.9])
def test_categorical_is_cross_entropy(smoothing):
    outputs, labels = normal(8, 4), torch.arange(8) % 4
    expected = functional.cross_entropy(
        outputs, labels, label_smoothing=smoothing, reduction="none"
    )
    likelihood = dims.Categorical(smoothing)
    torch.testing.assert_close(likelihood.negative_log(outputs, labels), expected)
    assert likelihood.constant(4) == 0


CASES = [
    (dims.Gaussian(0.7), 3),
    (dims.Bernoulli(), 1),
    (dims.Bernoulli(0.3), 1),
    (dims.Categorical(), 4),
    (dims.Categorical(0.3), 4),
]


def targets_for(likelihood: Likelihood, outputs: Tensor) -> Tensor:
    points, width = outputs.shape
    if likelihood.task == "regression":
        return normal(points + 1, width)[1:]
    return likelihood.check_targets(outputs, torch.arange(points) % max(width, 2))


@pytest.mark.parametrize(("likelihood", "width"), CASES)
def test_the_output_hessian_is_the_second_derivative(likelihood, width):
    outputs = normal(5, width)
    targets = targets_for(likelihood, outputs)

    def one_point(f: Tensor, y: Tensor) -> Tensor:
        return likelihood.negative_log(f[None], y[None]).sum()

    second = torch.func.jacrev(torch.func.jacrev(one_point))
    expected = torch.stack([second(f, y) for f, y in zip(outputs, targets, strict=True)])
    torch.testing.assert_close(likelihood.output_hessian(outputs), expected)


@pytest.mark.parametrize(("likelihood", "width"), CASES)
def test_rows_of_networks_share_the_targets(likelihood, width):
    outputs = normal(3, 5, width)
    targets = targets_for(likelihood, outputs[0])
    batched = likelihood.negative_log(outputs, targets)
    assert batched.shape == (3, 5)
    for row, one in zip(batched, outputs, strict=True):
        torch.testing.assert_close(row, likelihood.negative_log(one, targets))


@pytest.mark.parametrize("likelihood", [dims.Bernoulli(), dims.Categorical()])
def test_extreme_logits_stay_finite(likelihood):
    outputs = torch.tensor([[1e4], [-1e4]], dtype=torch.float64)
    if isinstance(likelihood, dims.Categorical):
        outputs = torch.cat([-outputs, torch.zeros_like(outputs)], -1)
    targets = likelihood.check_targets(outputs, torch.tensor([0, 1]))
    torch.testing.assert_close(
        likelihood.negative_log(outputs, targets),
        torch.full((2,), 1e4, dtype=torch.float64),
    )


def test_noise_can_be_replaced_and_must_be_positive():
    assert dims.Gaussian(1.0).with_noise(0.5) == dims.Gaussian(0.5)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="noise_std"):
            dims.Gaussian(bad)
        with pytest.raises(ValueError, match="noise_std"):
            dims.Gaussian().with_noise(bad)


@pytest.mark.parametrize("kind", [dims.Bernoulli, dims.Categorical])
@pytest.mark.parametrize("bad", [-0.1, 1.0, math.nan])
def test_label_smoothing_outside_its_range_is_refused(kind, bad):
    with pytest.raises(ValueError, match="label_smoothing"):
        kind(bad)


def test_regression_targets():
    likelihood = dims.Gaussian()
    outputs = torch.zeros(3, 1)
    column = likelihood.check_targets(outputs, torch.tensor([1, 2, 3]))
    assert column.shape == (3, 1)
    assert column.dtype == torch.float32
    for shape in [(2,), (3, 2), (3, 1, 1)]:
        with pytest.raises(ValueError, match=r"targets: shape .* \(3, 1\)"):
            likelihood.check_targets(outputs, torch.zeros(shape))
    with pytest.raises(ValueError, match="targets"):
        likelihood.check_targets(torch.zeros(3, 2), torch.zeros(3))
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="targets: contain NaN"):
            likelihood.check_targets(outputs, torch.tensor([0.0, bad, 1.0]))


@pytest.mark.parametrize(("likelihood", "width"), CASES[1:])
def test_class_labels(likelihood, width):
    outputs = torch.zeros(3, width)
    expected = torch.tensor([0, 1, 1])
    kinds = (expected, expected.float(), expected.bool(), expected.unsqueeze(-1), expected.byte())
    for labels in kinds:
        assert torch.equal(likelihood.check_targets(outputs, labels).long(), expected)
    top = max(width, 2)
    for bad, reason in [
        (torch.tensor([0, 1, top]), f"0..{top - 1}"),
        (torch.tensor([-1, 0, 1]), "found -1..1"),
        (torch.tensor([0.0, 0.5, 1.0]), "whole numbers"),
        (torch.tensor([0.0, math.nan, 1.0]), "whole numbers"),
        (torch.tensor([0, 1]), r"\(3,\)"),
        (torch.eye(3), "argmax"),
        (torch.tensor(1), r"\(3,\)"),
    ]:
        with pytest.raises(ValueError, match=f"targets: .*{reason}"):
            likelihood.check_targets(outputs, bad)


def test_the_number_of_logits_must_fit():
    with pytest.raises(ValueError, match="likelihood: Bernoulli takes one logit"):
        dims.Bernoulli().check_targets(torch.zeros(3, 2), torch.zeros(3))
    with pytest.raises(ValueError, match="likelihood: Categorical needs at least two"):
        dims.Categorical().check_targets(torch.zeros(3, 1), torch.zeros(3))


def test_names_become_objects():
    assert resolve_likelihood("regression", 2) == dims.Gaussian(1.0)
    assert resolve_likelihood("classification", 1) == dims.Bernoulli()
    assert resolve_likelihood("classification", 3) == dims.Categorical()
    given = dims.Categorical(0.1)
    assert resolve_likelihood(given, 3) is given
    with pytest.raises(ValueError, match="likelihood: 'poisson' is unknown"):
        resolve_likelihood("poisson", 1)
