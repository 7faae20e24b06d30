"""The site: every Python block runs, every link inside it leads somewhere, no page is forgotten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", flags=re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text())]


def anchors(page: Path) -> set[str]:
    """Headings as the site names them: lower case, words joined by hyphens."""
    text = FENCED.sub("", page.read_text())
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    kept = (re.sub(r"[^\w\s-]", "", t.encode("ascii", "ignore").decode()) for t in titles)
    return {re.sub(r"[-\s]+", "-", title.strip().lower()) for title in kept}


def broken_links(page: Path, text: str) -> list[str]:
    broken = []
    for link in LINK.findall(FENCED.sub("", text)):
        if re.match(r"https?://|mailto:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page if not name else (page.parent / name)
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, page.name, "exec"), names)
    pyplot.close("all")


def test_pages_have_code_to_run():
    assert {"index", "idea", "choose", "laplace", "faq"} <= {page.stem for page in WITH_CODE}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    assert broken_links(page, page.read_text()) == []


def test_a_broken_link_is_seen():
    text = "[a](nowhere.md) [b](index.md#nothing) [c](index.md#install) ![d](images/curve.png)"
    assert broken_links(DOCS / "index.md", text) == ["nowhere.md", "index.md#nothing"]


def test_every_page_is_in_the_menu():
    menu = (DOCS.parent / "mkdocs.yml").read_text()
    listed = re.findall(r"- [^:\n]+: (\S+\.md)", menu)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


def test_the_reference_names_what_the_package_exports():
    import dims

    documented = set(
        re.findall(r"^::: dims\.(?:estimators\.)?(\w+)$", (DOCS / "api.md").read_text(), re.M)
    )
    plain = {name for name in dims.__all__ if not name.endswith(("Warning", "Error"))}
    assert plain - documented == {"Dynamics", "Likelihood"}
    assert documented - set(dims.__all__) == {"metrics"}
