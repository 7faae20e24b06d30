"""`look`: a page in headless Chromium."""

from __future__ import annotations

import pytest

from browser import Browser
from dims.commands.pages.html import write_page

# After all else; harm done later than the page is drawn would show too.
STEPS = """
new Promise((done) => setTimeout(done, 100)).then(() => {
  const seen = (() => { %s })(), root = document.documentElement;
  return { ...seen, harm: window.harm ?? 0, window: innerWidth, wide: root.scrollWidth,
           room: root.clientWidth };
})
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One Chromium for all tests."""
    with Browser(tmp_path_factory.mktemp("chromium")) as made:
        yield made


@pytest.fixture
def look(browser, tmp_path):
    """A function that opens a page, takes steps in it and returns what they saw."""

    def open_page(payload: dict, steps: str, width: int = 1200) -> dict:
        page = write_page(payload, tmp_path / "page.html")
        browser.said.clear()
        browser.open(page.as_uri(), width, 900)
        seen = browser.evaluate(STEPS % steps)
        assert browser.said == []
        assert seen["window"] == width
        return seen

    return open_page
