"""Rows that the paper's tables lack: stacked training, kept rows, its solver, the page."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import dims
from dims.commands.pages.read import read_page
from dims.mechanics.dynamics import geodesic
from dims.mechanics.integrate import integrate
from dims.mechanics.solvers.dopri5 import Dopri5
from dims.sampling.samplers import SAMPLERS, DiMS
from dims_paper.experiments.more import run_more, run_rows
from dims_paper.experiments.more_settings import MoreSettings, Problem
from dims_paper.experiments.runs import load_runs
from dims_paper.experiments.stopwatch import Stopwatch
from dims_paper.experiments.training import Task, Training, mlp, train_together
from dims_paper.join import joined

ROOT = Path(__file__).parents[2]
SEEDS = (5, 9, 2)
SETTINGS = MoreSettings(members=2, swag_epochs=2, swag_rank=2, recipe_draws=2)


def small_task(dropout: float = 0.0, batch_size: int | None = 4) -> Task:
    inputs = torch.linspace(-1, 1, 11, dtype=torch.float64).unsqueeze(-1)
    return Task(
        lambda: mlp((1, 4, 1), nn.Tanh, dropout),
        inputs,
        torch.sin(3 * inputs),
        nn.functional.mse_loss,
        Training(epochs=12, batch_size=batch_size, learning_rate=0.05),
    )


def small_problem(task: Task | None = None) -> Problem:
    task = task or small_task()

    def posterior(model: nn.Module) -> dims.Posterior:
        data = (task.inputs, task.targets)
        return dims.fit(model, data, "regression", tune=False, noise_std=0.3)

    def score(_: dims.Posterior, outputs) -> dict:
        return {"test": {"outputs": outputs(task.inputs).squeeze(-1).tolist()}}

    return Problem(
        "small_0", {"experiment": "small", "dataset": "small"}, task, posterior, score,
        draws=3, seed=0, rla_time=0.3, frictions=(0.5,), max_time=0.3,
    )  # fmt: skip


def parameters(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach()


@dataclass(frozen=True)
class Brief(DiMS):
    """The defaults but for the time, of which a test has little."""

    max_time: float = 0.5


@pytest.fixture
def brief(monkeypatch):
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
    result = run_more(problem, SETTINGS, tmp_path)
    rows = {row["method"]: row for row in result["rows"]}
    names = ["Ensemble", "SWAG", "DiMS defaults", "RLA (recipe)", "DiMS (recipe)"]
    assert list(rows) == names
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["small_0_more.json"]

    def outputs(method: str) -> Tensor:
        return torch.tensor(rows[method]["test"]["outputs"], dtype=torch.float64)

    inputs = problem.task.inputs
    members = [problem.task.train(seed) for seed in problem.member_seeds(2)]
    alone = torch.stack([member(inputs).squeeze(-1) for member in members]).detach()
    torch.testing.assert_close(outputs("Ensemble"), alone, rtol=1e-8, atol=1e-10)
    assert outputs("SWAG").shape == (3, 11)

    posterior = problem.posterior(problem.task.train(0))
    assert result["gradient_norm"] == posterior.gradient_norm

    def drawn(count: int, **how) -> Tensor:
        draws = posterior.sample(count, seed=0, progress=False, **how)
        return posterior.surface.predict(draws.parameters, inputs).squeeze(-1)

    close = {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(outputs("DiMS defaults"), drawn(3), **close)
    assert rows["DiMS defaults"]["verdict"]
    assert Dopri5().tolerance * Dopri5().absolute_factor == pytest.approx(1e-6)
    how = {"solver": "dopri5", "tolerance": 1e-7, "precondition": False, "max_time": 0.3}
    recipe = drawn(2, method="rla", **how)
    torch.testing.assert_close(outputs("RLA (recipe)"), recipe, **close)
    recipe = drawn(2, method="dims", friction=0.5, settle="none", certify=False, **how)
    torch.testing.assert_close(outputs("DiMS (recipe)"), recipe, **close)
    # So short a time is easy for both solvers: they agree, and the speed of RLA stays.
    both = rows["RLA (recipe)"], rows["RLA (recipe)"]["rattle"]
    ours = torch.tensor(both[1]["test"]["outputs"], dtype=torch.float64)
    torch.testing.assert_close(ours, outputs("RLA (recipe)"), rtol=0, atol=0.02)
    for row in both:
        assert row["kinetic_ratio"] == pytest.approx([1, 1], abs=1e-2)


@pytest.mark.usefixtures("brief", "unchecked")
@pytest.mark.filterwarnings("ignore:θ. is not a minimum")
def test_rows_are_kept_and_the_network_is_trained_once(tmp_path):
    task = small_task()
    assert not run_rows(small_problem(task), SETTINGS, tmp_path, [])
    idle = replace(task, loss=lambda *_: pytest.fail("trained again"))
    names = ["swag", "defaults", "recipe-rla", "recipe-dims-0.5"]
    assert not run_rows(small_problem(idle), SETTINGS, tmp_path, names)
    (tmp_path / "small_0_more.parts" / "half.json").write_text("{}")
    assert load_runs(tmp_path) == []
    assert run_rows(small_problem(task), SETTINGS, tmp_path, ["ensemble"])
    assert len(run_more(small_problem(idle), SETTINGS, tmp_path)["rows"]) == 5
    assert len(load_runs(tmp_path)) == 1
    for path in tmp_path.glob("*.parts/*"):
        path.unlink()
    assert len(run_more(small_problem(idle), SETTINGS, tmp_path)["rows"]) == 5


@pytest.mark.filterwarnings("ignore:θ. is not a minimum")
def test_a_row_that_is_too_dear_says_so(tmp_path):
    settings = replace(SETTINGS, recipe_limit=0.0)
    run_rows(small_problem(), settings, tmp_path, ["recipe-rla"])
    row = json.loads((tmp_path / "small_0_more.parts/recipe-rla.row").read_text())["row"]
    assert row["note"].startswith("not affordable: 0 of 2 draws in ")
    assert row["status"] == ["OUT_OF_TIME"] * 2
    assert "test" not in row
    assert row["rattle"]["status"] == ["FINISHED"] * 2
    assert all(0 < reached < 0.3 for reached in row["reached"])


@pytest.mark.filterwarnings("ignore:θ. is not a minimum")
def test_an_interrupted_batch_goes_on_with_its_bits_and_its_seconds(tmp_path):
    problem = small_problem()
    posterior = problem.posterior(problem.task.train(0))

    def ends(watch: Stopwatch | None) -> Tensor:
        return integrate(
            posterior.surface, posterior.map_parameters, posterior.perturbations(2),
            dynamics=geodesic(), max_time=1.0, solver="dopri5", stop=watch, checkpoint=watch,
        ).end  # fmt: skip

    class Interrupted(Stopwatch):
        def due(self) -> bool:
            if self.path.exists():
                raise KeyboardInterrupt
            return True

    path = tmp_path / "batch.safetensors"
    first = Interrupted(path, limit=math.inf)
    first.before = 100.0
    with pytest.raises(KeyboardInterrupt):
        ends(first)
    second = Stopwatch(path, limit=math.inf)
    assert torch.equal(ends(second), ends(None))
    assert second.seconds > 100


def fake_run(seed: int, more: bool, rows: list[dict], norm: float = 2.0) -> dict:
    run = {"experiment": "uci", "dataset": "glass", "protocol": "bnn-predictions", "seed": seed}
    run |= {"gradient_norm": norm, "rows": rows}
    return run | ({"more": {"members": 5}} if more else {})


def fake_row(method: str, nll: float | None, eta0: float | None = None, **fields) -> dict:
    names = ("accuracy", "nll", "brier_sum", "ece", "mce", "auroc")
    row = {"method": method, "eta0": eta0, "t1": None, "seconds": 6.0, **fields}
    if nll is not None:
        scores = {"per_sample": dict.fromkeys(names, nll)}
        scores["ensemble"] = dict.fromkeys(names, nll / 2)
        row |= {"train": scores, "test": scores}
    return row


def test_rows_join_the_run_of_their_seed():
    base = [fake_run(seed, False, [fake_row("MAP", 1.0)]) for seed in (0, 1)]
    later = [
        fake_run(0, True, [fake_row("SWAG", 0.5)]),
        fake_run(1, True, [fake_row("SWAG", 0.6)], norm=2.1),
        fake_run(2, True, [fake_row("SWAG", 0.7)]),
    ]
    first, second, alone = joined([*later, *base])
    assert [row["method"] for row in first["rows"]] == ["MAP", "SWAG"]
    assert second["rows"][1]["test"]["per_sample"]["nll"] == 0.6
    assert first["same_network"]
    assert not second["same_network"]
    assert alone is later[2]
    assert len(base[0]["rows"]) == 1
    untrained = {**base[0], "settings": {"trained": False}}
    assert [len(run["rows"]) for run in joined([untrained, later[0]])] == [1, 1]


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The program of the page, with a folder of its own and the marks of the real one."""
    monkeypatch.syspath_prepend(str(ROOT / "paper/programs"))
    import reproduction_page

    monkeypatch.setattr(reproduction_page, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(reproduction_page, "PAGE", tmp_path / "page.md")
    (tmp_path / "page.md").write_text((ROOT / "docs" / "reproduction.md").read_text())
    return reproduction_page


def recipe_row(method: str, draws: int, eta0: float | None) -> dict:
    went = {"energy_violation": [0.1, 0.25], "evaluations": [100, 300], "loss": [1.0, 2.0]}
    went |= {"status": ["FINISHED"] * 2, "reached": [1.0, 1.0], "kinetic_ratio": [1.25, 0.9]}
    fields = {**went, "asked": 2, "draws": draws, "limit": 60.0}
    ours = {**went, "energy_violation": [0.0, 0.0], "evaluations": [7, 9], "seconds": 1.0}
    ours |= {"kinetic_ratio": [1.0, 1.0], "draws": 2}
    if draws == 0:
        fields["note"] = "not affordable: 0 of 2 draws in 60 s"
        return fake_row(method, None, eta0, **fields, rattle=ours)
    ours["test"] = fake_row("", 0.3)["test"]
    return fake_row(method, 0.25, eta0, **fields, rattle=ours)


def test_the_page_shows_rows_that_the_paper_has_not(page, tmp_path):
    later = [
        fake_row("Ensemble", 0.75),
        fake_row("DiMS defaults", 0.5, 0.1),
        recipe_row("RLA (recipe)", 2, None),
        recipe_row("DiMS (recipe)", 0, 0.1),
    ]
    runs = {
        "glass_0": fake_run(0, False, [fake_row("MAP", 1.0)]),
        "glass_0_more": fake_run(0, True, later),
    }
    for name, run in runs.items():
        folder = tmp_path / ("later" if "more" in name else "tables")
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(run))
    page.gather("uci", tmp_path / "tables")
    page.gather("uci", tmp_path / "later")
    assert len(json.loads((tmp_path / "results/uci.json").read_text())[0]["rows"]) == 1
    page.write_tables()
    text = (tmp_path / "page.md").read_text()
    assert "| glass | Ensemble | " + "0.750 | " * 5 + "0.750 |" in text
    assert "| glass | DiMS (recipe) (0.1) | not affordable: 0 of 2 draws in 60 s |" in text
    readings = text.split("<!-- uci-readings -->")[1].split("<!-- end -->")[0]
    assert "| Ensemble | 0.750 / 0.375 |" in readings
    assert "| DiMS (recipe) (0.1) | - |" in readings
    averaged = text.split("<!-- uci-averaged -->")[1].split("<!-- end -->")[0]
    assert "| DiMS defaults (0.1) | 1 | " + "0.250 | " * 5 in averaged
    assert "recipe" not in averaged
    solver = text.split("<!-- solver -->")[1].split("<!-- end -->")[0]
    cells = "2 of 2 | 0.25, 0 | 0.9 to 1.25, 1 to 1 | 200, 8 | 3.0, 0.5 | 0.25, 0.3 | finished |"
    assert f"| glass | RLA (recipe) | {cells}" in solver
    cells = "0 of 2 | 0.25, 0 |  | 200, 8 | 3.0, 0.5 | -, - | not affordable: 0 of 2"
    assert f"| glass | DiMS (recipe) (0.1) | {cells}" in solver
    cut = {
        **recipe_row("DiMS (recipe)", 1, 0.5),
        "note": "not affordable: 1 of 2 draws in 9 seconds",
    }
    assert page.label(cut) == "DiMS (recipe) (0.5), 1 of 2 draws"
    assert "those of the tables in 1 of 1 runs" in text


def test_a_report_shows_them_with_their_run(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(fake_run(0, False, [fake_row("MAP", 1.0)])))
    later = fake_run(0, True, [fake_row("SWAG", 0.5), recipe_row("RLA (recipe)", 0, None)])
    (tmp_path / "a_more.json").write_text(json.dumps(later))
    shown = read_page(tmp_path)
    assert len(shown["runs"]) == 1
    scores, draws = shown["tables"]
    assert {row[1] for row in scores["rows"]} == {"MAP", "SWAG"}
    assert len(draws["rows"]) == 2


@pytest.mark.data
def test_the_command_shows_finished_rows(tmp_path):
    from dims.commands import app

    later = fake_run(0, True, [fake_row("SWAG", 0.625), recipe_row("RLA (recipe)", 0, None)])
    (tmp_path / "glass_0_more.json").write_text(json.dumps(later))
    arguments = ["reproduce", "uci", "--dataset", "glass", "--seeds", "1", "--more"]
    result = CliRunner().invoke(
        app, [*arguments, "--out", str(tmp_path)], env={"COLUMNS": "200", "TERM": "dumb"}
    )
    assert result.exit_code == 0, result.output
    assert "0.625" in result.output
    assert "not affordable: 0 of 2" in result.output
    wrong = CliRunner().invoke(app, ["reproduce", "snelson", "--random", "--more"])
    assert wrong.exit_code == 2
