"""Pages at a true 420 pixels, and figures whose numbers must stay readable, in Chromium."""

from __future__ import annotations

import pytest
from report_problems import (
    class_draws,
    classification_run,
    images_run,
    regression_run,
    unit_draws,
    wide_draws,
)

from dims.commands.pages.read import read_page
from dims_paper.results_page import results_page

pytestmark = pytest.mark.slow


def text_outside(look, page: dict, width: int) -> dict:
    """How wide a page is, and the texts of its pictures that stick out of their pictures."""
    steps = """
      const out = [...document.querySelectorAll("svg text")].filter((text) => {
        const own = text.getBoundingClientRect();
        const box = text.ownerSVGElement.getBoundingClientRect();
        return own.left < box.left - 1 || own.right > box.right + 1
          || own.top < box.top - 1 || own.bottom > box.bottom + 1;
      });
      const name = (text) => `${text.closest("section").id}: ${text.textContent}`;
      return { out: out.map(name) };
    """
    return look(page, steps, width)


PAGES = [regression_run, classification_run, images_run, "wide", "classes", "units"]


@pytest.mark.parametrize("kind", PAGES, ids=lambda kind: getattr(kind, "__name__", kind))
def test_pages_fit_420_pixels(look, tmp_path, kind):
    pages = {"wide": wide_draws, "classes": class_draws, "units": unit_draws}
    page = read_page(pages[kind](tmp_path)) if kind in pages else results_page([kind()], None)
    seen = text_outside(look, page, 420)
    assert seen["window"] == 420
    assert seen["wide"] <= seen["room"]
    assert seen["out"] == []


def test_right_and_wrong_answers_have_bars_and_numbers(look, tmp_path):
    seen = look(
        read_page(class_draws(tmp_path)),
        """
        const part = document.querySelector("#classes");
        const bars = [...part.querySelectorAll("svg rect")].map(
          (bar) => [bar.textContent, bar.height.baseVal.value]);
        const lines = part.querySelectorAll("svg")[2].textContent;
        const cells = [...part.querySelectorAll("tbody tr")].map(
          (row) => [...row.cells].map((cell) => cell.innerText));
        return { bars, lines, cells, note: part.querySelector(".note").innerText,
                 residuals: document.querySelector("#residuals") !== null };
        """,
    )
    assert seen["note"].startswith("Of 1000 held-out rows, 301 have a wrong answer.")
    heights = dict(seen["bars"])
    right, wrong = (heights[f"confidence 0.9 to 1: {text}"] for text in ("200 right", "1 wrong"))
    assert right == pytest.approx(200 * wrong, rel=1e-6)
    # A bar of one row has no height to speak of, so its number stands below.
    assert seen["lines"] == "right499200wrong3001"
    assert seen["cells"][0] == ["setosa", "399", "1", "0", "100 %"]
    assert not seen["residuals"]


def test_axes_and_cells_keep_the_digits_of_a_table(look, tmp_path):
    seen = look(
        read_page(unit_draws(tmp_path)),
        """
        const texts = (id) => [...document.querySelectorAll(`#${id} svg text`)].map(
          (text) => text.firstChild.data);
        return { functions: texts("functions"), residuals: texts("residuals"),
                 cells: [...document.querySelectorAll("#disagreement td")].map(
                   (cell) => cell.innerText) };
        """,
    )
    assert {"1000000", "1000010", "year of the sale"} <= set(seen["functions"])
    assert {"2019.2", "2019.4", "2019.6"} <= set(seen["functions"])
    assert any(text.startswith("price at the time of the") for text in seen["functions"])
    assert "predicted price" in seen["residuals"]
    assert " ".join(seen["cells"]) == (
        "2 0.500 1000001.500 0.600 1000003.000 2019.3540 "
        "1 0.250 1000001.250 0.700 1000002.125 2019.7000"
    )
