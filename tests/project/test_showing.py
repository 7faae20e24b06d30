"""What a person prints is one short line, and a table in notebooks, with the numbers in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch

import dims
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
        "surface": surface,
        "function": dims.Surface(torch.linalg.norm),
        "curvature": posterior.curvature,
        "precision": posterior.curvature.precision_for(surface),
        "trajectories": dims.integrate(
            surface, posterior.map_parameters, posterior.perturbations(2), max_time=0.01
        ),
        "settled": dims.settle(surface, draws.parameters[:2]),
        "certificates": dims.certify(surface, draws.parameters[:2]),
    }


EXPECTED = {
    "posterior": r"Posterior\(parameters=\d+, points=12, likelihood=Gaussian\(noise_std=0.3\), "
    r"prior_precision=0.5, curvature=FullCurvature, gradient_norm=\S+, log_marg\w+=\S+\)",
    "draws": r"Draws\(4 by 'la', \d+ parameters\)",
    "regression": r"RegressionPredictive\(draws=4, points=5, outputs=1\)",
    "classification": r"ClassificationPredictive\(draws=2, points=7, outputs=2\)",
    "positions": r"PositionPredictive\(draws=2, points=3, outputs=8\)",
    "surface": r"LossSurface\(parameters=\d+, points=12, likelihood=.*, prior_precision=0.5\)",
    "function": r"Surface\(function=.*norm\)",
    "curvature": r"FullCurvature\(parameters=\d+, dtype=torch.float\d\d\)",
    "precision": r"CholeskyPrecision\(parameters=\d+, dtype=torch.float\d\d\)",
    "trajectories": r"Trajectories\(trajectories=2, parameters=\d+, times=1, ended=2 FINISHED, "
    r"evaluations=\d+\)",
    "settled": r"Settled\(rows=2, ended=.*, largest_gradient_norm=\S+, largest_displacement=\S+\)",
    "certificates": r"Certificates\(rows=2, verdicts=.*, smallest_eigenvalue=\S+\)",
}


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


def values_of(line: str) -> Iterator[str]:
    for found in re.finditer(r"\w+=([^,()]+)", line.split("(", 1)[1]):
        yield found[1]


def test_text_of_a_user_is_not_html():
    def function(theta):
        return theta.sum()

    function.__name__ = "<script>"
    assert "<script>" not in dims.Surface(function)._repr_html_()
