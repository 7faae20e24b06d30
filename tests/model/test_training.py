"""The builder of perceptrons and the training loop, against both written out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from dims.model.training import Training, perceptron, train


def test_an_mlp_has_the_widths_asked_for_and_no_dropout_before_its_output():
    model = perceptron((3, 5, 4, 2), nn.SiLU, dropout=0.5)
    assert [(m.in_features, m.out_features) for m in model if isinstance(m, nn.Linear)] == [
        (3, 5),
        (5, 4),
        (4, 2),
    ]
    assert sum(isinstance(m, nn.Dropout) for m in model) == 2
    assert isinstance(model[-1], nn.Linear)
    assert model[0].weight.dtype == torch.float64


def test_training_is_adam_by_hand_and_leaves_the_generators_alone():
    inputs = torch.randn(10, 2, dtype=torch.float64)
    targets = inputs.sum(1, keepdim=True)

    def network() -> nn.Module:
        model = nn.Linear(2, 1).double()
        nn.init.constant_(model.weight, 0.3)
        nn.init.zeros_(model.bias)
        return model

    loss = nn.functional.mse_loss
    model = network()
    before = torch.get_rng_state()
    train(model, inputs, targets, loss, Training(20, learning_rate=0.1), seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.training
    other = network()
    optimiser = torch.optim.Adam(other.parameters(), lr=0.1, weight_decay=1e-2)
    for _ in range(20):
        optimiser.zero_grad()
        loss(other(inputs), targets).backward()
        optimiser.step()
    torch.testing.assert_close(model.weight, other.weight, rtol=0, atol=0)


def test_batches_cover_every_point_of_an_epoch():
    seen = []

    class Spy(nn.Linear):
        def forward(self, x):
            seen.append(x[:, 0].tolist())
            return super().forward(x)

    inputs = torch.arange(7.0, dtype=torch.float64).unsqueeze(-1)
    training = Training(epochs=2, batch_size=3)
    train(Spy(1, 1).double(), inputs, inputs, nn.functional.mse_loss, training, seed=1)
    assert [len(batch) for batch in seen] == [3, 3, 1] * 2
    epochs = [[x for batch in part for x in batch] for part in (seen[:3], seen[3:])]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_generator_draws_the_first_weights_and_the_global_one_stays(dtype):
    before = torch.get_rng_state()
    drawn = perceptron((3, 4, 1), nn.Tanh, dtype=dtype, generator=torch.Generator().manual_seed(3))
    assert torch.equal(torch.get_rng_state(), before)
    generator = torch.Generator().manual_seed(3)
    for parameter, inputs in zip(drawn.parameters(), (3, 3, 4, 4), strict=True):
        bound = 1 / math.sqrt(inputs)
        expected = torch.empty_like(parameter).uniform_(-bound, bound, generator=generator)
        assert torch.equal(parameter, expected)


def test_the_rate_falls_along_a_cosine_and_the_report_counts_to_one():
    inputs, parts = torch.randn(6, 1, dtype=torch.float64), []
    torch.manual_seed(0)
    model, other = nn.Linear(1, 1).double(), nn.Linear(1, 1).double()
    other.load_state_dict(model.state_dict())
    training = Training(5, learning_rate=0.1, weight_decay=0.0, cosine=True)
    train(model, inputs, 2 * inputs, nn.functional.mse_loss, training, seed=0, report=parts.append)
    assert parts == [0.0, 0.2, 0.4, 0.6, 0.8]
    optimiser = torch.optim.Adam(other.parameters())
    for step in range(5):
        optimiser.param_groups[0]["lr"] = 0.05 * (1 + math.cos(math.pi * step / 5))
        optimiser.zero_grad()
        nn.functional.mse_loss(other(inputs), 2 * inputs).backward()
        optimiser.step()
    torch.testing.assert_close(model.weight, other.weight, rtol=1e-12, atol=1e-12)
