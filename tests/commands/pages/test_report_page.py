"""The page of a run: its content, that it is self-contained, and that names stay text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser

import pytest
import torch
from report_problems import (
    HOSTILE,
    classification_run,
    images_run,
    regression_run,
    saved_draws,
)
from safetensors.torch import load_file
from typer.testing import CliRunner

import dims
from dims.commands import app
from dims.commands.pages.html import page_html
from dims.commands.pages.parts import column, table
from dims.commands.pages.read import read_page
from dims.errors import ReportError
from dims.sampling.draws.names import parameter_names
from draws_problems import mlp, problem, random_inputs


class Tags(HTMLParser):
    """Every element of a page, and the text of its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.handlers: list[str] = []
        self.texts: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.handlers += [name for name, _ in attributes if name.startswith("on")]

    def handle_data(self, data):
        last = self.seen[-1] if self.seen else ""
        self.texts[last] = self.texts.get(last, "") + data


def data_of(text: str) -> dict:
    """The JSON that a page carries."""
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def table_of(page: dict, name: str) -> dict:
    return next(entry for entry in page["tables"] if entry["id"] == name)


def labels(entry: dict) -> list[str]:
    return [head["label"] for head in entry["columns"]]


def test_names_in_files_stay_text(tmp_path):
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    folder.mkdir()
    page = read_page(saved_draws(folder, name="<b>bold"))
    text = page_html(page)
    tags = Tags(text)
    assert "img" not in tags.seen
    assert "b" not in tags.seen
    assert tags.handlers == []
    assert tags.seen.count("script") == 2
    carried = data_of(text)
    assert [HOSTILE, HOSTILE] in carried["runs"][0]["settings"]
    assert "<b>bold" in carried["title"]


def test_a_page_is_self_contained_and_runs_only_its_own_scripts():
    page = read_page_of(regression_run())
    text = page_html(page)
    assert "src=" not in re.sub(r'id="data">.*?</script>', "", text, flags=re.DOTALL)
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src 'none'" in policy
    for tag, body in (("style", r"<style>(.*?)</style>"), ("script", r"<script>(.*?)</script>")):
        content = re.search(body, text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert len(text) < 100_000


def read_page_of(*runs: dict) -> dict:
    from dims_paper.results_page import results_page

    return results_page(list(runs), None)


def test_draws_have_a_row_each_with_their_certificates(tmp_path):
    saved = saved_draws(tmp_path)
    page = read_page(saved)
    draws = table_of(page, "draws")
    # Only columns with a number are shown; of the row numbers that is the loss.
    assert labels(draws) == ["draw", "status", "verdict", "loss L", "gradients"]
    assert draws["rows"][0] == [0, "FINISHED", "MINIMUM", 6.0, 0]
    assert draws["rows"][5][1:3] == ["STALLED", HOSTILE]
    assert [labels(draws)[i] for i in draws["filters"]] == ["status", "verdict"]
    assert ["draws", 6] in page["facts"]
    assert any("STALLED" in line and "float64" in line for line in page["advice"])
    assert any("SADDLE" in line for line in page["advice"])
    places = page["runs"][0]["places"]
    assert len(places) == 6
    # No two directions show more of the draws than these.
    offsets = load_file(saved)["parameters"] - load_file(saved)["map_parameters"]
    shown = torch.linalg.svdvals(torch.tensor(places, dtype=torch.float64))
    torch.testing.assert_close(shown, torch.linalg.svdvals(offsets)[:2], rtol=1e-4, atol=0)


def test_parameters_have_names_and_those_that_vary_most_come_first(tmp_path):
    saved = saved_draws(tmp_path)
    page = read_page(saved)
    shown = table_of(page, "parameters")
    thetas = load_file(saved)["parameters"]
    names = list(
        parameter_names(
            (name, p.shape) for name, p in problem("one output")[0].module.named_parameters()
        )
    )
    spread = thetas.std(0)
    first = shown["rows"][0]
    assert first[0] == names[int(spread.argmax())]
    values = thetas[:, int(spread.argmax())]
    expected = [float(values.mean()), float(spread.max()), float(values.min()), float(values.max())]
    assert first[2:] == pytest.approx(expected, rel=1e-3)
    assert [row[3] for row in shown["rows"]] == sorted((r[3] for r in shown["rows"]), reverse=True)


def test_a_store_shows_its_finished_chunks(tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    for index, rows in enumerate((4, 3)):
        made = saved_draws(tmp_path, rows, name=f"part{index}")
        shutil.move(made, store / f"chunk_{index:05d}.safetensors")
    manifest = {"count": 10, "chunk_size": 4, "method": "dims", "settings": {HOSTILE: 1}}
    (store / "manifest.json").write_text(json.dumps(manifest))
    page = read_page(store)
    assert ["draws finished", "7 of 10"] in page["facts"]
    assert len(table_of(page, "draws")["rows"]) == 7
    assert [f"settings.{HOSTILE}", 1] in page["runs"][0]["settings"]
    assert "img" not in Tags(page_html(page)).seen


def test_a_damaged_chunk_is_named_with_the_command_that_mends_it(tmp_path):
    made = saved_draws(tmp_path, 4)
    made.rename(tmp_path / "chunk_00000.safetensors")
    (tmp_path / "chunk_00001.safetensors").write_bytes(b"damaged")
    (tmp_path / "manifest.json").write_text('{"draws": [8], "chunk_size": 4}')
    with pytest.raises(ReportError, match=r"chunk_00001.*damaged.*`dims sample`.*again"):
        read_page(tmp_path)


@pytest.mark.parametrize(("inside", "outside"), [("in_distribution", "ood"), ("known", "foreign")])
def test_files_next_to_draws_are_shown(tmp_path, inside, outside):
    saved = saved_draws(tmp_path)
    found = regression_run()
    paths = {key: found[key] for key in ("trajectories", "landscape")}
    saved.with_suffix(".trajectories.json").write_text(json.dumps({**paths, "more": 1}))
    shares = {inside: [0.2, 0.8], outside: {HOSTILE: [1, 0]}}
    saved.with_suffix(".confidence.json").write_text(json.dumps(shares))
    page = read_page(saved)
    run = page["runs"][0]
    assert [(path["method"], path["label"]) for path in run["trajectories"]] == [("DiMS", HOSTILE)]
    assert run["landscape"] == found["landscape"]
    assert "more" not in run
    (shown,) = run["confidence"]
    assert shown["method"] == "DiMS"
    assert [(entry["name"], entry["shares"]) for entry in shown["sets"]] == [
        ("test (in-distribution)", [0.2, 0.8]),
        (HOSTILE, [1.0, 0.0]),
    ]
    assert "img" not in Tags(page_html(page)).seen


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("trajectories", "{"),
        ("trajectories", "[]"),
        ("trajectories", '{"trajectories": [{"times": [0, 1]}]}'),
        ("trajectories", '{"trajectories": 7}'),
        ("confidence", '{"known": [0.5]}'),
        ("confidence", '{"in_distribution": [0.5]}'),
        ("confidence", '{"in_distribution": [0.5], "ood": {"a": 1}}'),
        ("confidence", '{"known": ["x"], "foreign": {}}'),
        ("confidence", '{"known": [0.5], "foreign": {"a": 1}}'),
    ],
)
def test_damaged_files_next_to_draws_are_named(tmp_path, name, content):
    saved = saved_draws(tmp_path)
    path = saved.with_suffix(f".{name}.json")
    path.write_text(content)
    with pytest.raises(ReportError, match=f"{name}.json: cannot be shown"):
        read_page(saved)
    path.unlink()
    path.symlink_to(saved)
    with pytest.raises(ReportError, match="a link"):
        read_page(saved)


def test_a_real_store_is_read(tmp_path):
    model, x = mlp(3, 1), random_inputs(12, 3)
    posterior = dims.fit(model, (x, x[:, :1]), "regression", refine=True, tune=True)
    posterior.sample(3, method="la", store=tmp_path / "store", chunk_size=2, progress=False)
    page = read_page(tmp_path / "store")
    assert ["draws finished", "3 of 3"] in page["facts"]
    assert len(table_of(page, "draws")["rows"]) == 3


def test_results_have_scores_functions_maps_and_the_paper(tmp_path):
    (tmp_path / "banana_0.json").write_text(json.dumps(classification_run()))
    header = "table,dataset,split,method,t1,eta0,metric,paper,paper_error,ours,error,ensemble,seeds"
    line = "tab:x,banana,test,DiMS,100,0.01,nll,0.4,0.1,0.5,nan,0.3,1,same"
    (tmp_path / "comparison.csv").write_text(f"{header},verdict\n{line}\n")
    page = read_page(tmp_path)
    scores = table_of(page, "scores")
    assert scores["rows"] == [["banana, seed 0", "DiMS (0.01)", "test", 0.8, 0.9]]
    beside = table_of(page, "paper")
    expected = ["banana", "test", "DiMS (0.01)", "nll", 0.4, 0.1, 0.5, 0.3, "same"]
    assert beside["rows"] == [expected]
    assert labels(beside)[beside["filters"][-1]] == "verdict"
    draws = table_of(page, "draws")
    assert [row[1:3] for row in draws["rows"]] == [
        ["DiMS (0.01) 0", "FINISHED"],
        ["DiMS (0.01) 1", "STALLED"],
    ]
    run = page["runs"][0]
    assert run["calibration"][0]["confidence"] == [None, 0.8]
    assert run["maps"][0]["map"]["probability"] == [0.1, 0.9, 0.5, 0.2]
    assert run["map_points"] == [[0.0, 0.0, 0], [0.5, 0.5, 1]]


def test_results_of_regression_keep_trajectories_and_functions():
    page = read_page_of(regression_run(), classification_run(seed=1))
    assert [run["name"] for run in page["runs"]] == ["snelson, seed 0", "banana, seed 1"]
    run = page["runs"][0]
    assert run["trajectories"][0]["method"] == "DiMS"
    assert [row["method"] for row in run["functions"]] == ["RLA", "DiMS"]
    assert ["training.epochs", 3] in run["settings"]
    # NaN has no place in JSON.
    alone = data_of(page_html(read_page_of(regression_run())))
    assert ["noise std", None] in alone["facts"]


def test_results_on_images_have_ood_data_and_their_auroc(tmp_path):
    (tmp_path / "mnist_0_low_rank.json").write_text(json.dumps(images_run()))
    page = read_page(tmp_path)
    ood = table_of(page, "ood")
    sets = [name for seen in ("kmnist", HOSTILE) for name in (seen, f"{seen}, averaged")]
    assert labels(ood) == ["run", "method", *sets]
    assert [row[1:4] for row in ood["rows"]] == [
        ["MAP", 0.6, 0.7],
        ["DiMS (0.1, t₁ = 25)", 0.8, 0.9],
        ["DiMS (0.1, t₁ = 50)", 0.7, 0.8],
    ]
    run = page["runs"][0]
    assert run["name"] == "mnist, seed 0, low_rank"
    assert [row["method"] for row in run["confidence"]] == [row[1] for row in ood["rows"]]
    assert run["calibration"][1]["method"] == "DiMS (0.1, t₁ = 25)"
    inside, *others = run["confidence"][1]["sets"]
    assert inside == {"name": "mnist (in-distribution)", "shares": [0.5, 0.5], "auroc": None}
    assert {"name": "kmnist", "shares": [0.75, 0.25], "auroc": 0.9} in others
    assert "img" not in Tags(page_html(page)).seen
    # A run without distributions, as older ones are, still has its table.
    older = images_run()
    for row in older["rows"]:
        del row["confidence"]
    page = read_page_of(older)
    assert page["runs"][0]["confidence"] == []
    assert len(table_of(page, "ood")["rows"]) == 3


def test_tables_omit_empty_columns():
    entry = table(
        "t",
        "",
        "",
        [column("a"), column("b"), column("c")],
        [[1, None, "x"], [2, None, "y"]],
        ["c", "b"],
    )
    assert labels(entry) == ["a", "c"]
    assert entry["filters"] == [1]
    assert entry["rows"] == [[1, "x"], [2, "y"]]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("run.safetensors", "no tensors", "damaged"),
        ("run.json", "{", "JSON"),
        ("run.json", "{}", "does not contain a run"),
        ("run.json", '{"experiment": "x", "rows": [{"test": {}}]}', "make the run again"),
        ("run.json", '{"experiment": "x", "trajectories": 7}', "make the run again"),
        (
            "run.json",
            '{"experiment": "x", "rows": [{"method": "x", "ood": {}, "confidence": [1]}]}',
            "make the run again",
        ),
        ("folder/manifest.json", "{}", "sample first"),
        ("folder/manifest.json", "[", "not a valid manifest"),
        ("folder/empty.txt", "", "does not contain a run"),
    ],
)
def test_what_is_not_a_run_gives_a_one_line_error(tmp_path, name, content, words):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    place = path if path.parent == tmp_path else path.parent
    with pytest.raises(ReportError, match=words):
        read_page(place)
    shown = CliRunner().invoke(app, ["report", str(place)])
    assert shown.exit_code == 2
    assert words in shown.output


def test_the_command_writes_a_page_beside_the_run(tmp_path):
    path = saved_draws(tmp_path)
    shown = CliRunner().invoke(app, ["report", str(path)])
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "run.html").read_text().startswith("<!DOCTYPE html>")
    missing = CliRunner().invoke(app, ["report", str(tmp_path / "nothing")])
    assert missing.exit_code == 2
    assert "no such file" in missing.output
    helped = CliRunner().invoke(app, ["report", "--help"])
    assert "Example" in helped.output
    assert len(helped.output.splitlines()) < 40
