"""The site: every Python block runs, every internal link works, and the menu lists every page."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from cases import slow

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", flags=re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
TEXT_ONLY = {
    "api.md": "its tables are made of docstrings when the site is built",
    "extending/experiments.md": "a list of seven steps around one program",
    "extending/samplers.md": "one complete program and its rules",
    "extending/solvers.md": "two complete programs and their rules",
}
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text())]
# Their code trains and samples for seconds; of the others there is one for each kind of page.
LONG = {"baselines", "choose", "cluster", "idea", "index", "methods", "predictions", "regression"}
LONG |= {"sequences", "sklearn", "extending/metrics", "extending/samplers", "extending/solvers"}


def name_of(page: Path) -> str:
    """The path below docs, as the menu writes it."""
    return page.relative_to(DOCS).as_posix()


def anchors(page: Path) -> set[str]:
    """The anchors of a page: its headings in lower case, with hyphens between the words."""
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


def pages_to_run() -> list:
    """The long ones run in `make test-all` only."""
    names = {page: name_of(page) for page in WITH_CODE}
    assert {f"{name}.md" for name in LONG} <= set(names.values())
    return [
        slow(page, id=name) if name.removesuffix(".md") in LONG else pytest.param(page, id=name)
        for page, name in names.items()
    ]


@pytest.mark.parametrize("page", pages_to_run())
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, page.name, "exec", dont_inherit=True), names)
    pyplot.close("all")


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_python_blocks_name_what_exists(page):
    """Also of the long pages: whatever a block takes from `dims` is there."""
    import dims

    for block in BLOCK.findall(page.read_text()):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert node.value.id != "dims" or hasattr(dims, node.attr), f"dims.{node.attr}"
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dims"):
                module = importlib.import_module(node.module)
                for alias in node.names:  # a sub-package is there once it is imported
                    inner = f"{node.module}.{alias.name}"
                    found = hasattr(module, alias.name) or importlib.util.find_spec(inner)
                    assert found, ast.dump(node)


def test_pages_have_code_to_run():
    assert {"index.md", "idea.md", "choose.md", "laplace.md", "faq.md"} <= set(
        map(name_of, WITH_CODE)
    )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_internal_links_work(page):
    assert broken_links(page, page.read_text()) == []


def test_a_broken_link_is_found():
    text = "[a](nowhere.md) [b](index.md#nothing) [c](index.md#install) ![d](images/curve.png)"
    assert broken_links(DOCS / "index.md", text) == ["nowhere.md", "index.md#nothing"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_stars_of_symbols_are_not_taken_for_emphasis(page):
    """Of two θ* in a paragraph or a row, markdown would drop both stars and set what is between."""
    text = re.sub(r"`[^`\n]*`", "", FENCED.sub("", page.read_text()))
    rows = re.findall(r"^\|.*$", text, flags=re.MULTILINE)
    blocks = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE).split("\n\n")
    assert [block for block in rows + blocks if re.search(r"θ\*[^\s*][^*]*θ\*", block)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_page_has_a_picture_or_a_table(page):
    text = FENCED.sub("", page.read_text())
    shows = re.search(r"^!\[[^\]]+\]\(|^\| --- \|", text, flags=re.MULTILINE)
    assert bool(shows) != (name_of(page) in TEXT_ONLY)


def test_every_page_is_in_the_menu():
    menu = (DOCS.parent / "mkdocs.yml").read_text()
    listed = re.findall(r"- [^:\n]+: (\S+\.md)", menu)
    assert sorted(listed) == sorted(map(name_of, PAGES))


def test_every_extra_for_users_is_on_the_page_of_installation():
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]
    for_developers = {"benchmarks", "dev", "docs"}
    extras = set(project["optional-dependencies"]) - for_developers
    assert set(re.findall(r"'\.\[(\w+)\]'", (DOCS / "install.md").read_text())) == extras


def test_the_api_page_documents_all_exported_names():
    import dims

    documented = set(
        re.findall(r"^::: dims\.(?:estimators\.)?(\w+)$", (DOCS / "api.md").read_text(), re.M)
    )
    failures = {name for name in dims.__all__ if name.endswith(("Warning", "Error"))}
    missing = set(dims.__all__) - failures - documented
    assert not missing, f"docs/api.md: add `::: dims.NAME` for {', '.join(sorted(missing))}"
    # Errors and warnings are documented by their module.
    assert "errors" in documented
    assert failures <= set(vars(dims.errors))
    assert documented <= {*dims.__all__, "errors"}
