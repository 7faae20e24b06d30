"""What docs/reproduction/*.md say of the figures follows from the data beside them."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("sphere", "sinusoid", "curve", "surface-2d", "breakdown", "banana", "snelson")


def kept(name: str) -> dict:
    return json.loads((ROOT / "results/paper/figures" / f"{name}.json").read_text())


def page() -> str:
    pages = sorted((ROOT / "docs" / "reproduction").glob("*.md"))
    return " ".join(" ".join(page.read_text() for page in pages).split())


@pytest.mark.parametrize("name", NAMES)
def test_every_picture_is_there_small_and_shown(name):
    assert (ROOT / "docs" / "images" / f"{name}.png").stat().st_size < 150_000
    assert f"images/{name}.png" in page()
    assert kept(name)["experiment"] == name


def test_the_sphere():
    free, drawn = kept("sphere")["trajectories"]
    assert f"ends at a loss of {free['loss'][-1]:.1f}" in page()
    left = 100 * drawn["energy"][-1] / drawn["energy"][0]
    assert f"has {left:.1f} % of its energy left" in page()


def test_the_sinusoid():
    run = kept("sinusoid")
    at = [min(range(200), key=lambda i: abs(run["grid"][i] - x)) for x, _ in run["points"]["train"]]
    rla, dims = ([row["std"][i] for i in at] for row in run["rows"])
    assert f"at most {max(dims):.3f}" in page()
    assert f"(up to {max(rla):.2f})" in page()
    (start, rla_end), (_, dims_end) = (
        (loss["quantiles"][1][0], loss["quantiles"][1][-1]) for loss in run["losses"]
    )
    said = f"start at {start:.2f}, at θ*: RLA ends at a median of {rla_end:.0f}, DiMS at"
    assert f"{said} {dims_end:.1f}" in page()


def test_the_four_dynamics():
    run = kept("surface-2d")
    length = {(p["method"], p["start_velocity"]): p["arc_length"] for p in run["trajectories"]}
    along, across = (
        f"{length['dims', way]:.1f} against {length['damped', way]:.1f} {way}"
        for way in ("along", "across")
    )
    assert f"an arc length of {along} the valley, {across} it" in page()


def test_the_rings():
    drawn = [p for p in kept("breakdown")["trajectories"] if p["method"] == "dims"]
    rings = Counter(round(path["end_radius"]) for path in drawn)
    assert rings == {1: 1, 2: 6, 3: 1}
    assert "One draw ends on ring 1, six on ring 2 and one on ring 3" in page()
    # Below the ridges, whose height is 2, a ring is not left any more.
    assert all(path["energy"][-1] < 2 for path in drawn)


def test_the_uncertainty_near_and_far():
    run = kept("banana")
    side, (low, high) = run["map"]["side"], run["map"]["x"]
    ticks = [low + i * (high - low) / (side - 1) for i in range(side)]
    distances = [
        min(math.dist((x, y), point[:2]) for point in run["points"]) for y in ticks for x in ticks
    ]

    def mean(values: list[float], near: bool) -> str:
        chosen = [
            v for v, d in zip(values, distances, strict=True) if (d < 0.3 if near else d > 1.5)
        ]
        return f"{statistics.fmean(chosen):.3f}".lstrip("0")

    rows = {row["method"]: row["map"] for row in run["rows"]}
    classes = {name: [p * (1 - p) for p in row["probability"]] for name, row in rows.items()}
    spread = rows["DiMS"]["variance"]
    text = " ".join(page().split())
    near = f"is {mean(spread, True)} within 0.3 of a training point"
    assert f"{near} and {mean(spread, False)}" in text
    dims = f"class is {mean(classes['DiMS'], True)} and {mean(classes['DiMS'], False)}."
    assert f"{dims} MAP has {mean(classes['MAP'], True)} and {mean(classes['MAP'], False)}" in text
    assert float(mean(spread, False)) > 5 * float(mean(spread, True))


def test_figures_are_of_the_papers_settings():
    banana, snelson = kept("banana")["settings"], kept("snelson")["settings"]
    assert (banana["friction"], banana["max_time"], banana["draws"]) == (0.01, 100.0, 50)
    assert (snelson["friction"], snelson["max_time"], snelson["draws"]) == (0.1, 50.0, 100)
