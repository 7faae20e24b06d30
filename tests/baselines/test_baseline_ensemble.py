"""Deep ensembles against plain loops over their members, and members that do not belong."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from baseline_problems import class_data, network, randn, regression_data, untouched
from torch import nn

import dims
from dims.baselines import deep_ensemble


def train(seed: int) -> nn.Module:
    """One step of training from a random start, with torch's global generator."""
    torch.rand(seed % 3)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    x, y = regression_data()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    (model(x) - y).square().mean().backward()
    optimiser.step()
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_classes_are_predicted_as_by_a_loop_over_members(dtype: torch.dtype) -> None:
    members = [network(i, outputs=3, dtype=dtype) for i in range(4)]
    with untouched(*members):
        draws = deep_ensemble(members, class_data(), "classification")
        inputs = randn(9, 3, seed=8).to(dtype)
        predicted = draws.predict(inputs)
    with torch.no_grad():
        outputs = torch.stack([member(inputs) for member in members])
    assert draws.method == "deep_ensemble"
    assert draws.seed is None
    assert len(draws) == 4
    torch.testing.assert_close(predicted.samples, outputs.softmax(-1), check_dtype=False)
    torch.testing.assert_close(
        predicted.probabilities, outputs.softmax(-1).mean(0), check_dtype=False
    )


def test_loss_and_noise_are_those_of_the_surface() -> None:
    members = [network(i) for i in range(3)]
    x, y = regression_data()
    draws = deep_ensemble(members, (x, y), "regression", noise_std=0.3, prior_precision=2.0)
    for loss, member in zip(draws.loss, members, strict=True):
        theta = torch.cat([p.detach().reshape(-1) for p in member.parameters()])
        expected = (y - member(x)).square().sum() / (2 * 0.3**2) + theta.square().sum()
        torch.testing.assert_close(loss, expected.detach())
    assert draws.surface.likelihood == dims.Gaussian(0.3)


def test_a_training_function_gets_seeds_and_leaves_the_generators_alone() -> None:
    seeds: list[int] = []

    def noted(seed: int) -> nn.Module:
        seeds.append(seed)
        assert torch.initial_seed() == seed
        return train(seed)

    with untouched():
        draws = deep_ensemble(noted, regression_data(), "regression", 3, seed=10)
    assert seeds == [10, 11, 12]
    assert draws.seed == 10
    torch.rand(7)
    again = deep_ensemble(train, regression_data(), "regression", 3, seed=10)
    assert torch.equal(again.parameters, draws.parameters)
    shifted = deep_ensemble(train, regression_data(), "regression", 2, seed=11)
    assert torch.equal(shifted.parameters, draws.parameters[1:])
    assert len(deep_ensemble(train, regression_data(), "regression")) == 5


def test_generators_are_restored_when_training_fails() -> None:
    def broken(seed: int) -> nn.Module:
        torch.rand(3)
        raise RuntimeError("out of luck")

    with untouched(), pytest.raises(RuntimeError, match="luck"):
        deep_ensemble(broken, regression_data(), "regression", 2)


def test_an_ensemble_is_saved_and_loaded(tmp_path: Path) -> None:
    members = [network(i) for i in range(3)]
    draws = deep_ensemble(members, regression_data(), "regression")
    draws.save(tmp_path / "ensemble.safetensors")
    loaded = dims.load(tmp_path / "ensemble.safetensors", model=network(0))
    x = randn(4, 3)
    assert torch.equal(loaded.predict(x).samples, draws.predict(x).samples)
    assert "deep_ensemble" in draws.summary()


class Normed(nn.Sequential):
    def __init__(self, mean: float, batches: int = 0) -> None:
        layers = nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 1)
        super().__init__(*layers)
        layers[1].running_mean.fill_(mean)
        layers[1].num_batches_tracked.fill_(batches)
        self.double().eval()


def test_members_with_other_running_statistics_are_refused_with_advice() -> None:
    data = regression_data()
    assert len(deep_ensemble([Normed(0.0), Normed(0.0, batches=9)], data, "regression")) == 2
    with pytest.raises(ValueError, match=r"'1.running_mean'.*GroupNorm"):
        deep_ensemble([Normed(0.0), Normed(0.5)], data, "regression")
    with pytest.raises(ValueError, match="eval"):
        deep_ensemble([Normed(0.0), Normed(0.0).train()], data, "regression")


def frozen(seed: int, first: int) -> nn.Module:
    model = network(seed)
    model[0].load_state_dict(network(first)[0].state_dict())
    model[0].requires_grad_(False)
    return model


def test_frozen_parameters_must_be_equal() -> None:
    data = regression_data()
    draws = deep_ensemble([frozen(0, 7), frozen(1, 7)], data, "regression")
    assert draws.parameters.shape == (2, 6)
    with pytest.raises(ValueError, match=r"'0.bias', a buffer or frozen"):
        deep_ensemble([frozen(0, 7), frozen(1, 8)], data, "regression")
    with pytest.raises(ValueError, match="trainable"):
        deep_ensemble([frozen(0, 7), network(1)], data, "regression")


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (network(1, width=6), r"0 and 1 differ in 0.weight \(5, 3"),
        (network(1, outputs=2), "differ in 2.weight"),
        (network(1).float(), "torch.float32"),
        (nn.Linear(3, 1).double(), r"differ in 0.weight .* none"),
        (network(1, activation=nn.ReLU), "computes something else"),
    ],
)
def test_other_architectures_are_refused(other: nn.Module, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        deep_ensemble([network(0), other], regression_data(), "regression")


def test_a_broken_member_is_refused() -> None:
    member = network(1)
    nn.init.constant_(member[0].bias, torch.nan)
    with pytest.raises(ValueError, match="member 1"):
        deep_ensemble([network(0), member], regression_data(), "regression")


@pytest.mark.usefixtures("unchecked")
def test_bad_arguments_are_refused() -> None:
    data = regression_data()
    with pytest.raises(ValueError, match="models"):
        deep_ensemble([], data, "regression")
    with pytest.raises(ValueError, match="members: expected a whole number"):
        deep_ensemble(train, data, "regression", 0)
    with pytest.raises(ValueError, match="members: 3 asked for"):
        deep_ensemble([network()], data, "regression", 3)
    with pytest.raises(ValueError, match="seed"):
        deep_ensemble(train, data, "regression", 2, seed=-1)
    for wrong in (network(), nn.Linear(3, 1), [1, 2], 5):
        with pytest.raises(TypeError, match="models"):
            deep_ensemble(wrong, data, "regression")
    with pytest.raises(TypeError, match=r"train\(0\) returned a int"):
        deep_ensemble(lambda seed: 3, data, "regression", 2)
    with pytest.raises(ValueError, match="noise_std"):
        deep_ensemble([network(0, outputs=3)], class_data(), "classification", noise_std=0.1)
