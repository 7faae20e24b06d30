"""The site builds without a warning, and a reader who types a word into its search finds pages."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from browser import Browser

ROOT = Path(__file__).parents[2]
# What the theme shows, once a while has changed nothing: it searches at every key.
RESULTS = """
(() => {
  const all = () => [...document.querySelectorAll("a.md-search-result__link")].map(
    (link) => ({ href: link.href, text: link.textContent }));
  const before = all();
  return new Promise((done) => setTimeout(done, 300)).then(
    () => JSON.stringify(before) === JSON.stringify(all()) ? before : null);
})()
"""

pytestmark = pytest.mark.slow


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, without a line in the log for each."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The folder of the built site."""
    pytest.importorskip("mkdocs", reason="`make docs` installs it")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site) -> Iterator[str]:
    """Where the site is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_search_of_the_site_knows_every_page(site):
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].split("#")[0] for entry in index["docs"]}
    pages = {
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        for path in (ROOT / "docs").rglob("*.md")
    }
    assert pages <= found
    # Nothing is fetched from elsewhere when a page is read.
    text = (site / "index.html").read_text(encoding="utf-8")
    assert 'src="http' not in text
    assert 'rel="stylesheet" href="http' not in text


def exists(site: Path, href: str) -> bool:
    """Whether a link leads to a page of the site, and to a heading that is on it."""
    parts = urlsplit(href)
    file = site / unquote(parts.path).lstrip("/")
    if not file.is_file():
        return False
    text, name = file.read_text(encoding="utf-8"), unquote(parts.fragment)
    return not name or re.search(f'id="{re.escape(name)}"', text) is not None


@pytest.mark.parametrize(
    ("start", "word"),
    [
        ("index.html", "calibration"),
        ("reproduction/uci.html", "SLURM"),
        ("index.html", "mutual information"),
    ],
)
def test_a_word_typed_into_the_search_leads_to_pages(site, address, tmp_path, start, word):
    with Browser(tmp_path) as browser:
        browser.open(f"{address}/{start}", 1280, 900)
        browser.press("input.md-search__input")
        assert browser.evaluate("document.activeElement.matches('.md-search__input')")
        browser.type(word)
        assert browser.evaluate("document.activeElement.value") == word
        browser.wait("document.querySelector('a.md-search-result__link') !== null")
        found = browser.wait(RESULTS)
        assert any(word.lower() in result["text"].lower() for result in found)
        assert [result["href"] for result in found if not exists(site, result["href"])] == []
        browser.press("a.md-search-result__link")
        page = urlsplit(found[0]["href"]).path
        browser.wait(f"location.pathname === {page!r} && document.readyState === 'complete'")
        shown = browser.evaluate("document.querySelector('article').textContent").lower()
        assert all(part in shown for part in word.lower().split())
        assert browser.said == []


def test_a_word_that_is_nowhere_finds_nothing(address, tmp_path):
    none = "/No matching/.test(document.querySelector('.md-search-result__meta').textContent)"
    with Browser(tmp_path) as browser:
        browser.open(f"{address}/index.html", 1280, 900)
        browser.press("input.md-search__input")
        browser.type("xylophone")
        browser.wait(none)
        assert browser.evaluate(RESULTS) == []
