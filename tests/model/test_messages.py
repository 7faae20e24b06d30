"""What a user mistypes is named by the argument that was typed, with what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dims

pytestmark = [
    pytest.mark.usefixtures("unchecked"),
    pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning"),
]

X = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(6, 2)
LABELS = torch.arange(6) % 2


def model() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(2, 2).double().eval()


@pytest.fixture(scope="module")
def posterior() -> dims.Posterior:
    return dims.fit(model(), (X, LABELS), "classification", prior_precision=1.0, tune=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"curvature": "fulll"}, "curvature: 'fulll' is unknown; give one of full"),
        ({"curvature_kind": "fisher"}, "curvature_kind: 'fisher' is unknown; give one of ggn"),
        ({"curvature": "kronecker", "curvature_kind": "hessian"}, "curvature_kind: 'kronecker'"),
        ({"curvature": "low_rank", "rank": "3"}, "rank: expected a whole number"),
        ({"prior_structure": "row"}, "prior_structure: 'row' is unknown"),
        ({"prior_precision": "1"}, "prior_precision: expected a number"),
        ({"effective_points": "5"}, "effective_points: must be positive"),
        ({"loss_scale": "2"}, "loss_scale: must be positive"),
        ({"tune": "no"}, 'tune: expected True, False or one of "cautious"'),
        ({"refine": "yes"}, "refine: expected a whole number"),
    ],
)
def test_arguments_of_fit(settings: dict[str, object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        dims.fit(model(), (X, LABELS), "classification", **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tolerance": "1e-2"}, "tolerance"),
        ({"save_at": "3"}, "save_at"),
        ({"save_at": 3.0}, "save_at"),
        ({"max_time": "5"}, "max_time"),
        ({"precondition": "no"}, "precondition: expected True or False"),
        ({"certify": "no"}, "certify: expected True or False"),
        ({"compile": "no"}, "compile: expected True or False"),
    ],
)
def test_arguments_of_sample(
    posterior: dims.Posterior, settings: dict[str, object], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        posterior.sample(2, **settings, progress=False)


class Frame:
    """What pandas and polars have in common."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def to_numpy(self) -> np.ndarray:
        return self.array


@pytest.mark.parametrize(
    "given",
    [X.tolist(), [tuple(row) for row in X.tolist()], X.numpy(), Frame(X.numpy())],
    ids=["lists", "tuples", "array", "frame"],
)
def test_inputs_of_many_kinds_are_the_same_numbers(posterior: dims.Posterior, given: object):
    surface = dims.LossSurface(model(), (given, LABELS.tolist()), "classification")
    assert torch.equal(surface.data.inputs, X)  # in float64, not rounded to float32
    assert torch.equal(surface.data.targets, LABELS)
    draws = posterior.sample(2, "la", progress=False)
    for batch_size in (None, 4):
        found = draws.predict(given, batch_size=batch_size).probabilities
        torch.testing.assert_close(found, draws.predict(X).probabilities)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([["a", "b"]] * 6, "inputs: expected numbers, got <U1"),
        (np.array([["a", "b"]] * 6), "inputs: expected numbers"),
        (np.array([[1, None]] * 6), "inputs: expected numbers, got object"),
        ([[1.0, 2.0], [1.0]] * 3, "inputs: a list of points with different lengths"),
        (list(X), "a list of tensors is several inputs of one network"),
    ],
)
def test_inputs_that_are_no_numbers(given: object, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        dims.LossSurface(model(), (given, LABELS), "classification")


@pytest.mark.parametrize(
    ("targets", "advice"),
    [
        (nn.functional.one_hot(LABELS), r"one-hot.*argmax"),
        (torch.tensor([[1, 1], [0, 1]] * 3), r"several labels of each point.*MultiLabelBernoulli"),
        (torch.tensor([[0, 0], [0, 1]] * 3).float(), "several labels of each point"),
        (torch.rand(6, 2), "give one class number for each point"),
    ],
)
def test_rows_of_targets_get_the_advice_that_suits_them(targets: Tensor, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        dims.LossSurface(model(), (X, targets), "classification")
