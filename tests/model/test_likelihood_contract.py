"""Every likelihood keeps the contract, shipped or not, and one from outside goes all the way."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributions, nn

import dims
from cases import first
from conformance.likelihoods import check_likelihood
from dims.commands.pages.read import read_page
from dims.model.likelihoods import base
from dims.prediction.predictive import DistributionPredictive
from dims.sampling.draws import storage
from draws_problems import draws_of, problem
from own_likelihoods import Poisson, SoftplusPoisson, StudentT


def outputs_of(points: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(points + width)
    return torch.randn(points, width, generator=generator, dtype=torch.float64)


COUNTS = torch.tensor([[0, 1], [3, 0], [2, 7], [1, 1], [0, 0]])

CASES: dict[str, tuple[dims.Likelihood, Tensor, Tensor, bool]] = {
    "gaussian": (dims.Gaussian(0.3), outputs_of(5, 2), outputs_of(6, 2)[:5], True),
    "heteroscedastic": (
        dims.HeteroscedasticGaussian(0.1),
        outputs_of(5, 4),
        outputs_of(6, 2)[:5],
        True,
    ),
    "bernoulli": (dims.Bernoulli(), outputs_of(5, 1), torch.arange(5) % 2, True),
    "smoothed bernoulli": (dims.Bernoulli(0.2), outputs_of(5, 1), torch.arange(5) % 2, False),
    "categorical": (dims.Categorical(), outputs_of(5, 3), torch.arange(5) % 3, True),
    "smoothed categorical": (dims.Categorical(0.2), outputs_of(5, 3), torch.arange(5) % 3, False),
    "own poisson": (Poisson(), outputs_of(5, 2), COUNTS, True),
    "softplus poisson": (SoftplusPoisson(), outputs_of(5, 2), COUNTS, True),
    "own student": (StudentT(5.0, 0.4), outputs_of(5, 2), outputs_of(6, 2)[:5], True),
    "per output": (
        dims.GaussianPerOutput((0.1, 3.0)),
        outputs_of(5, 2),
        outputs_of(6, 2)[:5],
        True,
    ),
    "student": (dims.StudentT(5.0, 0.4), outputs_of(5, 2), outputs_of(6, 2)[:5], True),
    "poisson": (dims.Poisson(), outputs_of(5, 2), COUNTS, True),
    "multi-label": (dims.MultiLabelBernoulli(), outputs_of(5, 2), COUNTS.clamp(max=1), True),
    "ordinal": (dims.Ordinal((-0.5, 0.1, 1.0)), outputs_of(5, 1), torch.arange(5) % 4, True),
    "tokens": (dims.PositionCategorical(3), outputs_of(5, 6), COUNTS % 3, True),
    "pixels": (dims.PositionCategorical(3, 1, 7), outputs_of(5, 6), COUNTS % 3, True),
}


@pytest.mark.parametrize("case", list(CASES))
def test_likelihoods_keep_the_contract(case: str) -> None:
    likelihood, outputs, targets, density = CASES[case]
    check_likelihood(likelihood, outputs, targets, density=density)


class WrongQuantiles(DistributionPredictive):
    def quantile(self, q: Any) -> Tensor:
        return super().quantile(q) + 5


def wrong_quantiles(outputs: Tensor) -> WrongQuantiles:
    check = functools.partial(Poisson().check_targets, outputs[0])
    return WrongQuantiles(Poisson().distribution(outputs), check)


class Broken(Poisson):
    """A name of its own, so that only what a test changes is wrong."""

    name = "broken"


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("negative_log", lambda self, f, y: f.exp() - y * f, "one number per point"),
        ("negative_log", lambda self, f, y: (f.exp() - y * f).sum(-1) / 0, "NaN or infinite at"),
        ("negative_log", lambda self, f, y: (f.exp() - 2 * y * f).sum(-1), "depend on the outputs"),
        ("distribution", lambda self, f: distributions.Poisson(2 * f.exp()), "depend on the out"),
        ("output_hessian", lambda self, f: torch.diag_embed(2 * f.exp()), "Fisher information"),
        ("output_hessian", lambda self, f: -torch.diag_embed(f.exp()), "not semidefinite"),
        ("output_hessian", lambda self, f: f.exp(), "output_hessian: expected"),
        ("torch_loss", lambda self: (nn.MSELoss(reduction="sum"), 1.0), "torch_loss"),
        ("noise_std", 0.5, "constant does not grow"),
        ("predictive", lambda self, f: dims.Gaussian(1.0).predictive(f), "predictive: 'per_sample"),
        ("predictive", lambda self, f: wrong_quantiles(f), r"quantile\(0.8\) has a share of"),
        ("settings", lambda self: {"rate": 2.0}, "do not make the object again"),
        ("name", "own_poisson", "belongs to another class"),
    ],
)
def test_a_broken_contract_is_named(
    member: str, value: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Broken, member, value)
    if member == "noise_std":
        monkeypatch.setattr(Broken, "with_noise", lambda self, noise_std: self)
    with pytest.raises(AssertionError, match=message):
        check_likelihood(Broken(), outputs_of(5, 2), COUNTS)


@pytest.mark.parametrize("width", [1, 2])
def test_a_loss_that_is_not_summed_over_outputs_is_named(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = outputs_of(6, 2)
    counts = torch.ones(6, width)
    model = nn.Linear(2, width).double()
    monkeypatch.setattr(Broken, "negative_log", lambda self, f, y: f.exp() - y * f)
    message = r"negative_log of Broken must return one number per point, shape \(6,\).*\.sum\(-1\)"
    with pytest.raises(ValueError, match=message):
        dims.fit(model, (x, counts), Broken(), tune=True)
    # Summed over the wrong axis, which a single network does not show.
    monkeypatch.setattr(Broken, "negative_log", lambda self, f, y: (f.exp() - y * f).sum(1))
    with pytest.raises(ValueError, match=r"shape \(2, 6\) for outputs \(2, 6, \d\)"):
        dims.fit(model, (x, counts), Broken(), tune=True)


def test_the_default_hessian_is_that_of_the_shipped_ones() -> None:
    for likelihood, width in ((dims.Gaussian(0.3), 2), (dims.Bernoulli(), 1)):
        outputs = outputs_of(4, width)
        default = dims.Likelihood.output_hessian(likelihood, outputs)
        torch.testing.assert_close(default, likelihood.output_hessian(outputs))


def test_the_default_predictive_is_that_of_a_gaussian() -> None:
    outputs, targets = outputs_of(12, 2).view(3, 4, 2), outputs_of(4, 2)
    likelihood = dims.Gaussian(0.3)
    expected = likelihood.predictive(outputs)
    found = dims.Likelihood.predictive(likelihood, outputs)
    assert isinstance(found, DistributionPredictive)
    for name in ("samples", "mean", "aleatoric", "epistemic", "variance"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name))
    for reading, values in found.metrics(targets).items():
        assert set(values) == {"nll", "rmse", "coverage"}
        wanted = expected.metrics(targets)[reading]
        assert values == pytest.approx({name: wanted[name] for name in values})
    for q in (0.02, 0.5, [0.1, 0.9]):
        torch.testing.assert_close(found.quantile(q), expected.quantile(q))
    far = dims.Likelihood.predictive(likelihood, 9 * outputs)
    assert found.ood_metrics(far) == expected.ood_metrics(likelihood.predictive(9 * outputs))


def test_names_are_registered_once() -> None:
    with pytest.raises(ValueError, match=r"'gaussian' belongs to .*shipped.Gaussian"):
        type("Other", (Poisson,), {"name": "gaussian"})
    assert base.likelihood_class("gaussian") is dims.Gaussian

    def again() -> type[dims.Likelihood]:
        class Twice(Poisson):
            name = "twice"

        return Twice

    first, second = again(), again()
    assert first is not second
    assert base.likelihood_class("twice") is second  # a cell of a notebook was run again


def test_objects_show_what_they_are() -> None:
    assert repr(Poisson()) == "Poisson()"
    assert repr(StudentT(5.0)) == "StudentT(degrees=5.0, scale=1.0)"
    assert Poisson().settings() == {}
    assert StudentT(5.0).settings() == {"degrees": 5.0, "scale": 1.0}
    with pytest.raises(ValueError, match="noise_std: 'own_poisson' has no noise"):
        dims.fit(
            nn.Linear(2, 1), (torch.zeros(3, 2), torch.ones(3)), Poisson(), noise_std=0.1, tune=True
        )


def counts_problem() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(40, 2, dtype=torch.float64)
    y = torch.poisson((0.5 + x[:, 0]).exp())
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(150):
        optimiser.zero_grad()
        loss = Poisson().negative_log(model(x), y.unsqueeze(-1)).sum()
        (loss + 0.5 * sum(p.square().sum() for p in model.parameters())).backward()
        optimiser.step()
    return model, x, y


@pytest.mark.filterwarnings("ignore:θ. is not a minimum")
@pytest.mark.parametrize("structure", first(["diagonal", "full", "low_rank", "kronecker"]))
def test_a_likelihood_from_outside_goes_all_the_way(
    structure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x, y = counts_problem()
    posterior = dims.fit(model, (x, y), Poisson(), curvature=structure, rank=8, tune=True)
    assert posterior.noise_std is None
    assert posterior.evidence is not None
    draws = posterior.sample(3, "dims", max_time=0.5, progress=False)
    predictive = draws.predict(x)
    torch.testing.assert_close(predictive.mean, predictive.aleatoric)  # as Poisson has it
    scores = predictive.metrics(y)
    network_alone = distributions.Poisson(y.mean()).log_prob(y)
    assert scores["ensemble"]["nll"] < -network_alone.mean().item()
    assert set(scores["per_sample"]) == {"nll", "rmse"}
    assert 0 <= predictive.ood_metrics(draws.predict(5 * x))["ensemble"]["auroc_variance"] <= 1
    path = tmp_path / "run.safetensors"
    draws.save(path)
    for data in (None, (x, y)):
        loaded = dims.load(path, model, data)
        assert isinstance(loaded.surface.likelihood, Poisson)
        assert torch.equal(loaded.predict(x).samples, predictive.samples)
    assert "Poisson()" in draws.summary()
    # A program that has not imported the class reports it, and says what loading needs.
    monkeypatch.delitem(base._CLASSES, "own_poisson")
    assert ["likelihood", "own_poisson()"] in read_page(path)["facts"]
    with pytest.raises(dims.DrawsFileError, match=r"'own_poisson' is unknown; import the module"):
        dims.load(path, model)


def test_settings_travel_with_the_file(tmp_path: Path) -> None:
    model = nn.Linear(2, 1).double()
    x = outputs_of(6, 2)
    surface = dims.LossSurface(model, (x, x[:, 0]), StudentT(3.0, 0.2))
    draws = dims.Draws(
        parameters=surface.initial.unsqueeze(0),
        method="la",
        surface=surface,
        map_parameters=surface.initial,
    )
    path = tmp_path / "run.safetensors"
    draws.save(path)
    assert dims.load(path, model).surface.likelihood == StudentT(3.0, 0.2)
    assert ["likelihood", "own_student_t(degrees=3.0, scale=0.2)"] in read_page(path)["facts"]
    text, tensors = storage.read(path)
    fields = json.loads(text) | {"likelihood_settings": {"degrees": 3.0, "width": 1}}
    storage.write(path, tensors, json.dumps(fields), overwrite=True)
    with pytest.raises(dims.DrawsFileError, match=r"bad 'likelihood_settings'.*width"):
        dims.load(path, model)


def test_settings_that_a_file_cannot_hold_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    surface = problem("one output")[0].with_settings(likelihood=StudentT())
    monkeypatch.setattr(StudentT, "settings", lambda self: {"scale": torch.ones(1)})
    with pytest.raises(TypeError, match=r"likelihood: settings\(\) of StudentT .*Tensor"):
        draws_of(surface).save(tmp_path / "run")


def test_the_old_name_of_data_still_works() -> None:
    model = nn.Linear(2, 1).double()
    x = outputs_of(6, 2)
    options: dict[str, Any] = {"tune": False, "prior_precision": 1.0, "refine": True}
    expected = dims.fit(model, data=(x, x[:, 0]), likelihood="regression", **options)
    with pytest.warns(dims.DimsDeprecationWarning, match=r"fit\(train_data=...\).*use data"):
        found = dims.fit(model, train_data=(x, x[:, 0]), likelihood="regression", **options)
    assert torch.equal(found.map_parameters, expected.map_parameters)
