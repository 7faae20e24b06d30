"""The scikit-learn estimators: its own checks, problems they must learn, seeds, and bad input."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

import dims
from cases import first
from dims.errors import DimsDeprecationWarning, NotAMinimumWarning
from dims.estimators import DimsClassifier, DimsRegressor

FAST: dict[str, Any] = {
    "hidden": (4,),
    "epochs": 100,
    "learning_rate": 0.05,
    "draws": 4,
    "max_time": 0.5,
    "settle": "none",
    "certify": False,
}
# scikit-learn's checks fit a hundred times; what they check does not depend on the sampler.
CHECKED = {"hidden": (2,), "epochs": 30, "learning_rate": 0.1, "draws": 2, "method": "la"}
CHECKED |= {"refine": False}
UNREFINED = FAST | {"hidden": (2,), "epochs": 40, "draws": 2, "max_time": 0.05, "refine": False}

EXPECTED_FAILURES: dict[type, dict[str, str]] = {DimsClassifier: {}, DimsRegressor: {}}
EXPECTED_SKIPS = {"check_array_api_input"}  # runs only where SCIPY_ARRAY_API is set


def moons(points: int = 100) -> tuple[np.ndarray, np.ndarray]:
    return make_moons(points, noise=0.15, random_state=0)


def sine(points: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """A sine in strange units: features around 1000, targets around −50."""
    random = np.random.RandomState(0)
    x = random.uniform(-1.5, 1.5, (points, 1))
    y = np.sin(2 * x[:, 0]) + 0.1 * random.randn(points)
    return 1000 + 100 * x, -50 + 20 * y


# Its data sets are tiny or constant, so the evidence has no maximum; refining is tested below.
@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
@pytest.mark.filterwarnings("ignore::dims.WorseThanBaselineWarning")
@pytest.mark.filterwarnings("ignore::dims.curvature.evidence.EvidenceWarning")
@pytest.mark.usefixtures("unchecked")  # it gives the constructor values of every type
@pytest.mark.parametrize("kind", first([DimsClassifier, DimsRegressor]))
def test_scikit_learn_accepts_the_estimator(kind):
    results = check_estimator(
        kind(**CHECKED),
        expected_failed_checks=EXPECTED_FAILURES[kind],
        on_fail=None,
        on_skip=None,
    )
    ended = {status: [] for status in ("passed", "skipped", "failed", "xfail")}
    for result in results:
        ended[result["status"]].append((result["check_name"], result["exception"]))
    assert ended["failed"] == []
    assert {name for name, _ in ended["skipped"]} <= EXPECTED_SKIPS
    assert len(ended["passed"]) > 40


@pytest.mark.parametrize("method", first(["dims", "rla"]))
def test_classifier_learns_moons(method):
    given = FAST | {"hidden": (8,), "epochs": 200, "method": method}
    if method == "rla":
        given |= {"settle": "default", "certify": None}
    model = DimsClassifier(**given, random_state=0).fit(*moons(150))
    test = make_moons(200, noise=0.15, random_state=1)
    assert model.score(*test) > 0.9
    assert model.posterior_.gradient_norm < 1e-3
    assert len(model.draws_) == 4
    assert model.draws_.method == method


@pytest.fixture(scope="module")
def regressor() -> DimsRegressor:
    return DimsRegressor(**FAST | {"epochs": 300, "draws": 10}, random_state=0).fit(*sine())


@pytest.fixture(scope="module")
def classifier() -> DimsClassifier:
    return DimsClassifier(**FAST, random_state=0).fit(*moons())


def test_regressor_learns_a_sine_in_the_units_of_y(regressor):
    (x, y), model = sine(), regressor
    mean, std = model.predict(x, return_std=True)
    assert model.score(x, y) > 0.9
    assert np.array_equal(mean, model.predict(x))
    assert 1.0 < np.median(std) < 5.0  # the noise has σ = 2
    assert 0.8 < np.mean(np.abs(y - mean) < 2 * std) <= 1.0


def test_uncertainty_grows_away_from_the_data(regressor):
    model = regressor
    _, inside = model.predict([[950.0], [1000.0], [1050.0]], return_std=True)
    _, outside = model.predict([[500.0], [1500.0]], return_std=True)
    assert outside.min() > 1.5 * inside.max()
    known, strange = model.score_samples([[1000.0], [1500.0]])
    assert known > strange


def test_intervals_and_quantiles_are_those_of_the_mixture_in_the_units_of_y(regressor):
    """Simulated targets of the weighted draws fall below a quantile as often as it says."""
    (x, _), model = sine(), regressor
    low, high = model.interval(x, 0.9)
    np.testing.assert_allclose(low, model.quantile(x, 0.05))
    predictive = model.draws_.predict(torch.as_tensor(x))
    weights = torch.full((len(predictive.outputs),), 1.0, dtype=torch.float64)
    weights = weights if predictive.weights is None else predictive.weights
    torch.manual_seed(0)
    chosen = torch.multinomial(weights, 20000, replacement=True)
    means = predictive.outputs[chosen, :, 0]
    y = (means + predictive.noise_std * torch.randn_like(means)).numpy()
    y = y * model.target_scale_ + model.target_mean_
    np.testing.assert_allclose((y < low).mean(axis=0), 0.05, atol=0.01)
    np.testing.assert_allclose((y > high).mean(axis=0), 0.05, atol=0.01)


def test_score_samples_are_log_densities_in_the_units_of_y(regressor):
    """They integrate to 1, and agree with the metric of `draws_` but for the change of units."""
    (x, y), model = sine(), regressor
    grid = np.linspace(-150, 50, 4001)
    density = np.exp(model.score_samples(np.full((4001, 1), 1020.0), grid))
    assert density.sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-6)
    standard = (y - model.target_mean_) / model.target_scale_
    nll = model.draws_.predict(torch.as_tensor(x)).metrics(standard[:, None])
    nll = nll["ensemble"]["nll"]
    expected = -nll - np.log(model.target_scale_[0])
    assert model.score_samples(x, y).mean() == pytest.approx(expected)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score_samples(x, y[:-1])


def test_score_samples_of_classes(classifier):
    (x, y), model = moons(), classifier
    probabilities = model.predict_proba(x)
    scores = model.score_samples(x, y)
    np.testing.assert_allclose(scores, np.log(probabilities[np.arange(len(y)), y]))
    entropy = -(probabilities * np.log(probabilities)).sum(axis=1)
    np.testing.assert_allclose(model.score_samples(x), -entropy, atol=1e-12)
    assert np.isneginf(model.score_samples(x[:1], [7])).all()


def test_the_network_alone_can_be_compared_with(regressor):
    (x, _), model = sine(), regressor
    alone = model.network_only()
    network = model.posterior_.surface.module
    outputs = network(torch.as_tensor(x)).detach().numpy()[:, 0]
    expected = outputs * model.target_scale_ + model.target_mean_
    np.testing.assert_allclose(alone.predict(x), expected)
    assert len(model.draws_) == 10


def test_training_alone_gives_what_fit_starts_from(regressor):
    x, y = sine()
    module, (inputs, targets), task = DimsRegressor(**regressor.get_params()).train(x, y)
    surface = regressor.posterior_.surface
    assert task == "regression"
    assert torch.equal(inputs, surface.data.inputs)
    assert torch.equal(targets, surface.data.targets)
    for mine, theirs in zip(module.parameters(), surface.module.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_words_as_targets_and_misspelt_arguments_are_told_in_own_words():
    x = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=r"y: .*'good'.* take DimsClassifier"):
        DimsRegressor().fit(x, ["good", "bad"] * 10)
    with pytest.raises(TypeError, match=r"DimsRegressor\(hiden=...\): .* is it hidden="):
        DimsRegressor(hiden=(3,))
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        DimsRegressor(colour=3)
    with pytest.raises(TypeError, match=r"fit\(validaton=...\)"):
        dims.fit(None, None, "regression", validaton=None)


def test_weights_of_rows_are_refused_with_a_reason():
    x, y = sine()
    model = DimsRegressor(**FAST)
    with pytest.raises(TypeError, match=r"sample_weight: the loss .* counts every row once"):
        model.fit(x, y, sample_weight=np.ones(len(y)))
    with pytest.raises(TypeError, match="unknown arguments weights"):
        model.fit(x, y, weights=1)


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_names_of_features_are_kept_and_checked():
    x, y = sine()
    frame = pd.DataFrame({"size": x[:, 0], "other": x[:, 0] ** 2})
    model = DimsRegressor(**UNREFINED, random_state=0).fit(frame, y)
    assert list(model.feature_names_in_) == ["size", "other"]
    assert model.predict(frame).shape == (60,)
    with pytest.raises(ValueError, match="Feature names"):
        model.predict(frame.rename(columns={"size": "length"}))


# So few steps and draws may lose to the network alone on 15 rows, which is not the point here.
@pytest.mark.filterwarnings("ignore:.*worse than the network alone")
def test_several_classes_with_names():
    x, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = DimsClassifier(**FAST, random_state=0).fit(x, names)
    probabilities = model.predict_proba(x)
    assert list(model.classes_) == ["setosa", "versicolor", "virginica"]
    assert probabilities.shape == (150, 3)
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert set(model.predict(x)) <= set(names)
    assert model.score(x, names) > 0.93


def test_binary_probabilities_follow_the_order_of_the_classes():
    x, y = moons()
    names = np.where(y == 1, "a", "b")
    model = DimsClassifier(**FAST, random_state=0).fit(x, names)
    assert list(model.classes_) == ["a", "b"]
    assert model.posterior_.surface.outputs == 1
    assert (model.predict_proba(x)[:, 0] > 0.5).tolist() == (model.predict(x) == "a").tolist()
    assert model.score(x, names) > 0.8


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")  # the second one is not refined
def test_several_outputs_keep_their_own_units():
    x, y = sine()
    both = np.stack([y, -1e4 * y], axis=1)
    model = DimsRegressor(**FAST | {"epochs": 300}, random_state=0).fit(x, both)
    mean, std = model.predict(x, return_std=True)
    assert mean.shape == std.shape == both.shape
    assert model.score(x, both) > 0.9
    column = DimsRegressor(**UNREFINED, random_state=0).fit(x, y[:, None])
    assert column.predict(x).shape == (60, 1)


def test_draws_take_features_as_they_are(classifier):
    (x, _), model = moons(), classifier
    predictive = model.draws_.predict(torch.as_tensor(x))
    assert np.array_equal(predictive.probabilities.numpy(), model.predict_proba(x))
    assert predictive.mutual_information.shape == (100,)


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")  # ten rows judge, and it is not refined
def test_same_random_state_same_draws_and_no_global_seed():
    x, y = moons()
    before = torch.get_rng_state()
    first, same, other = (
        DimsClassifier(**UNREFINED, random_state=seed).fit(x, y).draws_.parameters
        for seed in (3, 3, 4)
    )
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_random_state_object_goes_on():
    x, y = moons()
    random = np.random.RandomState(0)
    model = DimsClassifier(**UNREFINED, random_state=random)
    first = model.fit(x, y).draws_.parameters
    assert not torch.equal(first, model.fit(x, y).draws_.parameters)
    model.set_params(random_state=np.random.RandomState(0))
    assert torch.equal(first, model.fit(x, y).draws_.parameters)


def test_parameters_survive_clone_and_set_params():
    model = DimsRegressor(hidden=(3, 2), friction=0.5, random_state=1)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(draws=7, method="rla").draws == 7
    assert model.draws != 7
    assert "friction=0.5" in repr(model)


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_settings_reach_the_sampler():
    small = UNREFINED | {"max_time": 0.5}
    model = DimsRegressor(**small | {"friction": 0.7, "gravity": 2.0}, random_state=0).fit(*sine())
    settings = model.draws_.settings
    assert (settings["friction"], settings["gravity"], settings["max_time"]) == (0.7, 2.0, 0.5)
    fixed = DimsRegressor(**small, prior_precision=0.3, random_state=0).fit(*sine())
    assert fixed.posterior_.prior_precision == pytest.approx(0.3)
    assert fixed.posterior_.noise_std != 1.0


def test_pickle_predicts_the_same(regressor):
    (x, _), model = sine(), regressor
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(x), model.predict(x))


@pytest.mark.slow
def test_grid_search_over_a_pipeline():
    x, y = moons()
    pipeline = make_pipeline(MinMaxScaler(), DimsClassifier(**FAST, random_state=0))
    grid = {"dimsclassifier__hidden": [(2,), (6,)], "dimsclassifier__draws": [2]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(x, y)
    assert search.best_score_ > 0.8
    assert search.best_estimator_["dimsclassifier"].n_features_in_ == 2


def test_slope_at_the_start_is_told_where_refining_is_off():
    with pytest.warns(NotAMinimumWarning, match="refine=True"):
        DimsRegressor(**FAST | {"refine": False, "epochs": 5}, random_state=0).fit(*sine())


def test_draws_that_end_early_are_told(monkeypatch):
    monkeypatch.setattr("dims.mechanics.status.Status.ok", False)
    with pytest.warns(ConvergenceWarning, match="4 of 4 draws ended early"):
        DimsRegressor(**FAST, random_state=0).fit(*sine())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"activation": "relu"}, "activation: 'relu' is unknown; there are gelu, silu, tanh"),
        ({"hidden": (4, 0)}, "hidden: expected widths"),
        ({"hidden": (2.5,)}, "hidden: expected widths"),
        ({"hidden": 8}, "hidden: expected widths"),
        ({"epochs": -1}, "epochs: expected a whole number, at least 0"),
        ({"epochs": 2.5}, "epochs: expected a whole number"),
        ({"learning_rate": 0.0}, "learning_rate: must be positive and finite"),
        ({"learning_rate": 1e300}, "learning_rate: training diverged"),
        ({"weight_decay": -0.1}, "weight_decay: must be finite and not negative"),
        ({"draws": 0}, "draws: expected a whole number, at least 1"),
        ({"method": "hmc"}, "method: 'hmc' is unknown; there are la, linla, rla, dims"),
        ({"method": "la"}, "max_time: it has no meaning for method 'la'"),
        ({"curvature": "round"}, "curvature|structure"),
        ({"random_state": "x"}, "cannot be used to seed"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_settings_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        DimsClassifier(**FAST | given).fit(*moons(20))


@pytest.mark.filterwarnings("ignore::dims.WorseThanBaselineWarning")  # twenty rows
def test_bad_data_are_refused():
    x, y = moons(20)
    model = DimsClassifier(**FAST, random_state=0)
    with pytest.raises(NotFittedError):
        model.predict(x)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(x > 1, np.nan, x), y)
    with pytest.raises(ValueError, match="one class only"):
        model.fit(x, np.zeros(20))
    with pytest.raises(ValueError, match="Unknown label type"):
        model.fit(x, x[:, 0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(x, y[:-1])
    with pytest.raises(ValueError, match="expecting 2 features"):
        model.fit(x, y).predict(x[:, :1])


@pytest.mark.parametrize("kind", [DimsClassifier, DimsRegressor])
def test_the_old_name_of_draws_still_works_with_a_warning(kind):
    with pytest.warns(DimsDeprecationWarning, match="n_draws=.*use draws="):
        model = kind(n_draws=3)
    assert model.draws == 3
    assert "n_draws" not in model.get_params()
    assert clone(model).draws == 3
    with pytest.warns(DimsDeprecationWarning, match="n_draws=.*use draws="):
        assert model.set_params(n_draws=5) is model
    assert model.get_params()["draws"] == 5


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")  # it is not refined
def test_a_sampler_object_is_a_method_too():
    x, y = sine()
    shared = {"hidden": (2,), "epochs": 20, "draws": 2, "random_state": 0, "refine": False}
    sampler = dims.DiMS(friction=0.5, max_time=0.1, settle="none", certify=False)
    by_object = DimsRegressor(**shared, method=sampler).fit(x, y)
    by_name = DimsRegressor(**shared, friction=0.5, max_time=0.1, settle="none", certify=False).fit(
        x, y
    )
    np.testing.assert_array_equal(by_object.predict(x), by_name.predict(x))
    assert clone(by_object).method == sampler


def test_scikit_learn_is_imported_only_where_it_is_used():
    script = """
import sys
sys.modules["curvlinops"] = sys.modules["laplace"] = None  # not needed either
import dims
assert "sklearn" not in sys.modules, "import dims imported scikit-learn"
sys.modules["sklearn"] = None
try:
    import dims.estimators
except ImportError as error:
    assert "pip install 'dims[sklearn]'" in str(error), error
else:
    raise AssertionError("no ImportError")
del sys.modules["sklearn"]
sys.modules["pandas"] = None
try:
    import dims.estimators.tables
except ImportError as error:
    assert "pip install 'dims[tables]'" in str(error), error
else:
    raise AssertionError("no ImportError")
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_the_activation_is_chosen_by_the_task_where_none_is_given():
    x, y = sine()
    kinds = {}
    for name, model, targets in (
        ("numbers", DimsRegressor, y),
        ("classes", DimsClassifier, (y > np.median(y)).astype(int)),
    ):
        made = model(**FAST, random_state=0).train(x, targets)[0]
        kinds[name] = {type(layer) for layer in made} & {nn.SiLU, nn.Tanh}
    assert kinds == {"numbers": {nn.SiLU}, "classes": {nn.Tanh}}
    own = DimsRegressor(**FAST, activation="tanh", random_state=0).train(x, y)[0]
    assert any(isinstance(layer, nn.Tanh) for layer in own)


def test_a_bump_is_seen_in_forty_rows():
    """With tanh units prior and noise take it for noise: an error of two thirds of its size."""
    random = np.random.RandomState(0)
    x = random.uniform(-2, 2, (540, 4))
    y = 3 * np.exp(-(x**2).sum(1) / 4) + 0.5 * x[:, 0]
    errors = []
    for activation in (None, "tanh"):
        how = {"activation": activation, "draws": 5, "random_state": 0}
        model = DimsRegressor(**how).fit(x[:40], y[:40])
        errors.append(np.sqrt(((model.predict(x[40:]) - y[40:]) ** 2).mean()) / y.std())
    assert errors[0] < 0.5 < errors[1]
