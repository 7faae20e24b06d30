"""A loss on some of its points beside one that was made of them."""

import pytest
import torch
from torch import nn

import dims
from dims.surface.part import on_points


@pytest.mark.parametrize("single", [False, True], ids=["together", "one by one"])
@pytest.mark.parametrize("effective", [None, 3.0])
def test_the_others_are_gone_and_each_point_counts_as_before(single, effective):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    x, y = torch.randn(12, 3).double(), torch.arange(12) % 2
    rows = torch.tensor([7, 0, 3, 11])
    whole = dims.LossSurface(model, (x, y), "classification", effective_points=effective)
    part = on_points(whole.with_single_rows() if single else whole, rows)
    counted = 4.0 if effective is None else effective / 3
    made = dims.LossSurface(model, (x[rows], y[rows]), "classification", effective_points=counted)
    thetas = torch.randn(3, whole.size).double()
    assert part.points == made.points
    assert part.effective_points == pytest.approx(made.effective_points)
    for found, expected in zip(
        part.value_and_grad(thetas), made.value_and_grad(thetas), strict=True
    ):
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(part.outputs_on_data(thetas), made.outputs_on_data(thetas))
    assert whole.points == 12


def test_a_head_on_fixed_features_takes_the_features_of_its_points():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    x, y = torch.randn(12, 3).double(), torch.randn(12, 1).double()
    rows = torch.tensor([2, 5, 6])
    options = {"likelihood": dims.Gaussian(0.3), "parameters": ["2"]}
    part = on_points(dims.LossSurface(model, (x, y), **options), rows)
    made = dims.LossSurface(model, (x[rows], y[rows]), **options)
    thetas = torch.randn(2, part.size).double()
    torch.testing.assert_close(part.value(thetas), made.value(thetas))
