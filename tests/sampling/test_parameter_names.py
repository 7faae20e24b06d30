"""Parameters by name: each is where its name says."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dims
from dims.sampling.draws.names import parameter_name, parameter_names
from draws_problems import mlp, random_inputs


class Odd(nn.Module):
    """Tensors of zero to three dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(()))
        self.cube = nn.Parameter(torch.randn(2, 3, 4))
        self.line = nn.Linear(3, 2)


def test_a_name_leads_to_its_number():
    """The oracle is Python: the name, evaluated as an index of the module's own tensor."""
    model = Odd()
    tensors = [(name, tuple(p.shape)) for name, p in model.named_parameters()]
    theta = torch.cat([p.detach().flatten() for p in model.parameters()])
    names = list(parameter_names(tensors))
    assert len(names) == len(set(names)) == len(theta)
    for place, name in enumerate(names):
        assert parameter_name(tensors, place) == name
        owner, _, index = name.partition("[")
        value = model.get_parameter(owner).detach()
        if index:
            value = value[tuple(int(part) for part in index.rstrip("]").split(", "))]
        assert float(value) == float(theta[place])
    with pytest.raises(IndexError):
        parameter_name(tensors, len(theta))


def test_arviz_knows_parameters_by_name(monkeypatch):
    pytest.importorskip("arviz_base")
    surface = dims.LossSurface(mlp(3, 1), (random_inputs(5, 3), random_inputs(5, 1)), "regression")
    draws = dims.Draws.from_parameters(surface, surface.initial.repeat(2, 1))
    found = draws.to_datatree()["posterior/parameters"]
    (name, weight) = next(iter(surface.module.named_parameters()))
    chosen = found.sel(parameter=f"{name}[1, 2]")
    assert chosen.values.tolist() == [[float(weight[1, 2].detach())] * 2]
    monkeypatch.setattr("dims.sampling.draws.datatree.MOST_NAMES", 3)
    many = draws.to_datatree()["posterior/parameters"]
    assert many["parameter"].values.tolist() == list(range(surface.size))
