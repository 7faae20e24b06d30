"""The notebooks run, show what they claim, and are what the pages of the site show."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PAGES = FOLDER.parent / "docs" / "notebooks"
TINY = {"EPOCHS": 60, "DRAWS": 3, "MAX_TIME": 0.2, "REFINE": 300}


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebook_pages", FOLDER / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_there_is_one_of_each_task():
    assert [path.stem for path in NOTEBOOKS] == ["classification_ood", "regression_gap"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_files_are_notebooks_without_outputs(notebook):
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    names = [cell["id"] for cell in content["cells"]]
    assert len(set(names)) == len(names)
    for cell in content["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_all_cells_run_with_tiny_settings(pages, notebook):
    cells, names = pages.run(notebook, **TINY)
    assert {name: names[name] for name in TINY if name in names}.items() <= TINY.items()
    assert len(names["draws"]) == 3
    assert sum(len(cell.figures) for cell in cells) == 1
    assert any("draws by" in cell.value._repr_html_() for cell in cells if cell.value is not None)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_page_shows_the_code_of_the_notebook(pages, notebook):
    page = (PAGES / f"{notebook.stem}.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```py\n(.*?)\n```", page, flags=re.DOTALL | re.MULTILINE)
    assert shown == [cell.source for cell in pages.read(notebook) if cell.kind == "code"]
    for cell in pages.read(notebook):
        assert cell.source in page  # else run python notebooks/pages.py


def test_settings_are_replaced_and_comments_stay(pages):
    source = "A = 1  # why\nfor A in x:\n    A = 2\nB = 3"
    assert pages.replaced(source, {"A": 5}) == "A = 5  # why\nfor A in x:\n    A = 2\nB = 3"


def test_a_failing_cell_is_named(pages, tmp_path):
    broken = tmp_path / "broken.ipynb"
    cell = {"cell_type": "code", "id": "a", "source": ["1 / 0"]}
    broken.write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    with pytest.raises(ZeroDivisionError) as failed:
        pages.run(broken)
    assert "broken.ipynb, cell 0" in str(failed.traceback[-1].path)


@pytest.mark.slow
def test_regression_is_uncertain_in_the_gap(pages):
    _, names = pages.run(FOLDER / "regression_gap.ipynb")
    assert names["in_gap"] > 10 * names["on_data"]
    covered = names["draws"].predict(names["gap_x"]).metrics(names["gap_y"])
    assert covered["ensemble"]["coverage"] > 0.7 > covered["per_sample"]["coverage"]


@pytest.mark.slow
def test_draws_detect_what_the_network_does_not(pages):
    _, names = pages.run(FOLDER / "classification_ood.ipynb")
    scores = names["inside"].ood_metrics(names["outside"])["ensemble"]
    assert scores["auroc_mutual_information"] > 0.75
    assert names["alone"]["ensemble"]["auroc_entropy"] < 0.3
