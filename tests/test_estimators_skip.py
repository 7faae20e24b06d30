"""The skip connection of an estimator's network: straight lines from few rows."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline

import dims
from dims.estimators import tables
from dims.estimators.care import CLEAR_STRAIGHT_LINE, explains_nothing

pytestmark = pytest.mark.filterwarnings("ignore::dims.DimsWarning")
LA: dict[str, Any] = {"method": "la", "draws": 20, "random_state": 0}


def wide_table(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Thirty columns, of which two matter; as much noise as there is signal in one of them."""
    random = np.random.RandomState(seed)
    x = random.randn(rows, 30)
    return x, x[:, 0] - x[:, 1] + random.randn(rows)


def noise_table(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    return random.randn(rows, 5), random.randn(rows)


@pytest.fixture(scope="module")
def straight() -> dims.DimsRegressor:
    with warnings.catch_warnings():
        warnings.simplefilter("error", dims.WorseThanBaselineWarning)
        return dims.DimsRegressor(**LA).fit(*wide_table(60))


def test_few_rows_of_many_columns_are_learned_as_a_linear_model_learns_them(
    straight: dims.DimsRegressor,
) -> None:
    fresh = wide_table(1000, seed=1)
    ridge = BayesianRidge().fit(*wide_table(60))
    assert straight.skip_
    assert straight.score(*fresh) > 0.9 * ridge.score(*fresh) > 0.3
    agreement = np.corrcoef(straight.predict(fresh[0]), ridge.predict(fresh[0]))[0, 1]
    assert agreement > 0.97


def test_without_it_nothing_is_learned_from_such_a_table() -> None:
    with pytest.warns(dims.WorseThanBaselineWarning, match="the mean"):
        plain = dims.DimsRegressor(**LA, skip=False).fit(*wide_table(60))
    assert not plain.skip_
    assert abs(plain.score(*wide_table(1000, seed=1))) < 0.05


def test_it_is_only_tried_where_nothing_else_is_found() -> None:
    x = np.linspace(-3, 3, 30)[:, None]
    y = np.sin(x[:, 0]) + 0.1 * np.random.RandomState(0).randn(30)
    curved = dims.DimsRegressor(**LA).fit(x, y)
    assert not curved.skip_
    plain = dims.DimsRegressor(**LA, skip=False).fit(x, y)
    np.testing.assert_array_equal(curved.predict(x), plain.predict(x))


@pytest.mark.parametrize("seed", [1, 3])
def test_a_straight_line_through_noise_is_not_believed(seed: int) -> None:
    with pytest.warns(dims.WorseThanBaselineWarning, match="the mean"):
        model = dims.DimsRegressor(**LA).fit(*noise_table(40, seed))
    assert not model.skip_
    assert np.std(model.predict(noise_table(200, 9)[0])) < 0.1


@pytest.mark.parametrize(("rows", "columns"), [(20, 1), (40, 10), (60, 30), (300, 5)])
def test_about_one_table_of_noise_in_200_has_a_line_with_so_much_evidence(
    rows: int, columns: int
) -> None:
    """The evidence of a linear model, y ~ N(0, σ²(I + XXᵀ/λ)), at its best σ and λ."""
    random, gains = np.random.RandomState(0), []
    lams = np.exp(np.linspace(math.log(1e-2), math.log(1e5), 60))
    for _ in range(3000):
        x, y = random.randn(rows, columns), random.randn(rows)
        x, y = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
        left, sizes, _ = np.linalg.svd(x, full_matrices=False)
        growth = 1 + sizes**2 / lams[:, None]
        inside = (left.T @ y) ** 2
        squares = rows - inside.sum() + (inside / growth).sum(1)
        evidence = -0.5 * (rows * np.log(squares / rows) + np.log(growth).sum(1))
        gains.append(evidence.max())
    assert np.mean(np.array(gains) > CLEAR_STRAIGHT_LINE) < 0.0065
    assert np.mean(np.array(gains) > 1) > 0.03  # what other answers need is too little here


def test_training_alone_finds_the_same_network(straight: dims.DimsRegressor) -> None:
    model = dims.DimsRegressor(**LA)
    network, _, _ = model.train(*wide_table(60))
    assert model.skip_
    weights = torch.nn.utils.parameters_to_vector(network.parameters())
    assert torch.equal(weights, straight.posterior_.surface.initial)


def test_a_classifier_can_have_one() -> None:
    x, y = wide_table(60)
    settings = LA | {"hidden": (4,), "refine": False}
    model = dims.DimsClassifier(**settings, skip=True).fit(x, y > 0)
    assert model.skip_
    assert not dims.DimsClassifier(**settings).fit(x, y > 0).skip_
    names = [name for name, _ in model.posterior_.surface.module.named_parameters()]
    assert "1.linear.weight" in names


def test_a_word_for_a_flag_is_refused() -> None:
    with pytest.raises(TypeError, match="skip: expected True or False"):
        dims.DimsRegressor(skip="no").fit(*wide_table(60))
    with pytest.raises(TypeError, match="skip: expected True or False"):
        dims.DimsRegressor(skip="no").train(*wide_table(60))
    with pytest.raises(ValueError, match="hidden: expected widths"):
        dims.DimsRegressor(hidden=8).train(*wide_table(60))


def test_equal_targets_are_no_reason_to_fail() -> None:
    x, _ = noise_table(30, 0)
    model = dims.DimsRegressor(**LA, hidden=(3,)).fit(x, np.full(30, 7.0))
    np.testing.assert_allclose(model.predict(x), 7.0, atol=1e-2)


def test_a_search_among_what_was_learned_by_heart_goes_on_to_the_best_evidence() -> None:
    """A network that knows sixty rows by heart is near maxima that are worse than no weights."""
    with pytest.warns(dims.WorseThanBaselineWarning):
        model = dims.DimsRegressor(**LA | {"random_state": 2}, skip=False).fit(
            *wide_table(60, seed=1002)
        )
    assert not explains_nothing(model.posterior_, least=-1.0)
    assert model.posterior_.noise_std > 0.3


def test_a_program_says_so_and_takes_it_from_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"m{number}" for number in range(30)]
    rows = [",".join(f"{v:.4f}" for v in (*a, b)) for a, b in zip(*wide_table(60), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join([",".join([*names, "y"]), *rows]))
    kinds = dict.fromkeys(names, "number")
    known = tables.read(tmp_path / "t.csv", kinds, "y", "regression")

    def learned() -> Any:
        model = make_pipeline(tables.preparation(kinds), dims.DimsRegressor(**LA))
        return tables.learned(model, known, tmp_path / "kept")

    first, again = learned(), learned()
    assert "Not trained again" in capsys.readouterr().out
    assert again[-1].skip_
    features = first[:-1].transform(known.inputs)
    np.testing.assert_array_equal(first[-1].predict(features), again[-1].predict(features))
    said = tables.described(again, known)
    assert (
        "\nshape         close to a straight line, because nothing was found without one\n" in said
    )
