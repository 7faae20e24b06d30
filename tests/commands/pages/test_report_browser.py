"""The page in headless Chromium: it loads without errors, sliders move curves, tables sort.

The steps of a test act as a reader would, and return what they saw.
"""

from __future__ import annotations

import json
import re

import pytest
from report_problems import (
    HOSTILE,
    classification_run,
    images_run,
    regression_run,
    saved_draws,
    wide_draws,
)

from dims.commands.pages.read import read_page
from dims_paper.results_page import results_page

pytestmark = pytest.mark.slow


def results() -> dict:
    return results_page([regression_run(), classification_run(), images_run()], None)


def test_every_section_is_drawn_and_names_stay_text(look, tmp_path):
    steps = """
      const ids = [...document.querySelectorAll("section")].map((part) => part.id);
      return { ids, images: document.querySelectorAll("img").length,
               text: document.body.innerText, lines: document.querySelectorAll("svg path").length };
    """
    seen = look(results(), steps)
    wanted = ["overview", "scores", "draws", "energies", "paths", "functions", "movie", "settings"]
    assert [name for name in wanted if name not in seen["ids"]] == []
    assert seen["lines"] > 5
    assert HOSTILE in seen["text"]
    saved = saved_draws(tmp_path)
    saved.with_suffix(".trajectories.json").write_text(json.dumps(regression_run()))
    shares = {"in_distribution": [0.2, 0.8], "ood": {HOSTILE: [1, 0]}}
    saved.with_suffix(".confidence.json").write_text(json.dumps(shares))
    draws = look(read_page(saved), steps)
    assert {"places", "energies", "paths", "confidence"} <= set(draws["ids"])
    assert HOSTILE in draws["text"]
    for view in (seen, draws):
        assert view["images"] == 0
        assert view["harm"] == 0


def test_the_sliders_move_curves_and_particles(look):
    seen = look(
        results(),
        """
        const movie = document.querySelector("#movie"), slider = movie.querySelector("input");
        const curve = () => movie.querySelector(".movie svg svg path").getAttribute("d");
        const move = (control, value) => {
          control.value = value; control.dispatchEvent(new Event("input"));
        };
        const before = curve();
        move(slider, 2);
        const after = curve(), text = movie.querySelector("output").textContent;
        const paths = document.querySelector("#paths"), dot = paths.querySelector("circle");
        const at = () => dot.getAttribute("cx");
        const end = at();
        move(paths.querySelector("input"), 0);
        return { before, after, text, end, start: at() };
        """,
    )
    assert seen["before"] != seen["after"]
    assert seen["text"] == "DiMS: t = 2"
    assert float(seen["start"]) < float(seen["end"])


def test_tables_sort_and_filter(look, tmp_path):
    seen = look(
        read_page(saved_draws(tmp_path)),
        """
        const table = document.querySelector("#draws");
        const rows = () => [...table.querySelectorAll("tbody tr")];
        const column = (i) => rows().map((row) => row.cells[i].innerText);
        const heads = table.querySelectorAll("th"), loss = heads[3].querySelector("button");
        const first = column(0);
        loss.click();
        const up = column(0), sort = heads[3].getAttribute("aria-sort");
        loss.click();
        const down = column(0);
        const [status, verdict] = table.querySelectorAll("select");
        const options = [...verdict.options].map((option) => option.text);
        const pick = (select, text) => {
          select.value = [...select.options].findIndex((option) => option.text === text);
          select.dispatchEvent(new Event("change"));
          return column(2);
        };
        const kept = pick(verdict, "SADDLE"), count = table.querySelector("output").textContent;
        const neither = pick(status, "STALLED");
        pick(verdict, "all");
        return { first, up, sort, down, options, kept, count, neither, stalled: column(1) };
        """,
    )
    assert seen["first"] == ["0", "1", "2", "3", "4", "5"]
    assert seen["up"] == seen["first"][::-1]  # losses fall with the number of the draw
    assert seen["sort"] == "ascending"
    assert seen["down"] == seen["first"]
    assert HOSTILE in seen["options"]
    assert seen["kept"] == ["SADDLE"]
    assert seen["count"] == "1 of 6 rows"
    assert seen["neither"] == []
    assert seen["stalled"] == ["STALLED"]


def test_another_run_can_be_chosen(look):
    seen = look(
        results(),
        """
        const select = [...document.querySelectorAll("main > .controls select")].at(-1);
        select.value = 1;
        select.dispatchEvent(new Event("change"));
        return { ids: [...document.querySelectorAll("section")].map((part) => part.id),
                 links: [...document.querySelectorAll("nav a")].map((link) => link.hash) };
        """,
    )
    assert {"maps", "calibration"} <= set(seen["ids"])
    assert "movie" not in seen["ids"]
    assert seen["links"] == [f"#{name}" for name in seen["ids"]]


def test_confidence_is_drawn_for_the_chosen_method(look):
    seen = look(
        results_page([images_run()], None),
        """
        const part = document.querySelector("#confidence");
        const [method, scale] = part.querySelectorAll("select");
        const lines = () => Object.fromEntries([...part.querySelectorAll("svg svg path")].map(
          (line) => [line.querySelector("title").textContent, line.getAttribute("d")]));
        const pick = (select, i) => {
          select.value = i; select.dispatchEvent(new Event("change"));
        };
        const look = () => ({ lines: lines(), legend: part.querySelector(".legend").innerText });
        const last = look();
        pick(method, 0);
        const first = look();
        pick(scale, 1);
        const strokes = [...part.querySelectorAll("svg svg path")].map(
          (line) => getComputedStyle(line).stroke);
        method.focus();
        return { last, first, log: look(), strokes, focused: document.activeElement === method,
                 options: [...method.options].map((option) => option.text),
                 links: [...document.querySelectorAll("nav a")].map((link) => link.hash) };
        """,
    )
    assert seen["options"] == ["MAP", "DiMS (0.1, t₁ = 25)", "DiMS (0.1, t₁ = 50)"]
    assert {"#confidence", "#ood"} <= set(seen["links"])
    assert set(seen["last"]["lines"]) == {"mnist (in-distribution)", "kmnist", HOSTILE}
    # Two bins are a step of six corners, from the ground and back to it.
    corners = re.findall(r"[ML]([\d.]+) ([\d.]+)", seen["last"]["lines"]["kmnist"])
    x, y = zip(*((float(a), float(b)) for a, b in corners), strict=True)
    assert x[0] == x[1] < x[2] == x[3] < x[4] == x[5]
    assert y[0] == y[5] > y[3] == y[4] > y[1] == y[2]
    heights = [y[0] - y[3], y[0] - y[1]]
    assert heights[1] / heights[0] == pytest.approx(3, rel=0.01)
    changed = {
        name for name, line in seen["last"]["lines"].items() if line != seen["first"]["lines"][name]
    }
    assert changed == {"mnist (in-distribution)"}
    assert "kmnist: AUROC 0.8" in seen["last"]["legend"]
    assert "kmnist: AUROC 0.7" in seen["first"]["legend"]
    assert seen["log"]["lines"]["kmnist"] != seen["first"]["lines"]["kmnist"]
    assert "NaN" not in "".join(seen["log"]["lines"].values())
    assert len(set(seen["strokes"])) == 3
    assert seen["focused"]


def test_narrow_screens_dark_mode_and_the_keyboard(look):
    seen = look(
        results(),
        """
        const ground = () => getComputedStyle(document.body).backgroundColor;
        const before = ground();
        document.getElementById("theme").click();
        const controls = [...document.querySelectorAll("button, select, input, a")];
        return { before, after: ground(),
                 reachable: controls.every((control) => control.tabIndex >= 0),
                 named: [...document.querySelectorAll("select, input")].every(
                   (control) => control.labels.length > 0 || control.ariaLabel) };
        """,
        width=390,
    )
    assert seen["wide"] <= seen["room"]
    assert seen["before"] != seen["after"]
    assert seen["reachable"]
    assert seen["named"]


def test_the_page_of_a_users_run(look, tmp_path):
    """Answers come first, and the table of draws fits 1280 pixels with every column it can have."""
    page = read_page(wide_draws(tmp_path))
    steps = """
      const box = (id) => document.querySelector(`#${id} .scroll`);
      const circles = (id) => document.querySelectorAll(`#${id} svg circle`).length;
      return { ids: [...document.querySelectorAll("section")].map((part) => part.id),
               columns: document.querySelectorAll("#draws thead th").length,
               table: box("draws").scrollWidth, room: box("draws").clientWidth,
               residuals: circles("residuals"), evidence: circles("evidence"),
               bars: [...document.querySelectorAll("#weights rect")].map(
                 (bar) => bar.width.baseVal.value),
               bands: document.querySelectorAll("#functions svg svg path").length,
               charts: document.querySelectorAll("#paths figure > div > svg").length,
               images: document.querySelectorAll("img").length, text: document.body.innerText };
    """
    seen = look(page, steps, 1280)
    assert seen["columns"] == 14
    assert seen["table"] <= seen["room"]
    answers = ["functions", "calibration", "residuals", "weights", "evidence"]
    assert [name for name in seen["ids"] if name in (*answers, "draws")] == [*answers, "draws"]
    assert seen["residuals"] == 2  # one of the three has no number
    assert seen["evidence"] == 3
    assert seen["bars"][0] == pytest.approx(seen["bars"][2] / 3, rel=0.01)
    assert seen["bands"] == 5  # two bands, two draws, their mean
    assert seen["charts"] == 2  # the plane and the loss along the paths
    assert HOSTILE in seen["text"]
    assert seen["harm"] == seen["images"] == 0
