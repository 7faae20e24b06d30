"""`dims.compare`: scores on the same rows, intervals, resuming, failures, sentence and page."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import dims
from dims.baselines import compare as module_or_function
from dims.baselines import contestants
from dims.baselines.comparison import Comparison
from dims.baselines.row_scores import error_rows, nll_rows, reliability, resampled
from dims.commands import app
from dims.commands.pages.read import read_page
from dims.sampling import progress

assert module_or_function is dims.compare


def rows_of(seed: int, rows: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 2, generator=generator, dtype=torch.float64)
    noise = 0.3 * torch.randn(rows, generator=generator, dtype=torch.float64)
    return x, (x[:, 0] + noise > 0).long()


def network() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    x, y = rows_of(0, 30)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    return model.eval()


GIVEN: dict[str, Any] = {
    "data": rows_of(0, 30),
    "likelihood": "classification",
    "validation": rows_of(1, 20),
    "test": rows_of(2, 50),
    "ood": rows_of(3, 40)[0] + 5,
    "draws": 4,
    "progress": False,
}
METHODS = ("temperature", "mc_dropout", "last_layer", "dims")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, Path]:
    folder = tmp_path_factory.mktemp("compared") / "store"
    sampler = dims.DiMS(max_time=0.2, save_at=(0.1,), certify=False)
    options = GIVEN | {"methods": METHODS, "sampler": sampler, "store": folder}
    return dims.compare(network(), **options), folder


def test_the_table_has_the_scores_of_each_methods_own_predictions(
    compared: tuple[Comparison, Path],
) -> None:
    found, _ = compared
    assert [s.method for s in found.methods] == ["network", *METHODS]
    x, y = GIVEN["test"]
    log_p = torch.log_softmax(network()(x), dim=-1).detach()
    own = found["network"]
    assert own.nll == pytest.approx((-log_p[range(50), y]).tolist())
    assert own.error == (log_p.argmax(-1) != y).double().tolist()
    entropies = [-(p.exp() * p).sum(-1) for p in (log_p, network()(GIVEN["ood"]).log_softmax(-1))]
    wins = (entropies[1][:, None] > entropies[0][None]).double().mean()
    assert own.ood == pytest.approx(float(wins), abs=1e-9)
    assert 0 <= found["dims"].weight_on_network <= 1
    assert "every smaller temperature is better" in found["temperature"].notes[0]
    text = str(found)
    assert "mc_dropout    no result: " in text
    assert "Take " in text


def test_a_method_that_fails_is_named_and_takes_no_other_along(
    compared: tuple[Comparison, Path],
) -> None:
    found, _ = compared
    assert "dropout" in found["mc_dropout"].problem
    assert "mc_dropout" not in [scores.method for scores in found.done]


def test_a_method_that_needs_too_much_memory_is_named_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(contest: contestants.Contest) -> dims.Draws:
        raise dims.MemoryLimitError("curvature: too large")

    monkeypatch.setitem(contestants.CONTESTANTS, "linla", refuse)
    found = dims.compare(network(), **GIVEN | {"methods": ("linla", "last_layer")})
    assert found["linla"].problem == "curvature: too large"
    assert [scores.method for scores in found.done] == ["network", "last_layer"]


def test_methods_show_no_bar_beside_that_of_the_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[str] = []
    real = progress.display
    monkeypatch.setattr(progress, "display", lambda label: shown.append(label) or real(label))
    options = GIVEN | {"methods": ("linla", "dims"), "progress": True}
    sampler = dims.DiMS(max_time=0.1, certify=False, settle="none")
    dims.compare(network(), **options, sampler=sampler)
    assert shown == ["comparing"]


def test_a_comparison_is_one_short_line_and_a_table_in_notebooks(
    compared: tuple[Comparison, Path],
) -> None:
    found, _ = compared
    assert repr(found).startswith("Comparison(task=classification, methods=network, temperature,")
    assert len(repr(found)) < 200
    assert "seconds" in found._repr_html_()


def test_a_finished_method_is_not_run_again(
    compared: tuple[Comparison, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, folder = compared
    ran: list[str] = []
    for name in list(contestants.CONTESTANTS):
        real = contestants.CONTESTANTS[name]
        monkeypatch.setitem(
            contestants.CONTESTANTS, name, lambda c, n=name, r=real: ran.append(n) or r(c)
        )
    sampler = dims.DiMS(max_time=0.2, save_at=(0.1,), certify=False)
    (folder / "temperature.json").unlink()
    options = GIVEN | {"methods": METHODS, "sampler": sampler, "store": folder}
    again = dims.compare(network(), **options)
    assert ran == ["temperature"]
    assert again["dims"] == found["dims"]
    with pytest.raises(dims.StoreError, match="another comparison"):
        dims.compare(network(), **options | {"test": rows_of(4, 50)})


def test_the_page_shows_scores_the_sentence_and_diagrams(
    compared: tuple[Comparison, Path],
) -> None:
    found, folder = compared
    page = read_page(folder)
    assert page["advice"][0] == found.recommendation()
    assert len(page["tables"][0]["rows"]) == len(found.done) == 4
    diagram = page["runs"][0]["calibration"][0]
    assert sum(diagram["inputs"]) == 50
    (folder / "network.json").write_text("{", "utf-8")
    with pytest.raises(dims.ReportError, match="not the folder of a comparison"):
        read_page(folder)


def test_the_command_writes_table_and_page(tmp_path: Path) -> None:
    program = tmp_path / "my_comparison.py"
    program.write_text(
        "import torch\n"
        "from torch import nn\n"
        "def comparison():\n"
        "    torch.manual_seed(0)\n"
        "    x = torch.randn(40, 1)\n"
        "    y = x.sin() + 0.1 * torch.randn(40, 1)\n"
        "    model = nn.Linear(1, 1)\n"
        "    return dict(model=model, data=(x[:20], y[:20]), likelihood='regression',\n"
        "                validation=(x[20:30], y[20:30]), test=(x[30:], y[30:]))\n"
        "def wrong():\n"
        "    return {'model': nn.Linear(1, 1)}\n",
        "utf-8",
    )
    store = tmp_path / "compared"
    how = ["--store", str(store), "--methods", "temperature", "--quiet"]
    result = CliRunner().invoke(app, ["compare", f"{program}:comparison", *how])
    assert result.exit_code == 0, result.output
    assert "RMSE" in result.stdout
    assert (store / "comparison.html").exists()
    again = CliRunner().invoke(app, ["compare", f"{program}:comparison", *how, "--json"])
    assert set(json.loads(again.stdout)) == {"network", "temperature"}
    bad = CliRunner().invoke(app, ["compare", f"{program}:wrong", *how])
    assert bad.exit_code == 2
    assert "missing: data" in bad.stderr


def test_arguments_that_make_no_sense_are_refused() -> None:
    for wrong, message in (
        ({"methods": ("magic",)}, "methods: "),
        ({"validation": 0.1}, "already seen"),
        ({"test": None}, "test: give rows"),
        ({"test": 0.1}, "test: a fraction"),
    ):
        with pytest.raises(ValueError, match=message):
            dims.compare(network(), **GIVEN | wrong)


def test_a_folder_without_a_finished_method_is_named(tmp_path: Path) -> None:
    (tmp_path / "comparison.json").write_text('{"task": "regression"}')
    with pytest.raises(dims.ReportError, match="no method is finished"):
        read_page(tmp_path)


def test_labels_at_positions_are_refused() -> None:
    tokens, tags = torch.randn(6, 4, 2), torch.randint(3, (6, 4))
    given = {"validation": (tokens, tags), "test": (tokens, tags), "progress": False}
    with pytest.raises(ValueError, match="many positions"):
        dims.compare(nn.Linear(2, 3), (tokens, tags), dims.PositionCategorical(3), **given)


def test_bootstrap_intervals_are_those_of_the_normal_approximation() -> None:
    rows = torch.randn(400, generator=torch.Generator().manual_seed(0)).double() + 3
    found = resampled(rows)
    error = float(rows.std()) / 20
    assert found.value == pytest.approx(float(rows.mean()))
    assert found.low == pytest.approx(found.value - 1.96 * error, abs=0.2 * error)
    assert found.high == pytest.approx(found.value + 1.96 * error, abs=0.2 * error)
    root = resampled(rows.square(), torch.sqrt)
    assert root.value == pytest.approx(math.sqrt(float(rows.square().mean())))


def test_rows_average_to_the_metrics_of_the_ensemble() -> None:
    means = torch.randn(5, 30, 1, generator=torch.Generator().manual_seed(0)).double()
    weights = torch.tensor([0.5, 0.2, 0.1, 0.1, 0.1]).double()
    predictive = dims.RegressionPredictive(means, 0.7, weights)
    targets = torch.zeros(30, 1).double()
    metrics = predictive.metrics(targets)["ensemble"]
    assert float(nll_rows(predictive, targets).mean()) == pytest.approx(metrics["nll"])
    assert float(error_rows(predictive, targets).mean()) == pytest.approx(metrics["rmse"] ** 2)
    diagram = reliability(predictive, targets)
    assert diagram.observed[-1] == pytest.approx(metrics["coverage"])


def test_scores_are_in_the_units_that_targets_had() -> None:
    """p(y) of y = s·z is p(z)/s, and errors are s times those of z; for each of two outputs."""
    torch.manual_seed(0)
    model = nn.Linear(2, 2).double().eval()
    rows = [(rows_of(seed, 12)[0], rows_of(seed + 10, 12)[0]) for seed in range(3)]
    given: dict[str, Any] = {"validation": rows[1], "test": rows[2], "methods": ()}
    one, other = (
        dims.compare(model, rows[0], "regression", **given, target_scale=scale, progress=False)
        for scale in (1.0, 2000.0)
    )
    wider = [each + 2 * math.log(2000) for each in one["network"].nll]
    assert other["network"].nll == pytest.approx(wider)
    assert other["network"].error == pytest.approx([4e6 * e for e in one["network"].error])
    assert f"{other.error('network').value:,.0f}" in str(other)
    with pytest.raises(ValueError, match="target_scale: 2 has no meaning for classification"):
        dims.compare(network(), **GIVEN, target_scale=2)
    with pytest.raises(ValueError, match="target_scale"):
        dims.compare(model, rows[0], "regression", **given, target_scale=0)


def test_another_scale_is_another_comparison(tmp_path: Path) -> None:
    """And none is that of folders of earlier versions, which knew no scale."""
    model = nn.Linear(2, 1).double().eval()
    rows = [(rows_of(seed, 12)[0], rows_of(seed, 12)[0][:, :1]) for seed in range(3)]
    given: dict[str, Any] = {"validation": rows[1], "test": rows[2], "methods": ()}
    given |= {"store": tmp_path / "all", "progress": False}
    dims.compare(model, rows[0], "regression", **given)
    assert "target_scale" not in (tmp_path / "all" / "comparison.json").read_text()
    with pytest.raises(dims.StoreError, match="another comparison"):
        dims.compare(model, rows[0], "regression", **given, target_scale=3.0)
