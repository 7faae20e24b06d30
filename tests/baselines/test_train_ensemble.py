"""Ensembles trained side by side, against torch's Adam in plain loops and closed forms."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from baseline_problems import class_data, network, randn, regression_data, untouched
from torch import Tensor, nn

import dims
from cases import first
from dims.baselines import train_ensemble
from dims.baselines.held_out import split
from dims.baselines.side_by_side import Networks, Schedule, train_side_by_side
from dims.model.training_data import TrainingData

QUIET: dict[str, Any] = {"progress": False}
ONE: dict[str, Any] = {"learning_rate": 0.02, "validation": "none", **QUIET}


def mlp(outputs: int = 1, dtype: torch.dtype = torch.float64) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, outputs)).to(dtype)


def seeds(seed: int, member: int) -> list[int]:
    return np.random.SeedSequence((seed, member)).generate_state(2).tolist()


def first_weights(make: Callable[[], nn.Module], seed: int, member: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeds(seed, member)[0])
        return make()


def train_by_hand(
    model: nn.Module, x: Tensor, y: Tensor, loss: Any, order: int, epochs: int, size: int
) -> Tensor:
    """Adam of torch on one network, with the rate on half a cosine."""
    generator = torch.Generator().manual_seed(order)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=0.1)
    batches = math.ceil(len(x) / size)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: 0.5 * (1 + math.cos(math.pi * step / (epochs * batches)))
    )
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(size):
            optimiser.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            optimiser.step()
            schedule.step()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def conv() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    ).double()


@pytest.mark.parametrize("kind", ["regression", "classes", "images"])
def test_members_are_those_of_torchs_adam_in_a_loop(kind: str) -> None:
    make, (x, y), loss = {
        "regression": (mlp(), regression_data(), lambda f, t: 0.5 * (f - t).square().mean()),
        "classes": (mlp(3), class_data(), nn.functional.cross_entropy),
        "images": (conv, (randn(20, 1, 6, 6), torch.arange(20) % 3), nn.functional.cross_entropy),
    }[kind]
    task = "regression" if kind == "regression" else "classification"
    with untouched():
        draws = train_ensemble(
            make, (x, y), task, 3, **ONE, weight_decay=0.1, epochs=4, batch_size=8, seed=5
        )
    for member in range(3):
        model = first_weights(make, 5, member)
        expected = train_by_hand(model, x, y, loss, seeds(5, member)[1], 4, 8)
        torch.testing.assert_close(draws.parameters[member], expected, rtol=1e-9, atol=1e-9)
    assert draws.method == "deep_ensemble"
    assert draws.seed == 5
    assert draws.settings["batched"]
    assert draws.settings["epochs"] == [4, 4, 4]
    assert draws.settings["seconds"] > 0


def rows_of(count: int, rates: list[float]) -> Networks:
    models = [network(seed) for seed in range(count)]
    thetas = [torch.cat([p.detach().reshape(-1) for p in m.parameters()]) for m in models]
    decays = torch.full((count,), 0.01, dtype=torch.float64)
    return Networks(torch.stack(thetas), torch.tensor(rates).double(), decays, [*range(count)])


def surfaces() -> tuple[dims.LossSurface, dims.LossSurface]:
    """Rows to train on, and held-out rows."""
    x = randn(40, 3, seed=6)
    y = x.sum(1, keepdim=True).sin() + 0.3 * randn(40, 1, seed=7)
    return tuple(
        dims.LossSurface(network(), (x[part], y[part]), dims.Gaussian(), 0.0)
        for part in (slice(0, 28), slice(28, 40))
    )


def run(networks: Networks, until: Any, epochs: int = 30, patience: int = 99) -> Any:
    schedule = Schedule(epochs, batch_size=10, patience=patience)
    return train_side_by_side(surfaces()[0], networks, schedule, until, True, lambda part: None)


@pytest.mark.parametrize("patience", first([3, 99]))
def test_a_member_alone_is_the_member_of_the_batch(patience: int) -> None:
    networks = rows_of(4, [0.003, 0.01, 0.03, 0.1])
    together = run(networks, surfaces()[1], patience=patience)
    for row in range(4):
        alone = run(networks.select(slice(row, row + 1)), surfaces()[1], patience=patience)
        torch.testing.assert_close(alone.thetas[0], together.thetas[row], rtol=1e-10, atol=1e-12)
        assert alone.epochs[0] == together.epochs[row]
        torch.testing.assert_close(alone.scores[0], together.scores[row])


def test_groups_that_suit_a_small_memory_give_the_same_members() -> None:
    networks = rows_of(4, [0.003, 0.01, 0.03, 0.1])
    together = run(networks, surfaces()[1])
    surface, schedule = surfaces()[0], Schedule(30, batch_size=10, patience=99)
    surface.memory_budget = 3 * 10 * surface.bytes_per_point  # three rows, so groups of two
    parts: list[float] = []
    groups = train_side_by_side(surface, networks, schedule, surfaces()[1], True, parts.append)
    assert len(parts) == 2 * 30 + 1
    torch.testing.assert_close(groups.thetas, together.thetas, rtol=1e-10, atol=1e-12)


@functools.cache
def weights_after_every_epoch() -> list[Tensor]:
    networks = rows_of(3, [0.02, 0.05, 0.2])
    return [run(networks, torch.full((3,), epoch)).thetas for epoch in range(1, 31)]


@pytest.mark.parametrize("patience", first([2, 5, 99]))
def test_the_kept_epoch_is_the_best_before_patience_ends(patience: int) -> None:
    networks, held = rows_of(3, [0.02, 0.05, 0.2]), surfaces()[1]
    found = run(networks, held, patience=patience)
    after = weights_after_every_epoch()  # of the same training
    scores = torch.stack([held.value(thetas) / held.points for thetas in after])
    for row in range(3):
        best = 0
        for epoch, score in enumerate(scores[:, row].tolist()):
            if score < scores[best, row]:
                best = epoch
            if epoch - best >= patience:
                break
        assert found.epochs[row] == best + 1
        assert torch.equal(found.thetas[row], after[best][row])
        torch.testing.assert_close(found.scores[row], scores[best, row])


def test_a_linear_ensemble_is_ridge_regression_and_at_rest_on_its_own_loss() -> None:
    x, y = randn(30, 2), randn(30, 1, seed=1)
    draws = train_ensemble(
        lambda: nn.Linear(2, 1, bias=False).double(),
        (x, y),
        "regression",
        2,
        **{**ONE, "learning_rate": 0.1},
        weight_decay=0.2,
        epochs=1500,
        batch_size=30,
    )
    ridge = torch.linalg.solve(x.T @ x + 0.2 * 30 * torch.eye(2, dtype=torch.float64), x.T @ y)
    torch.testing.assert_close(draws.parameters, ridge.T.expand(2, 2), rtol=1e-6, atol=1e-6)
    residual = (y - x @ ridge).square().mean().sqrt()
    assert draws.surface.likelihood.noise_std == pytest.approx(float(residual), rel=1e-6)
    # λN/σ² is the prior under which the members are minima.
    assert float(draws.gradient_norm.max()) < 1e-3


def test_the_best_held_out_score_chooses_rate_and_decay() -> None:
    x, y = randn(60, 3), randn(60, 3, seed=2).sum(1, keepdim=True).tanh()
    held = randn(20, 3, seed=4), randn(20, 1, seed=5)
    options: dict[str, Any] = {"validation": held, "epochs": 12, **QUIET}
    rates, decays = [1e-4, 0.03, 1e200], [0.0, 0.3]
    draws = train_ensemble(
        mlp(), (x, y), "regression", 2, learning_rate=rates, weight_decay=decays, **options
    )
    scores = {}
    for rate in rates[:2]:
        for decay in decays:
            alone = train_ensemble(
                mlp(), (x, y), "regression", 2, learning_rate=rate, weight_decay=decay, **options
            )
            scores[rate, decay] = alone.predict(held[0]).metrics(held[1])["ensemble"]["nll"]
    tried = {(t["learning_rate"], t["weight_decay"]): t["nll"] for t in draws.settings["tried"]}
    assert tried == pytest.approx(scores | dict.fromkeys([(1e200, 0.0), (1e200, 0.3)]))
    best = draws.settings["learning_rate"], draws.settings["weight_decay"]
    assert best == min(scores, key=lambda key: scores[key])
    residuals = draws.predict(held[0]).samples - held[1]
    rms = float(residuals.square().mean().sqrt())
    assert draws.surface.likelihood.noise_std == pytest.approx(rms)
    with pytest.raises(dims.DivergedError, match=r"learning_rate: training diverged at 1e\+200"):
        train_ensemble(mlp(), (x, y), "regression", 2, learning_rate=1e200, **options)
    with pytest.raises(dims.DivergedError, match="diverged"):
        train_ensemble(mlp(), (x, y), "regression", 2, **{**ONE, "learning_rate": 1e200})


def test_a_fraction_is_held_out_for_the_choice_and_then_trained_on() -> None:
    x, y = randn(50, 3), randn(50, 1, seed=1)
    options: dict[str, Any] = {"learning_rate": [0.01, 0.05], "epochs": 15, "batch_size": 16}
    draws = train_ensemble(mlp(), (x, y), "regression", 3, validation=0.2, **options, **QUIET)
    assert draws.settings["held_out"] == 10
    assert draws.surface.points == 50
    everything = TrainingData(x, y)
    kept, held = split(everything, 10, seed=0)
    assert sorted(torch.cat([kept.targets, held.targets])[:, 0].tolist()) == sorted(
        y[:, 0].tolist()
    )
    choice = train_ensemble(mlp(), kept, "regression", 3, validation=held, **options, **QUIET)
    for name in ("learning_rate", "epochs", "tried"):
        assert choice.settings[name] == draws.settings[name]
    assert choice.surface.likelihood == draws.surface.likelihood
    starts = [first_weights(mlp(), 0, member) for member in range(3)]
    rate = torch.full((3,), draws.settings["learning_rate"], dtype=torch.float64)
    thetas = [torch.cat([p.detach().reshape(-1) for p in m.parameters()]) for m in starts]
    orders = [seeds(0, member)[1] for member in range(3)]
    again = train_side_by_side(
        dims.LossSurface(network(), everything, dims.Gaussian(), 0.0),
        Networks(torch.stack(thetas), rate, torch.full_like(rate, 1e-4), orders),
        Schedule(15, 16, 50),
        torch.tensor(draws.settings["epochs"]),
        True,
        lambda part: None,
    )
    torch.testing.assert_close(draws.parameters, again.thetas)


class Branching(nn.Module):
    """It looks at the values of its inputs, which a batched program cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()()

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x if x.isfinite().all() else x.nan_to_num())


def test_a_network_that_cannot_be_batched_is_trained_row_by_row() -> None:
    options: dict[str, Any] = {**ONE, "epochs": 5, "batch_size": 8}
    expected = train_ensemble(mlp(), regression_data(), "regression", 3, **options)
    with pytest.warns(dims.errors.BatchingWarning, match="one after the other"):
        draws = train_ensemble(Branching, regression_data(), "regression", 3, **options)
    torch.testing.assert_close(draws.parameters, expected.parameters)
    assert not draws.settings["batched"]


class Attentive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True)
        self.norm = nn.GroupNorm(2, 4)
        self.out = nn.Linear(4, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.norm(self.encoder(self.embedding(tokens)).mean(1)))


def test_a_module_draws_new_weights_and_stays_as_it_is() -> None:
    model = Attentive()
    nn.init.constant_(model.embedding.weight, 7.0)
    model.embedding.requires_grad_(False)
    data = torch.arange(60).reshape(20, 3) % 7, torch.arange(20) % 3
    with untouched(model):
        draws = train_ensemble(model, data, "classification", 2, **ONE, epochs=3, seed=1)
        again = train_ensemble(model, data, "classification", 2, **ONE, epochs=3, seed=1)
    assert torch.equal(draws.parameters, again.parameters)
    assert draws.settings["batched"]
    assert (draws.surface.module.embedding.weight == 7.0).all()
    assert not torch.allclose(draws.parameters[0], draws.parameters[1])
    trained = copy.deepcopy(draws.surface.module.out.weight)
    assert not torch.allclose(trained, model.out.weight)


def test_an_ensemble_learns_with_its_defaults_and_tells_its_progress() -> None:
    x = randn(120, 3)
    y = (x[:, 0] * x[:, 1] > 0).long()
    parts: list[float] = []
    model = nn.Sequential(nn.Linear(3, 20), nn.ReLU(), nn.Dropout(0.1), nn.Linear(20, 2)).double()
    draws = train_ensemble(
        model, (x[:90], y[:90]), "classification", 3, epochs=60, progress=parts.append
    )
    scores = draws.predict(x[90:]).metrics(y[90:])["ensemble"]
    assert scores["accuracy"] > 0.8
    assert scores["nll"] < 0.9 * math.log(2)
    assert parts == sorted(parts)
    assert parts[-1] == pytest.approx(1.0)
    assert draws.settings["batch_size"] == 16


def test_what_cannot_be_trained_is_refused() -> None:
    data = regression_data()

    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3, 1, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight

    same = network()
    normed = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()
    for model, reason in (
        (Bare(), "no method reset_parameters"),
        (Bare, "same weights"),
        (lambda: same, "same weights"),
        (normed, "GroupNorm"),
    ):
        with pytest.raises(ValueError, match=reason):
            train_ensemble(model, data, "regression", 2, **ONE)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"members": 0}, "members"),
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"patience": 0}, "patience"),
        ({"seed": -1}, "seed"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": []}, "learning_rate: there are none"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"learning_rate": [0.1, 0.2]}, "no held-out rows"),
        ({"validation": "all"}, "validation: expected a fraction"),
        ({"validation": 1.5}, r"validation: .*\(0, 1\)"),
        ({"validation": 0.99}, "leaves too few"),
        ({"validation": None}, "validation: give rows"),
        ({"noise_std": -1.0}, "noise_std"),
    ],
)
def test_bad_arguments_are_refused(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        train_ensemble(
            network=mlp(),
            data=regression_data(),
            likelihood="regression",
            **{**ONE, **wrong},
        )
    for value in (3, lambda: 3):
        with pytest.raises(TypeError, match="network"):
            train_ensemble(value, regression_data(), "regression", **ONE)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_gives_the_draws_of_the_cpu() -> None:
    dropping = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1)).double()
    unseen = randn(15, 3, seed=8), randn(15, 1, seed=9)

    def draw(device: str) -> list[dims.Draws]:
        model = copy.deepcopy(dropping).to(device).eval()
        data, task = regression_data(), "regression"
        trained = train_ensemble(
            lambda: mlp()().to(device), data, task, 3, epochs=5, validation=unseen, **QUIET
        )
        masks = dims.mc_dropout(model, data, task, 4)
        iterates = dims.swag(model, data, task, 4, epochs=4, rank=2, **QUIET)
        return [trained, masks, iterates, dims.temperature_scaling(masks, unseen)]

    for ours, theirs in zip(draw("cuda"), draw("cpu"), strict=True):
        assert ours.parameters.device.type == "cuda"
        torch.testing.assert_close(ours.parameters.cpu(), theirs.parameters, rtol=1e-6, atol=1e-8)
        predicted = ours.predict(unseen[0]).mean.cpu(), theirs.predict(unseen[0]).mean
        torch.testing.assert_close(*predicted, rtol=1e-6, atol=1e-8)
