"""The examples run, and their results are what they claim."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _beside_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where an example is run: it imports what the others share."""
    monkeypatch.syspath_prepend(EXAMPLES)


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def size_of(picture: Path) -> tuple[int, int]:
    with Image.open(picture) as image:
        image.verify()
        return image.size


def test_every_example_is_tested():
    tested = {"regression_gap", "classification_ood", "own_model", "any_function", "how_to_choose"}
    tested |= {"adapters", "residual_images"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested | {"common"}


@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
@pytest.mark.slow
def test_regression_is_uncertain_in_the_gap(tmp_path, capsys):
    draws = example("regression_gap").main(quick=True, out=tmp_path)
    assert list(draws) == ["la", "linla", "rla", "dims"]
    line = next(x for x in capsys.readouterr().out.splitlines() if x.strip().startswith("DiMS:"))
    on_data, in_gap = (float(part.split()[0]) for part in line.split("spread ")[1].split(", "))
    assert in_gap > 5 * on_data
    assert size_of(tmp_path / "regression_gap.png") > (1000, 300)


def test_disagreement_detects_ood_points(tmp_path):
    found = example("classification_ood").main(quick=True, out=tmp_path)
    assert found["draws, disagreement"] > 0.7 > found["trained network, entropy"]
    assert size_of(tmp_path / "classification_ood.png") > (1000, 300)


@pytest.mark.slow
def test_your_own_model_is_less_certain_where_it_saw_less(tmp_path):
    spreads = example("own_model").main(quick=True, out=tmp_path)
    assert spreads[4] > spreads[3] > 0  # no flat, and four
    assert spreads[4] > 2 * max(spreads[:3])
    assert size_of(tmp_path / "own_model.png") > (1000, 200)


@pytest.mark.slow
def test_particles_come_to_rest_on_the_minima(tmp_path):
    distances = example("any_function").main(quick=True, out=tmp_path)
    assert max(distances.values()) < 0.2
    with Image.open(tmp_path / "any_function.gif") as film:
        assert film.n_frames == 6


@pytest.mark.slow
def test_adapters_disagree_about_words_they_never_saw(tmp_path):
    found = example("adapters").main(quick=True, out=tmp_path)
    assert found["sampled numbers"] == 4 * 12 * 2 + 2 * 13  # two adapters of rank 2, and a head
    assert found["disagreement, unknown words"] > 2 * found["disagreement, known words"]
    assert (tmp_path / "adapters_first_draw.pt").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
def test_the_table_of_choices_is_measured(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    lines = example("how_to_choose").main(quick=True)
    assert len(lines) == 4
    assert {line.count("|") for line in lines} == {9}


@pytest.mark.slow
def test_an_example_runs_as_a_program(tmp_path):
    source = str(EXAMPLES.parent / "src")
    found = subprocess.run(
        [sys.executable, EXAMPLES / "any_function.py", "--quick", "--out", tmp_path / "out"],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "out" / "any_function.gif").exists()


@pytest.mark.slow
def test_full_classification_beats_the_trained_network(tmp_path):
    found = example("classification_ood").main(quick=False, out=tmp_path)
    assert found["draws, disagreement"] > 0.85


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
@pytest.mark.slow
def test_draws_of_a_residual_network_know_turned_digits(tmp_path):
    found = example("residual_images").main(quick=True, out=tmp_path)
    assert found["draws"]["nll"] < found["network"]["nll"]
    assert found["draws"]["auroc"] > found["network"]["auroc"]
    assert found["wrong"] / 20 > 3 * found["all wrong"] / 597
    page = (tmp_path / "residual_images" / "report.html").read_text(encoding="utf-8")
    assert "iVBOR" in page  # the images, as PNGs in base64
