"""Pages at a true 420 pixels, and figures whose numbers must stay readable, in Chromium."""

from __future__ import annotations

import pytest
from report_problems import (
    classification_run,
    images_run,
    regression_run,
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


PAGES = [regression_run, classification_run, images_run, "wide"]


@pytest.mark.parametrize("kind", PAGES, ids=lambda kind: getattr(kind, "__name__", kind))
def test_pages_fit_420_pixels(look, tmp_path, kind):
    pages = {"wide": wide_draws}
    page = read_page(pages[kind](tmp_path)) if kind in pages else results_page([kind()], None)
    seen = text_outside(look, page, 420)
    assert seen["window"] == 420
    assert seen["wide"] <= seen["room"]
    assert seen["out"] == []
