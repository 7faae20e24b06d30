"""What a person prints is short, and a table in notebooks, with the numbers in it."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
import torch

import dims
from dims.baselines.verdict import Scores
from dims.estimators import tables
from dims.prediction.stacking import stack
from dims.sampling.draws.mixture import Mixture
from dims.sampling.estimate import Estimate
from draws_problems import mlp, random_inputs


@pytest.fixture(scope="module")
def posterior() -> dims.Posterior:
    inputs = random_inputs(12, 3)
    given = {"prior_precision": 0.5, "noise_std": 0.3, "tune": False}
    return dims.fit(mlp(3, 1), (inputs, inputs[:, :1]), "regression", refine=True, **given)


@pytest.fixture(scope="module")
def shown(posterior) -> dict[str, object]:
    surface = posterior.surface
    draws = posterior.sample(4, "la", progress=False)
    classifier = dims.LossSurface(
        mlp(3, 2), (random_inputs(6, 3), torch.arange(6) % 2), "classification"
    )
    made = dims.Draws.from_parameters(classifier, classifier.initial.repeat(2, 1))
    return {
        "posterior": posterior,
        "draws": draws,
        "regression": draws.predict(random_inputs(5, 3)),
        "classification": made.predict(random_inputs(7, 3)),
        "positions": dims.PositionPredictive(torch.randn(2, 3, 4, 2).log_softmax(-1)),
        "ordinal": dims.OrdinalPredictive(torch.randn(2, 3, 4).log_softmax(-1)),
        "poisson": dims.DistributionPredictive(
            torch.distributions.Poisson(torch.ones(2, 3)), lambda targets: targets
        ),
        "surface": surface,
        "data": surface.data,
        "function": dims.Surface(torch.linalg.norm),
        "curvature": posterior.curvature,
        "precision": posterior.curvature.precision_for(surface),
        "trajectories": dims.integrate(
            surface, posterior.map_parameters, posterior.perturbations(2), max_time=0.01
        ),
        "settled": dims.settle(surface, draws.parameters[:2]),
        "certificates": dims.certify(surface, draws.parameters[:2]),
        "mixture": Mixture(posterior.map_parameters, torch.tensor([0.25, 0.75]), 40, 0.1, 0.02),
        "stacking": stack(torch.randn(5, 2), ["network", "draws"]),
        "estimate": Estimate(2_000_000, None, 12.3456),
        "vector": surface.vector,
    }


EXPECTED = {
    "posterior": r"Posterior\(parameters=\d+, points=12, likelihood=Gaussian\(noise_std=0.3\), "
    r"prior_precision=0.5, curvature=FullCurvature, gradient_norm=\S+, log_marg\w+=\S+\)",
    "draws": r"Draws\(4 by 'la', \d+ parameters\)",
    "regression": r"RegressionPredictive\(members=4, points=5, outputs=1\)",
    "classification": r"ClassificationPredictive\(members=2, points=7, outputs=2\)",
    "positions": r"PositionPredictive\(members=2, points=3, outputs=8\)",
    "ordinal": r"OrdinalPredictive\(members=2, points=3, outputs=4\)",
    "poisson": r"DistributionPredictive\(members=2, points=3, outputs=1\)",
    "data": r"TrainingData\(points=12, inputs=float\[3\], targets=float\[1\]\)",
    "surface": r"LossSurface\(parameters=\d+, points=12, likelihood=.*, prior_precision=0.5\)",
    "function": r"Surface\(function=.*norm\)",
    "curvature": r"FullCurvature\(parameters=\d+, dtype=torch.float\d\d\)",
    "precision": r"CholeskyPrecision\(parameters=\d+, dtype=torch.float\d\d\)",
    "trajectories": r"Trajectories\(trajectories=2, parameters=\d+, times=1, ended=2 FINISHED, "
    r"evaluations=\d+\)",
    "settled": r"Settled\(rows=2, ended=.*, largest_gradient_norm=\S+, largest_displacement=\S+\)",
    "certificates": r"Certificates\(rows=2, verdicts=.*, smallest_eigenvalue=\S+\)",
    "mixture": r"Mixture\(network=0.25, times=\[\], end=0.75, held_out=40, gain=0.1 ± 0.02\)",
    "stacking": r"Stacking\(weights=network \S+ draws \S+, rows=5, gap=\S+\)",
    "estimate": r"Estimate\(memory=2 MB, free_memory=unknown, seconds=12.35\)",
    "vector": r"ParameterVector\(parameters=\d+, tensors=\d+, dtype=torch.float\d\d\)",
}

# Settings, each with what it prints.
SETTINGS = {
    "LA()": dims.LA(),
    "LinLA()": dims.LinLA(),
    "RLA(max_time=0.5, ": dims.RLA(max_time=0.5),
    "DiMS(friction=0.5, ": dims.DiMS(friction=0.5),
    "Rattle()": dims.Rattle(),
    "Rattle(tolerance=0.001, turn=0.1)": dims.Rattle(tolerance=1e-3, turn=0.1),
    "Dopri5(tolerance=1e-05)": dims.Dopri5(tolerance=1e-5),
    "MovingMetric(turn=10.0, rank=7, ": dims.MovingMetric(rank=7),
    "AtRest(kinetic_energy=0.1, gradient_norm=10.0)": dims.AtRest(0.1, 10.0),
    "Dynamics(gravity=1.0, friction=SpeedFriction(coefficient=0.1))": dims.dissipative(1.0, 0.1),
    "Dynamics(gravity=0.0, friction=None)": dims.geodesic(),
    "ConstantFriction(coefficient=0.1)": dims.ConstantFriction(0.1),
    "SpeedFriction(coefficient=0.1)": dims.SpeedFriction(0.1),
    "Ray(address=None, threads=2, retries=3)": dims.Ray(threads=2),
    "Gaussian(noise_std=0.1235)": dims.Gaussian(0.123456789),
    "GaussianPerOutput(noise_stds=(0.1, 0.3333))": dims.GaussianPerOutput((0.1, 1 / 3)),
    "HeteroscedasticGaussian(min_noise_std=0.001, noise_factor=1.0)": (
        dims.HeteroscedasticGaussian()
    ),
    "Bernoulli(label_smoothing=0.0)": dims.Bernoulli(),
    "Categorical(label_smoothing=0.05)": dims.Categorical(0.05),
    "MultiLabelBernoulli()": dims.MultiLabelBernoulli(),
    "Ordinal(cutpoints=(0.0, 1.0))": dims.Ordinal((0.0, 1.0)),
    "Poisson()": dims.Poisson(),
    "PositionCategorical(classes=3, ": dims.PositionCategorical(3),
    "StudentT(degrees=4, scale=1)": dims.StudentT(),
    "DimsClassifier(": dims.DimsClassifier(),
    "DimsRegressor(": dims.DimsRegressor(),
}
# What nobody prints: contracts that others implement, and the state of a solver.
NOT_PRINTED = {"Friction", "Likelihood", "Predictive", "RowState", "Sampler", "Solver"}
SHOWN_ELSEWHERE = {"Comparison", "Status"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_print_is_one_short_line_and_a_notebook_gets_the_same_facts(shown, name):
    line, cell = repr(shown[name]), shown[name]._repr_html_()
    assert re.fullmatch(EXPECTED[name], line), line
    assert len(line) <= 200
    assert "tensor(" not in line + cell
    if name == "draws":
        assert "4 draws by &#x27;la&#x27;" in cell
        return
    for value in values_of(line):
        assert value in cell, (value, cell)


@pytest.mark.parametrize("line", SETTINGS)
def test_settings_are_a_short_line_and_a_table_of_all_of_them(line):
    settings = SETTINGS[line]
    assert repr(settings).startswith(line)
    assert len(repr(settings)) <= 200
    cell = settings._repr_html_()
    if not dataclasses.is_dataclass(settings):  # scikit-learn's own
        assert type(settings).__name__ in cell
        return
    for name in (field.name for field in dataclasses.fields(settings)):
        value = getattr(settings, name)
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        assert name.replace("_", " ") in cell
        assert html.escape(text) in cell


@pytest.fixture(scope="module")
def of_tables(tmp_path_factory) -> dict[str, object]:
    path = tmp_path_factory.mktemp("shown") / "t.csv"
    rows = [f"{i}.5,{'ab'[i % 2]},{i}.25" for i in range(20)]
    path.write_text("\n".join(["<b>size</b>,side,price", *rows]))
    kinds = {"<b>size</b>": "number", "side": "category"}
    table = tables.read(path, kinds, "price", "regression")
    half = Scores(np.array([-1.0, -2.0]), np.array([0.5, 0.5]), np.array([True, False]))
    scores = {"network and draws": half, "network alone": half}
    return {
        "Table": table,
        "TextTable": tables.read_text(path),
        "Evaluation": tables.Evaluation("regression", scores, pd.DataFrame({"a": [1, 2]}), ""),
        "Scores": half,
        "Format": table.format,
        "classes": tables.read(path, {"price": "number"}, "side", "classification"),
        "new": tables.read_inputs(path, kinds),
    }


TABLES = {
    "Table": r"Table\(rows=20, columns=2 \(<b>size</b>; side\), target=numbers, missing_cells=0, "
    r"notes=0\)",
    "TextTable": r"TextTable\(file=t.csv, rows=20, columns=3 \(<b>size</b>; side; price\), "
    r"missing_cells=0, separator=','\)",
    "Evaluation": r"Evaluation\(task=regression, held_out_rows=2, NLL=network and draws 1.5; "
    r"network alone 1.5, warnings=\d\)",
    "Scores": r"Scores\(rows=2, mean_log_score=-1.5, mean_error=0.5, mean_covered=0.5\)",
    "Format": r"Format\(separator=',', decimal='.', encoding='utf-8'\)",
    "classes": r"Table\(rows=20, columns=1 \(price\), target=2 classes, .*",
    "new": r"Table\(.*target=not known.*",
}


@pytest.mark.parametrize("name", TABLES)
def test_what_is_read_from_a_file_is_one_short_line_too(of_tables, name):
    line, cell = repr(of_tables[name]), of_tables[name]._repr_html_()
    assert re.fullmatch(TABLES[name], line), line
    assert len(line) <= 200
    assert "<b>size" not in cell
    for value in values_of(line):
        assert html.escape(value.strip("'")) in cell


def test_a_table_with_many_long_names_is_one_short_line(tmp_path):
    names = [f"a very long name of a column {i}" for i in range(50)]
    rows = [",".join(f"{i}.{j}" for j in range(50)) for i in range(12)]
    (tmp_path / "t.csv").write_text("\n".join([",".join(names), *rows]))
    read = tables.read(
        tmp_path / "t.csv", dict.fromkeys(names[:-1], "number"), names[-1], "regression"
    )
    for line in (repr(read), repr(tables.read_text(tmp_path / "t.csv"))):
        assert "(a very long ; a very long ; a very long ; a very long ; …)" in line
        assert len(line) <= 200


def test_everything_that_is_exported_is_looked_at(shown):
    classes = {
        name
        for name in dims.__all__
        if isinstance(getattr(dims, name), type) and not issubclass(getattr(dims, name), Exception)
    }
    seen = {type(each).__name__ for each in (*shown.values(), *SETTINGS.values())}
    assert classes - seen == NOT_PRINTED | SHOWN_ELSEWHERE
    assert all(hasattr(getattr(dims, name), "_repr_html_") for name in SHOWN_ELSEWHERE - {"Status"})


def test_everything_that_tables_export_is_looked_at(of_tables):
    exported = {getattr(tables, name) for name in tables.__all__}
    classes = {each.__name__ for each in exported if isinstance(each, type)}
    assert classes - set(of_tables) == {"Column"}  # a kind and a reason, printed as they are


def test_a_list_of_statuses_is_read_for_its_names():
    assert repr([dims.Status.FINISHED] * 2) == "[Status.FINISHED, Status.FINISHED]"


def test_metrics_are_a_table():
    metrics = dims.metrics.regression_metrics(
        torch.tensor([[[1.0]], [[3.0]]]), torch.tensor([[2.0]]), 1.0
    )
    line = next(line for line in repr(metrics).splitlines() if line.startswith("rmse"))
    assert line.split() == ["rmse", "0", "1", "±", "0"]
    cell = metrics._repr_html_()
    assert ">rmse</th><td>0</td><td style='text-align:left'>1 ± 0</td>" in cell
    assert metrics == dict(metrics) == json.loads(json.dumps(metrics))


def test_metrics_of_one_draw_have_no_error():
    metrics = dims.metrics.regression_metrics(torch.tensor([[[1.0]]]), torch.tensor([[2.0]]), 1.0)
    assert "nan" not in repr(metrics) + metrics._repr_html_()


def values_of(line: str) -> Iterator[str]:
    for found in re.finditer(r"\w+=([^,()]+)", line.split("(", 1)[1]):
        yield found[1]


def test_text_of_a_user_is_not_html():
    def function(theta):
        return theta.sum()

    function.__name__ = "<script>"
    assert "<script>" not in dims.Surface(function)._repr_html_()
