"""The UCI regression benchmark: one tiny run of the whole protocol, and its tables."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import dims
import uci_page
from dims_paper.datasets.splits import Split
from dims_paper.datasets.uci import load_uci
from dims_paper.datasets.uci_regression import RegressionSplit
from far_inputs import DISTANCE, far_inputs
from uci_classification.counts import counts as classification_counts
from uci_classification.counts import mean_ranks, rank_difference
from uci_classification.differences import table as differences
from uci_classification.dropout import dropout_table
from uci_classification.networks import paper_network, train_paper_networks
from uci_classification.protocol import run_one, without_class
from uci_regression.__main__ import run
from uci_regression.counts import counts
from uci_regression.protocol import Configuration, _scores, run_split
from uci_regression.published_table import difference, mean_and_error, table

TINY = Configuration(hidden=2, epochs=5, draws=3, max_time=0.06, ensemble=2)


def line(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 1, generator=generator, dtype=torch.float64)
    return x, 0.8 * x + 0.6 * torch.randn(rows, 1, generator=generator, dtype=torch.float64)


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_the_whole_protocol_runs_and_can_be_written_down() -> None:
    data = RegressionSplit(line(60, 0), line(40, 1), 10.0)
    found = run_split("line", data, 0, TINY)
    answers = {"default", "held out", "network", "draws alone", "ensemble"}
    assert set(found["scores"]) == answers
    assert len(found["weights"]) == 4  # the network, one saved time, the end, widened draws
    assert sum(found["weights"].values()) == pytest.approx(1)
    # A line with noise of 6: log 6 + ½ log 2πe = 3.21 nats is the best there is.
    for answer in ("default", "held out"):
        assert 2.9 < found["scores"][answer]["nll"] < 3.9
        assert 4 < found["scores"][answer]["rmse"] < 12
    json.dumps(found)


def test_scores_are_in_the_units_of_the_data() -> None:
    x, y = line(40, 1)
    surface = dims.LossSurface(torch.nn.Linear(1, 1).double(), (x, y), dims.Gaussian(0.6))
    draws = dims.Draws.from_parameters(surface, surface.initial[None])
    outputs = surface.predict(surface.initial[None], x)[0]
    scores = _scores(draws, RegressionSplit((x, y), (x, y), 10.0), 0)
    normal = torch.distributions.Normal(10 * outputs, 6.0)  # everything ten times as large
    assert scores["nll"] == pytest.approx(float(-normal.log_prob(10 * y).detach().mean()))
    assert scores["rmse"] == pytest.approx(float(10 * (outputs - y).square().mean().sqrt()))


def test_finished_splits_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, int]] = []

    def pretend(name: str, data: Any, split: int, how: Configuration) -> dict[str, Any]:
        ran.append((name, split))
        return {"scores": {"default": {"nll": 1.0}}, "seconds": {}}

    monkeypatch.setattr("uci_regression.__main__.run_split", pretend)
    monkeypatch.setattr("uci_regression.__main__.load_regression", lambda name, split, dtype: None)
    monkeypatch.setattr("uci_regression.__main__.split_count", lambda name: 20)
    run(["yacht"], 0, 2, TINY, tmp_path)
    (tmp_path / "yacht" / "00.json").unlink()
    run(["yacht"], 0, 3, TINY, tmp_path)
    assert ran == [("yacht", 0), ("yacht", 1), ("yacht", 0), ("yacht", 2)]


def test_differences_are_in_standard_errors() -> None:
    assert mean_and_error([1.0, 2.0, 3.0]) == (2.0, pytest.approx(1 / math.sqrt(3)))
    assert difference((1.0, 0.3), (2.0, 0.4)) == pytest.approx(-2.0)


@pytest.mark.data
def test_the_table_sets_ours_beside_the_published_numbers() -> None:
    other = {"rmse": 3.0, "coverage": 0.9}
    splits = [{"scores": {"default": {"nll": nll, **other}}} for nll in (2.0, 2.2, 2.4)]
    shown = table({"boston": splits, "yacht": []}, "nll")
    gap = (2.2 - 2.40) / math.hypot(0.2 / math.sqrt(3), 0.04)
    assert f"| boston | 3 | 2.200 ± 0.115 | 2.40 ({gap:+.1f}) |" in shown
    assert "yacht" not in shown
    lines = counts({"boston": splits}, "default", ["yacht"])
    assert "all sets, default: MC dropout: within two or better on 1 of 1, better 0" in lines
    assert "confirmation half, default: PBP: within two or better on 1 of 1, better 1" in lines
    assert "confirmation" not in counts({"boston": splits}, "default", ["boston"])
    assert "coverage between .92 and .98 on 0 of 1 (boston 0.900)" in lines


def test_far_inputs_keep_columns_and_move_rows() -> None:
    inputs = torch.randn(30, 3, dtype=torch.float64)
    far = far_inputs(inputs, 0)
    assert torch.equal(far["permuted"].sort(0).values, inputs.sort(0).values)
    assert not torch.equal(far["permuted"], inputs)
    moved = (far["moved"] - inputs).norm(dim=1)
    assert torch.allclose(moved, torch.full_like(moved, DISTANCE))


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_a_classification_split_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def few_numbers(name: str, seed: int) -> Split:
        split = load_uci(name, seed)
        parts = ("train", "validation", "test")
        inputs = {f"{part}_inputs": getattr(split, f"{part}_inputs")[:60, :2] for part in parts}
        targets = {f"{part}_targets": getattr(split, f"{part}_targets")[:60] for part in parts}
        return replace(split, **inputs, **targets)

    for module in ("networks", "protocol"):
        monkeypatch.setattr(f"uci_classification.{module}.load_uci", few_numbers)
        monkeypatch.setattr(f"uci_classification.{module}.HIDDEN", (2,))
    train_paper_networks("glass", 2, tmp_path, epochs=3)
    found = run_one("glass", "paper", 1, 2, tmp_path)
    assert set(found["weights"]) == {"network", "t = 1", "end", "widened"}
    assert found["scores"]["network, held out"] == found["scores"]["network"]  # as in the paper
    assert set(found["seconds"]) == {"default", "ensemble", "held out", "ensemble, held out"}
    compared = {"held out, not learnt", "ensemble, trained again", "mc dropout"}
    for answer in compared | {"network", "default", "held out", "ensemble", "ensemble, held out"}:
        assert 0 < found["scores"][answer]["nll"] < 5
    for seed in (0, 1):
        path = tmp_path / "out" / "glass_paper" / f"{seed:02d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
    shown = differences(tmp_path / "out", ("glass",))
    assert "| glass, as in the paper | chosen | 2 |" in shown
    # Two equal splits: in the table and in the line below it, without and with held-out rows.
    assert shown.count("± 0.000") == 4


def test_masks_fall_on_the_weights_of_the_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = torch.randn(30, 3, dtype=torch.float64), torch.arange(30) % 2
    split = Split(x, y, x[:6], y[:6], x[:6], y[:6], 2, ("a", "b"))
    monkeypatch.setattr("uci_classification.networks.load_uci", lambda name, seed: split)
    train_paper_networks("made", 2, tmp_path, epochs=2)
    alone = paper_network("made", 1, tmp_path)
    with_layers = paper_network("made", 1, tmp_path, dropout=True)
    assert sum(isinstance(layer, torch.nn.Dropout) for layer in with_layers) == 3
    assert torch.equal(alone(x), with_layers(x))  # dropout is off in eval mode
    masks = dims.mc_dropout(with_layers, (x, y), "classification", 3)
    assert not torch.equal(masks.parameters[0], masks.parameters[1])


def test_mc_dropout_has_a_table_of_its_own() -> None:
    def splits(dropout: float) -> list[dict[str, Any]]:
        def scores(nll: float, far: float) -> dict[str, float]:
            return {"nll": nll, "auroc permuted": far, "auroc moved": 0.5}

        network, ensemble = scores(1.0, 0.6), scores(0.8, 0.7)
        found = {"network": network, "ensemble": ensemble, "default": scores(0.9, 0.65)}
        return [{"scores": found | {"mc dropout": scores(dropout + e, 0.66)}} for e in (-0.1, 0.1)]

    results = {("a", "paper"): splits(0.95), ("b", "paper"): splits(0.85)}
    shown = dropout_table(results | {("b", "ordinary"): splits(0.0)})
    assert "| b | 2 | 1.000 | 0.850 | 0.800 | 0.900 | -0.150 ± 0.100 | 0.60, 0.50 |" in shown
    assert "network 4.00; mc dropout 2.50; ensemble 1.00; default 2.50 (" in shown
    assert "at most that of MC dropout on 1 of 2, AUROC at least its in 2 of 4" in shown
    assert dropout_table({}) == "no results yet"


def test_sets_are_counted_as_the_rules_say() -> None:
    def splits(gaps: list[float], auroc: float) -> list[dict[str, Any]]:
        def scores(nll: float, far: float) -> dict[str, float]:
            return {"nll": nll, "auroc permuted": far}

        return [
            {
                "scores": {
                    "network": scores(1.0, 0.6),
                    "held out": scores(1.0 + gap, auroc),
                    "ensemble": scores(1.01, 0.7),
                },
                "seconds": {"held out": 3.0, "ensemble": 2.0},
            }
            for gap in gaps
        ]

    results = {
        ("a", "ordinary"): splits([-0.2, -0.4], 0.8),  # better than both
        ("b", "ordinary"): splits([0.12, -0.08], 0.7),  # +0.02 on average, but unsure
        ("c", "ordinary"): splits([0.02, 0.024], 0.59),  # surely worse
        ("c", "class"): splits([9.0, 9.0], 0.8),  # counts for AUROC alone
    }
    shown = classification_counts(results, "held out", "ensemble", "network")
    assert "not worse than the network on 2 of 3 (at worst +0.022 ± 0.002, c, ordinary)" in shown
    assert "lower by more than a standard error on 1" in shown
    assert "NLL at most the ensemble's on 1 of 3" in shown
    assert "AUROC at least the ensemble's in 3 of 4, at worst -0.010" in shown
    assert "1.5 to 1.5 times the ensemble's seconds" in shown


def write_splits(folder: Path, count: int, nll: dict[str, float]) -> None:
    folder.mkdir(parents=True)
    seconds = {"default": 4.0, "ensemble": 2.0, "held out": 6.0, "ensemble, held out": 2.0}
    scores = {name: {"nll": value, "auroc moved": 0.5} for name, value in nll.items()}
    found = {"seconds": seconds, "weights": {"network": 0.25, "end": 0.75}, "scores": scores}
    for seed in range(count):
        (folder / f"{seed:02d}.json").write_text(json.dumps(found))


def test_answers_are_ranked_beside_the_ensemble_that_learns_as_much(tmp_path: Path) -> None:
    scores = {"network": 1.0, "ensemble": 0.9, "default": 0.8}
    scores |= {"network, held out": 1.0, "ensemble, held out": 0.7, "held out": 0.75}
    scores |= {"held out, not learnt": 0.77, "ensemble, trained again": 0.74}
    write_splits(tmp_path / "vehicle_ordinary", 2, scores)
    write_splits(tmp_path / "vehicle_paper", 2, scores | {"held out": 0.5})
    shown = differences(tmp_path, ()).splitlines()
    ranks = [line for line in shown if line.startswith("Mean rank")]
    assert "network 3.00; ensemble 2.00; default 1.00 (" in ranks[0]
    assert "network, held out 3.00; ensemble, held out 1.50; held out 1.50 (" in ranks[1]
    assert "network, held out 3.00; ensemble, trained again 1.50; held out 1.50 (" in ranks[2]
    assert "held out: NLL at most that of the ensemble trained again on 1 of 2" in shown
    assert "held out: -0.145 in mean NLL by learning these rows, lower on 2 of 2" in shown
    rows = [line for line in shown if "| 0.25 | 3.00 |" in line]
    assert [row.endswith("| 3.00 | 0.740 |") for row in rows] == [True, True]


@pytest.mark.data
def test_a_class_is_left_out_of_all_parts() -> None:
    split = load_uci("glass", 0)
    fewer, unseen = without_class(split, 1)
    assert fewer.classes == split.classes - 1 == len(fewer.class_names)
    assert len(unseen) == int((split.test_targets == 1).sum())
    assert len(fewer.test_inputs) + len(unseen) == len(split.test_inputs)
    for part in ("train", "test", "validation"):
        targets, before = getattr(fewer, f"{part}_targets"), getattr(split, f"{part}_targets")
        named = [fewer.class_names[target] for target in targets]
        assert named == [split.class_names[target] for target in before if target != 1]
    with pytest.raises(ValueError, match="three or more"):
        without_class(load_uci("australian", 0), 0)


@pytest.mark.data
def test_paper_networks_are_trained_as_one_alone(tmp_path: Path) -> None:
    """A network of several side by side has the loss of one that is trained alone, by and large."""
    train_paper_networks("glass", 3, tmp_path, epochs=200)
    split = load_uci("glass", 2)
    network = paper_network("glass", 2, tmp_path)
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(network(split.train_inputs), split.train_targets)
    assert float(loss) < 1.5  # the frequencies of the classes have 1.5


@pytest.mark.data
def test_pages_have_the_tables_of_the_finished_splits() -> None:
    text = uci_page.PAGE.read_text(encoding="utf-8") + uci_page.README.read_text(encoding="utf-8")
    for place, content in {**uci_page.contents(), "README": uci_page.readme()}.items():
        assert f"<!-- begin: {place} -->\n{content}\n<!-- end: {place} -->" in text, place


def test_the_error_of_a_difference_of_ranks_counts_splits_and_not_ways_of_training() -> None:
    def split(*nll: float) -> dict[str, Any]:
        return {"scores": {name: {"nll": v} for name, v in zip("abc", nll, strict=True)}}

    better, worse = split(3, 2, 1), split(2, 1, 3)  # c is one rank before b, and two behind
    once = {("glass", "ordinary"): [better, worse]}
    assert rank_difference(once, "abc") == pytest.approx((0.5, 1.5))
    twice = once | {("glass", "paper"): [better, worse]}
    assert rank_difference(twice, "abc") == pytest.approx((0.5, 1.5))


def test_ranks_are_those_of_the_means_and_of_single_splits() -> None:
    def split(*nll: float) -> dict[str, Any]:
        return {"scores": {name: {"nll": v} for name, v in zip("abc", nll, strict=True)}}

    first = [split(1, 2, 3), split(1, 2, 3), split(9, 2, 3)]  # a has the worst mean
    second = [split(1, 1, 0)]  # a and b are equal
    assert mean_ranks([first, second], "abc") == (
        "a 2.50; b 1.50; c 1.50 (single splits: 1.83, 1.83, 1.83)"
    )
