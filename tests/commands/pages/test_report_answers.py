"""What the page of a user's run says about predictions, prior, weights and advice."""

from __future__ import annotations

import json
import runpy
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import dims
from dims.commands import app
from dims.commands.pages.answers import _candidates
from dims.commands.pages.predicted import predicted
from dims.commands.pages.read import read_page
from dims.curvature.evidence import log_marginal_likelihood
from dims.errors import ReportError
from dims.sampling.draws.advice import advice_on
from dims.sampling.findings import found_by

SOURCE = """
import torch
from torch import nn

def rows(first, last):
    x = torch.linspace(-2, 2, 60).double().unsqueeze(1)[first:last:2]
    return x, torch.sin(2 * x) + 0.1 * torch.cos(40 * x)

def problem():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    x, y = rows(0, 60)
    for _ in range(300):
        optimiser.zero_grad()
        (model(x) - y).square().mean().backward()
        optimiser.step()
    return model, (x, y), "regression", rows(1, 60)

def without_rows():
    return problem()[:3]
"""


def call(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("problem") / "waves_problem.py"
    file.write_text(SOURCE)
    return file


@pytest.fixture(scope="module")
def run(source) -> Path:
    """A store of `dims sample` with held-out rows, and a file of the same draws."""
    store = source.parent / "run"
    how = ("--draws", 4, "--max-time", 0.2, "--friction", 1, "--settle", "none", "--quiet")
    how += ("--follow", 2)
    kept = ("--store", store, "--out", source.parent / "draws.safetensors")
    code, _, error = call("sample", f"{source}:problem", *how, *kept, "--tune-at-minimum")
    assert code == 0, error
    return store


def section(page: dict, name: str):
    return page["runs"][0].get(name)


def rows_of(page: dict, name: str) -> list[list]:
    return next(table["rows"] for table in page["tables"] if table["id"] == name)


def test_a_run_with_held_out_rows_shows_what_it_predicts(run):
    page = read_page(run)
    names = [entry["method"] for entry in section(page, "calibration")]
    assert names == ["DiMS", "network alone"]
    assert section(page, "calibration_axes") == ["level of the interval", "coverage"]
    assert len(section(page, "residuals")[0]["x"]) == 30
    assert len(section(page, "functions")[0]["mean"]) == len(section(page, "grid"))
    assert sum(section(page, "weights").values()) == pytest.approx(1, abs=1e-5)
    assert list(section(page, "weights")) == ["network", "t = 0.0666667", "end", "widened"]
    curve = section(page, "evidence")
    facts = dict(page["facts"])
    score = (
        "leave_one_out" if "leave-one-out" in facts["choice of prior and noise"] else "log_evidence"
    )
    best = max(curve, key=lambda point: point[score])
    assert [point["chosen"] for point in curve].count(True) == 1
    assert best["chosen"]
    assert "at the minimum of each candidate" in facts["choice of prior and noise"]
    assert "of the uncertainty on the training data" in facts["disagreement of the draws"]
    disagreement = rows_of(page, "disagreement")
    amounts = [row[1] for row in disagreement]
    assert amounts == sorted(amounts, reverse=True)
    x = torch.linspace(-2, 2, 60).double()[1::2]
    assert all(row[5] == pytest.approx(float(x[row[0]]), rel=1e-4) for row in disagreement)


@pytest.fixture(scope="module")
def draws(run, source) -> tuple[dims.Draws, torch.Tensor, torch.Tensor]:
    """The draws of the run and its held-out rows, for values computed apart from the page."""
    names = runpy.run_path(str(source))
    model, data, _, rows = names["problem"]()
    return dims.load(run.parent / "draws.safetensors", model, data), *rows


def same(shown: list, exact: torch.Tensor) -> None:
    """A page has five digits of every number."""
    numbers = torch.tensor(shown, dtype=torch.float64)
    torch.testing.assert_close(numbers, exact.reshape(numbers.shape), rtol=6e-5, atol=1e-12)


def test_residuals_and_coverage_are_those_of_the_prediction(run, draws):
    page, (drawn, x, y) = read_page(run), draws
    alone = dims.Draws.from_parameters(drawn.surface, drawn.mixture.network.unsqueeze(0))
    made = drawn.predict(x), alone.predict(x)
    shown = section(page, "residuals")[0]
    same(shown["x"], made[0].mean)
    same(shown["y"], (y - made[0].mean) / made[0].variance.sqrt())
    near = sum(abs(value) <= 2 for value in shown["y"])
    assert section(page, "within_two") == pytest.approx(near / len(y))
    for diagram, prediction in zip(section(page, "calibration"), made, strict=True):
        assert diagram["inputs"] == [len(y)] * len(diagram["confidence"])
        for level, coverage in zip(diagram["confidence"], diagram["accuracy"], strict=True):
            low, high = prediction.interval(level)
            inside = (low <= y) & (y <= high)
            assert coverage == pytest.approx(float(inside.double().mean()))


def test_bands_along_the_input_are_those_of_the_prediction(run, draws):
    page, (drawn, _, _) = read_page(run), draws
    low, high = drawn.surface.data.inputs.min(), drawn.surface.data.inputs.max()
    margin = 0.25 * (high - low)
    grid = torch.linspace(float(low - margin), float(high + margin), 161, dtype=torch.float64)
    same(section(page, "grid"), grid)
    prediction = drawn.predict(grid.unsqueeze(1))
    (shown,) = section(page, "functions")
    same(shown["mean"], prediction.mean)
    same(shown["inner"], prediction.epistemic.sqrt())
    same(shown["std"], (prediction.epistemic + prediction.aleatoric).sqrt())
    every = max(1, len(prediction.samples) // 20)
    same(shown["curves"], prediction.samples[::every, :, 0])


def test_the_loss_along_the_paths_goes_from_the_network_to_the_draws(run, draws):
    page, (drawn, _, _) = read_page(run), draws
    stored = json.loads((run / "trajectories.json").read_text())["trajectories"]
    paths = section(page, "trajectories")
    assert [path["loss"] for path in paths] == [path["loss"] for path in stored]
    assert [path["times"] for path in paths] == [path["times"] for path in stored]
    start = drawn.surface.value(drawn.map_parameters.unsqueeze(0))
    same([path["loss"][0] for path in paths], start.expand(2))
    # The solver changes its steps to reach the saved times, so ends agree to its accuracy only.
    assert [path["loss"][-1] for path in paths] == pytest.approx(drawn.loss[:2].tolist(), rel=1e-3)


def test_candidates_are_in_order_and_one_scored_twice_has_one_line():
    def point(prior: float, score: float | None, chosen: bool) -> dict:
        return {
            "prior_precision": prior,
            "noise_std": 0.1,
            "leave_one_out": score,
            "chosen": chosen,
        }

    merged = _candidates([point(1.0, None, True), point(0.1, None, False), point(1.0, 5.0, False)])
    assert merged == [point(0.1, None, False), point(1.0, 5.0, True)]


def test_advice_and_warnings_of_the_terminal_are_on_the_page(source, tmp_path):
    how = ("--method", "la", "--draws", 3, "--quiet", "--json", "--store", tmp_path / "run")
    # With this curvature prior and noise are tuned at the given weights, which are not a minimum.
    how += ("--curvature", "diagonal")
    code, out, error = call("sample", f"{source}:without_rows", *how)
    assert code == 0
    page = read_page(tmp_path / "run")
    said = json.loads(out)["advice"]
    assert said
    assert set(said) <= set(page["advice"])
    warned = [line.removeprefix("dims: ") for line in error.splitlines() if "not a minimum" in line]
    assert warned
    assert any(warned[0].split(":")[-1] in line for line in page["advice"])
    assert any("no held-out rows" in line for line in page["advice"])
    assert section(page, "calibration") is None
    assert rows_of(page, "disagreement")


def test_a_file_alone_says_what_is_missing_and_a_problem_adds_it(run, source):
    file = run.parent / "alone.safetensors"
    file.write_bytes((run.parent / "draws.safetensors").read_bytes())
    facts = dict(read_page(file)["facts"])
    assert "--problem" in facts["predictions"]
    assert "not in this run" in facts["choice of prior and noise"]
    page = read_page(file, f"{source}:problem")
    assert "predictions" not in dict(page["facts"])
    whole = read_page(run)
    for name in ("calibration", "residuals", "functions", "weights"):
        assert section(page, name) == section(whole, name)
    assert page["advice"] == [line for line in whole["advice"] if line in page["advice"]]
    code, out, _ = call("report", file, "--problem", f"{source}:problem")
    assert (code, "Report:" in out) == (0, True)
    code, _, error = call("report", file, "--problem", f"{source}:nothing")
    assert (code, "has no function" in error) == (2, True)


def test_a_problem_adds_to_a_store_what_the_run_found(run, source, tmp_path):
    """Weights and widening are those of the run, which the files of a store do not hold."""
    store = tmp_path / "again"
    shutil.copytree(run, store)
    (store / "predictions.json").unlink()
    page, whole = read_page(store, f"{source}:problem"), read_page(run)
    assert section(page, "weights") == pytest.approx(section(whole, "weights"), abs=1e-5)
    assert section(page, "calibration") == section(whole, "calibration")
    shown, known = section(page, "functions")[0], section(whole, "functions")[0]
    assert shown["mean"] == pytest.approx(known["mean"], abs=1e-4)
    assert shown["std"] == pytest.approx(known["std"], abs=1e-4)


def test_a_damaged_chunk_is_named_with_the_command(run, tmp_path):
    store = tmp_path / "run"
    store.mkdir()
    for file in run.iterdir():
        (store / file.name).write_bytes(file.read_bytes())
    chunk = store / "chunk_00000.safetensors"
    content = bytearray(chunk.read_bytes())
    content[-5] ^= 1
    chunk.write_bytes(bytes(content))
    code, _, error = call("report", store)
    assert code == 2
    assert "chunk_00000.safetensors" in error
    assert "run the `dims sample` command of this run" in " ".join(error.split())


@pytest.mark.parametrize("refit", [False, True])
def test_a_page_says_whether_held_out_rows_were_learnt(run, tmp_path, refit):
    file = tmp_path / "draws.safetensors"
    file.write_bytes((run.parent / "draws.safetensors").read_bytes())
    weighed = {"weights": {"network": 0.5, "end": 0.5}, "held_out": 3, "gain": [0.1, 0.2]}
    findings = {"advice": [], **weighed, **({"refit": True} if refit else {})}
    file.with_suffix(".findings.json").write_text(json.dumps(findings))
    note = section(read_page(file), "weights_note")
    assert "3 held-out rows chose these weights" in note
    assert ("The draws have learnt these rows since" in note) is refit


ODD = {
    "findings": ["[]", "{", "{}", '{"advice": 3}', '{"advice": [], "prior": 7}'],
    "predictions": ["[]", "{", '{"warnings": 3}', '{"disagreement": 7}', '{"held_out": "many"}'],
}


@pytest.mark.parametrize(("name", "content"), [(n, text) for n in ODD for text in ODD[n]])
def test_odd_files_beside_draws_are_named(run, tmp_path, name, content):
    file = tmp_path / "draws.safetensors"
    file.write_bytes((run.parent / "draws.safetensors").read_bytes())
    file.with_suffix(f".{name}.json").write_text(content)
    with pytest.raises(ReportError, match=f"draws.{name}.json: cannot be shown"):
        read_page(file)


def posterior_of(tune: bool = True) -> dims.Posterior:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    x = torch.randn(30, 2, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dims.NotAMinimumWarning)
        return dims.fit(model, (x, (x[:, 0] > 0).long()), "classification", tune=tune)


def test_the_curve_of_the_evidence_is_the_evidence():
    posterior = posterior_of()
    draws = posterior.sample(2, "la", progress=False)
    found = found_by(posterior, draws)
    assert found["advice"] == advice_on(draws)
    curve = found["prior"]["curve"]
    assert len(curve) == 13
    for point in curve:
        exact = log_marginal_likelihood(
            posterior.surface,
            posterior.map_parameters,
            posterior.curvature,
            prior_precision=point["prior_precision"],
        )
        assert point["log_evidence"] == pytest.approx(exact, rel=1e-4)
    assert found_by(posterior_of(tune=False), draws)["prior"]["curve"] == []


def test_classes_have_a_reliability_diagram_and_counts_of_right_answers():
    posterior = posterior_of()
    draws = posterior.sample(5, "la", progress=False)
    x = torch.randn(40, 2, dtype=torch.float64)
    rows = dims.model.training_data.TrainingData(x, (x[:, 0] > 0).long())
    found = predicted(draws, posterior.surface.data, rows)
    assert found["missing"] == []
    assert found["calibration_axes"] == ["confidence", "accuracy"]
    assert sum(found["calibration"][0]["inputs"]) == 40
    assert "residuals" not in found
    right = int((draws.predict(x).mean.argmax(1) == rows.targets).sum())
    assert sum(found["classes"]["right"]) == right
    assert sum(found["classes"]["wrong"]) == 40 - right
    shown = found["disagreement"]["rows"][0]
    information = draws.predict(x).mutual_information
    assert shown[0] == int(information.argmax())
    assert "functions" not in found  # two inputs


def test_rows_are_numbered_as_in_the_data_where_only_some_are_predicted(monkeypatch):
    monkeypatch.setattr("dims.commands.pages.predicted.MOST_TRAINING", 5)
    posterior = posterior_of(tune=False)
    inputs = posterior.surface.data.inputs
    found = predicted(posterior.sample(3, "la", progress=False), posterior.surface.data, None)
    rows = found["disagreement"]["rows"]
    assert found["disagreement"]["names"] == ["x0", "x1"]
    assert max(row[0] for row in rows) > 5
    assert all(row[5] == pytest.approx(float(inputs[row[0], 0]), rel=1e-4) for row in rows)
