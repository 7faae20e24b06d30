"""Additional baselines: stacked training, kept rows, the reference solver, the pages."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import dims
from dims import DiMS
from dims.commands.pages.read import read_page
from dims.mechanics.dynamics import geodesic
from dims.mechanics.integrate import integrate
from dims.mechanics.solvers.dopri5 import Dopri5
from dims.model.training import Training, perceptron
from dims.sampling.samplers import SAMPLERS
from dims_paper.cache import load_runs
from dims_paper.experiments.additional import AdditionalSettings, run_additional, run_rows
from dims_paper.experiments.problem import Problem
from dims_paper.experiments.reference import Stopwatch
from dims_paper.pages.results import gather
from dims_paper.pages.tabular import label
from dims_paper.pages.write import write_pages
from dims_paper.schema import Row, Run, joined
from dims_paper.scoring import Evaluation
from dims_paper.training import Task, train_together

ROOT = Path(__file__).parents[2]
SEEDS = (5, 9, 2)
SETTINGS = AdditionalSettings(
    members=2, swag_epochs=2, swag_rank=2, reference_draws=2, resting_time=3.0
)


def small_task(dropout: float = 0.0, batch_size: int | None = 4) -> Task:
    inputs = torch.linspace(-1, 1, 11, dtype=torch.float64).unsqueeze(-1)
    return Task(
        lambda: perceptron((1, 4, 1), nn.Tanh, dropout),
        inputs,
        torch.sin(3 * inputs),
        nn.functional.mse_loss,
        Training(epochs=12, batch_size=batch_size, learning_rate=0.05),
    )


def small_problem(task: Task | None = None) -> Problem:
    task = task or small_task()

    def outputs(_: dims.Draws, found: dict) -> dict:
        return {"outputs": found["test"].samples.squeeze(-1).tolist()}

    evaluation = Evaluation({"test": (task.inputs, task.targets)}, figure=outputs)
    return Untuned(
        name="small_0", experiment="small", dataset="small", task=task, likelihood="regression",
        evaluation=evaluation, draws=3, seed=0, rla_time=0.3, frictions=(0.5,), max_time=0.3,
    )  # fmt: skip


class Untuned(Problem):
    """A problem whose evidence is not looked at, which would take most of the time."""

    def posterior(self, model: nn.Module) -> dims.Posterior:
        data = (self.task.inputs, self.task.targets)
        return dims.fit(model, data, "regression", tune=False, noise_std=0.3)


def parameters(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach()


@dataclass(frozen=True)
class Brief(DiMS):
    """The defaults but for the time, of which a test has little."""

    max_time: float = 0.5


@pytest.fixture
def brief(monkeypatch):
    monkeypatch.setattr("dims.DiMS", Brief)
    monkeypatch.setitem(SAMPLERS, "dims", Brief)


@pytest.mark.parametrize("batch_size", [4, None])
def test_networks_trained_together_are_those_trained_alone(batch_size):
    task = small_task(batch_size=batch_size)
    before = torch.get_rng_state()
    together = task.train_together(SEEDS)
    assert torch.equal(torch.get_rng_state(), before)
    assert not any(model.training for model in together)
    for seed, model in zip(SEEDS, together, strict=True):
        alone = parameters(task.train(seed))
        assert (alone - parameters(task.fresh(seed))).norm() > 0.1
        torch.testing.assert_close(parameters(model), alone, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_every_member_has_its_own_dropout(dropout):
    task = small_task(dropout, batch_size=None)
    twins = [task.fresh(1), task.fresh(1)]
    rest = (task.inputs, task.targets, task.loss, task.training, (1, 2))
    first, second = (parameters(model) for model in train_together(twins, *rest))
    assert torch.equal(first, second) == (dropout == 0)


@pytest.mark.usefixtures("brief", "unchecked")
@pytest.mark.filterwarnings("ignore:θ. is not a minimum")
def test_rows_are_what_their_names_say(tmp_path):
    problem = small_problem()
    result = run_additional(problem, SETTINGS, tmp_path)
    rows = {row.method: row for row in result.rows}
    by_reference = ["RLA (reference solver)", "DiMS (reference solver)"]
    assert list(rows) == ["Ensemble", "SWAG", "DiMS defaults", *by_reference]
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["small_0_additional.json"]

    def outputs(method: str) -> Tensor:
        return torch.tensor(rows[method].figure["outputs"], dtype=torch.float64)

    inputs = problem.task.inputs
    members = [problem.task.train(seed) for seed in (1000, 1001)]
    alone = torch.stack([member(inputs).squeeze(-1) for member in members]).detach()
    torch.testing.assert_close(outputs("Ensemble"), alone, rtol=1e-8, atol=1e-10)
    assert outputs("SWAG").shape == (3, 11)

    posterior = problem.posterior(problem.task.train(0))
    assert result.facts["gradient_norm"] == posterior.gradient_norm

    def drawn(count: int, **how) -> Tensor:
        draws = posterior.sample(count, seed=0, progress=False, **how)
        return posterior.surface.predict(draws.parameters, inputs).squeeze(-1)

    close = {"rtol": 1e-9, "atol": 1e-9}
    resting = dims.DiMS(max_time=3.0, settle="stiff", metric="euclidean")
    torch.testing.assert_close(outputs("DiMS defaults"), drawn(3, method=resting), **close)
    assert rows["DiMS defaults"].diagnostics["verdict"]
    assert Dopri5().tolerance * Dopri5().absolute_factor == pytest.approx(1e-6)
    how = {"solver": "dopri5", "tolerance": 1e-7, "precondition": False, "max_time": 0.3}
    reference = drawn(2, method="rla", **how)
    torch.testing.assert_close(outputs(by_reference[0]), reference, **close)
    how |= {"friction": 0.5, "settle": "none", "certify": False, "metric": "euclidean"}
    reference = drawn(2, method="dims", **how)
    torch.testing.assert_close(outputs(by_reference[1]), reference, **close)
    # So short a time is easy for both solvers: they agree, and the speed of RLA stays.
    both = rows[by_reference[0]], rows[by_reference[0]].rattle
    ours = drawn(2, method="rla", precondition=False, max_time=0.3)
    torch.testing.assert_close(ours, outputs(by_reference[0]), rtol=0, atol=0.02)
    nll = [row.metric("test", "nll") for row in both]
    assert nll[0] == pytest.approx(nll[1], abs=0.02)
    for row in both:
        assert row.diagnostics["kinetic_ratio"] == pytest.approx([1, 1], abs=1e-2)


@pytest.mark.slow
@pytest.mark.usefixtures("brief", "unchecked")
@pytest.mark.filterwarnings("ignore:θ. is not a minimum")
def test_rows_are_kept_and_the_network_is_trained_once(tmp_path):
    task = small_task()
    assert not run_rows(small_problem(task), SETTINGS, tmp_path, [])
    idle = replace(task, loss=lambda *_: pytest.fail("trained again"))
    names = ["swag", "defaults", "reference-rla", "reference-dims-0.5"]
    assert not run_rows(small_problem(idle), SETTINGS, tmp_path, names)
    (tmp_path / "small_0_additional.parts" / "half.json").write_text("{}")
    assert load_runs(tmp_path) == []
    assert run_rows(small_problem(task), SETTINGS, tmp_path, ["ensemble"])
    assert len(run_additional(small_problem(idle), SETTINGS, tmp_path).rows) == 5
    assert len(load_runs(tmp_path)) == 1
    for path in tmp_path.glob("*.parts/*"):
        path.unlink()
    assert len(run_additional(small_problem(idle), SETTINGS, tmp_path).rows) == 5


@pytest.mark.filterwarnings("ignore:θ. is not a minimum")
def test_a_row_that_is_too_expensive_says_so(tmp_path):
    settings = replace(SETTINGS, reference_limit=0.0)
    run_rows(small_problem(), settings, tmp_path, ["reference-rla"])
    kept = json.loads((tmp_path / "small_0_additional.parts/reference-rla.row").read_text())
    row = Row.from_json(kept["row"])
    assert row.note.startswith("not affordable: 0 of 2 draws in ")
    assert row.diagnostics["status"] == ["OUT_OF_TIME"] * 2
    assert "test" not in row.scores
    assert row.rattle.diagnostics["status"] == ["FINISHED"] * 2
    assert all(0 < reached < 0.3 for reached in row.diagnostics["reached"])


@pytest.mark.filterwarnings("ignore:θ. is not a minimum")
def test_an_interrupted_batch_goes_on_bitwise_identical_with_its_seconds(tmp_path):
    problem = small_problem()
    posterior = problem.posterior(problem.task.train(0))

    def ends(watch: Stopwatch | None) -> Tensor:
        return integrate(
            posterior.surface, posterior.map_parameters, posterior.perturbations(2),
            dynamics=geodesic(), max_time=1.0, solver="dopri5", stop=watch, checkpoint=watch,
        ).end  # fmt: skip

    class Interrupted(Stopwatch):
        def offer(self, pack) -> None:
            if self.path.exists():
                raise KeyboardInterrupt
            super().offer(pack)

    path = tmp_path / "batch.safetensors"
    first = Interrupted(path, limit=math.inf, every=0.0)
    first.before = 100.0
    with pytest.raises(KeyboardInterrupt):
        ends(first)
    second = Stopwatch(path, limit=math.inf)
    assert torch.equal(ends(second), ends(None))
    assert second.seconds > 100


def fake_run(seed: int, additional: bool, rows: list[Row], norm: float = 2.0) -> Run:
    return Run(
        experiment="uci",
        dataset="glass",
        seed=seed,
        facts={"protocol": "bnn-predictions", "gradient_norm": norm},
        rows=rows,
        additional={"members": 5} if additional else None,
    )


def fake_row(method: str, nll: float | None, eta0: float | None = None, **fields) -> Row:
    names = ("accuracy", "nll", "brier_sum", "ece", "mce", "auroc")
    row = Row(method=method, eta0=eta0, seconds=6.0, **fields)
    if nll is None:
        return row
    scores = {"per_sample": dict.fromkeys(names, nll)}
    scores["ensemble"] = dict.fromkeys(names, nll / 2)
    return replace(row, scores={"train": scores, "test": scores})


def test_rows_join_the_run_of_their_seed():
    base = [fake_run(seed, False, [fake_row("MAP", 1.0)]) for seed in (0, 1)]
    later = [
        fake_run(0, True, [fake_row("SWAG", 0.5)]),
        fake_run(1, True, [fake_row("SWAG", 0.6)], norm=2.1),
        fake_run(2, True, [fake_row("SWAG", 0.7)]),
    ]
    first, second, alone = joined([*later, *base])
    assert [row.method for row in first.rows] == ["MAP", "SWAG"]
    assert second.rows[1].metric("test", "nll") == 0.6
    assert first.facts["same_network"]
    assert not second.facts["same_network"]
    assert alone is later[2]
    assert len(base[0].rows) == 1
    untrained = replace(base[0], settings={"trained": False})
    assert [len(run.rows) for run in joined([untrained, later[0]])] == [1, 1]


def reference_row(method: str, draws: int, eta0: float | None) -> Row:
    went = {"energy_violation": [0.1, 0.25], "evaluations": [100, 300], "loss": [1.0, 2.0]}
    went |= {"status": ["FINISHED"] * 2, "reached": [1.0, 1.0], "kinetic_ratio": [1.25, 0.9]}
    fields = {"diagnostics": went, "draws": draws, "numbers": {"asked": 2, "limit": 60.0}}
    quick = {"energy_violation": [0.0, 0.0], "evaluations": [7, 9], "kinetic_ratio": [1.0, 1.0]}
    ours = Row(method="rattle", seconds=1.0, draws=2, diagnostics={**went, **quick})
    if draws == 0:
        note = "not affordable: 0 of 2 draws in 60 s"
        return fake_row(method, None, eta0, **fields, rattle=ours, note=note)
    ours = replace(ours, scores={"test": fake_row("", 0.3).scores["test"]})
    return fake_row(method, 0.25, eta0, **fields, rattle=ours)


def write_run(run: Run, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(run.to_json()))


def test_the_pages_show_additional_baselines(tmp_path):
    later = [
        fake_row("Ensemble", 0.75),
        fake_row("DiMS defaults", 0.5, 0.1),
        reference_row("RLA (reference solver)", 2, None),
        reference_row("DiMS (reference solver)", 0, 0.1),
    ]
    write_run(fake_run(0, False, [fake_row("MAP", 1.0)]), tmp_path / "tables/glass_0.json")
    write_run(fake_run(0, True, later), tmp_path / "later/glass_0_additional.json")
    gather("uci", tmp_path / "tables", tmp_path / "results")
    gather("uci", tmp_path / "later", tmp_path / "results")
    assert len(json.loads((tmp_path / "results/uci.json").read_text())[0]["rows"]) == 1
    shutil.copytree(ROOT / "docs/reproduction", tmp_path / "pages")
    write_pages(tmp_path / "results", tmp_path / "pages")
    text = (tmp_path / "pages/uci.md").read_text()
    assert "| glass | Ensemble | " + "0.750 | " * 5 + "0.750 |" in text
    assert (
        "| glass | DiMS (reference solver) (0.1) | not affordable: 0 of 2 draws in 60 s |" in text
    )
    readings = text.split("<!-- uci-readings -->")[1].split("<!-- end -->")[0]
    assert "| Ensemble | 0.750 / 0.375 |" in readings
    assert "| DiMS (reference solver) (0.1) | - |" in readings
    averaged = text.split("<!-- uci-averaged -->")[1].split("<!-- end -->")[0]
    assert "| DiMS defaults (0.1) | 1 | " + "0.250 | " * 5 in averaged
    assert "reference" not in averaged
    solver = (tmp_path / "pages/solver.md").read_text()
    cells = "2 of 2 | 0.25, 0 | 0.9 to 1.25, 1 to 1 | 200, 8 | 3.0, 0.5 | 0.25, 0.3 | finished |"
    assert f"| glass | RLA (reference solver) | {cells}" in solver
    cells = "0 of 2 | 0.25, 0 |  | 200, 8 | 3.0, 0.5 | -, - | not affordable: 0 of 2"
    assert f"| glass | DiMS (reference solver) (0.1) | {cells}" in solver
    note = "not affordable: 1 of 2 draws in 9 seconds"
    cut = replace(reference_row("DiMS (reference solver)", 1, 0.5), note=note)
    assert label(cut) == "DiMS (reference solver) (0.5), 1 of 2 draws"
    assert "those of the tables in 1 of 1 runs" in solver
    assert "Not run yet." in (tmp_path / "pages/banana.md").read_text()


def test_a_report_shows_them_with_their_run(tmp_path):
    write_run(fake_run(0, False, [fake_row("MAP", 1.0)]), tmp_path / "a.json")
    later = [fake_row("SWAG", 0.5), reference_row("RLA (reference solver)", 0, None)]
    write_run(fake_run(0, True, later), tmp_path / "a_additional.json")
    shown = read_page(tmp_path)
    assert len(shown["runs"]) == 1
    scores, draws = shown["tables"]
    assert {row[1] for row in scores["rows"]} == {"MAP", "SWAG"}
    assert len(draws["rows"]) == 2


def test_files_of_earlier_versions_are_read():
    older = {
        "experiment": "uci",
        "more": {"members": 5, "recipe_draws": 3},
        "settings": {"legs": [[1.0]], "training": {"epochs": 3}},
        "rows": [
            {"method": "RLA (recipe)", "eta0": None, "rattle": {"seconds": 2.0}},
            {"method": "MAP", "confidence": {"known": [1.0], "foreign": {"kmnist": [0.5]}}},
            {"method": "DiMS", "test": {"accuracy": 0.9, "auroc": {"kmnist": 0.8}}},
        ],
    }
    run = Run.from_json(older)
    assert run.additional == {"members": 5, "reference_draws": 3}
    assert run.settings == {"segments": [[1.0]], "training": {"epochs": 3}}
    assert run.rows[0].method == "RLA (reference solver)"
    assert run.rows[0].rattle.seconds == 2.0
    assert run.rows[1].figure["confidence"] == {"in_distribution": [1.0], "ood": {"kmnist": [0.5]}}
    assert run.rows[2].scores["test"] == {"per_sample": {"accuracy": 0.9, "auroc_kmnist": 0.8}}
    assert Run.from_json(run.to_json()) == run


@pytest.mark.data
def test_the_command_shows_finished_rows(tmp_path):
    from dims.commands import app

    later = [fake_row("SWAG", 0.625), reference_row("RLA (reference solver)", 0, None)]
    write_run(fake_run(0, True, later), tmp_path / "glass_0_additional.json")
    arguments = ["reproduce", "uci", "--dataset", "glass", "--seeds", "1"]
    result = CliRunner().invoke(
        app,
        [*arguments, "--additional-baselines", "--out", str(tmp_path)],
        env={"COLUMNS": "200", "TERM": "dumb"},
    )
    assert result.exit_code == 0, result.output
    assert "0.625" in result.output
    assert "not affordable: 0 of 2" in result.output
    wrong = CliRunner().invoke(app, ["reproduce", "snelson", "--random", "--additional-baselines"])
    assert wrong.exit_code == 2
