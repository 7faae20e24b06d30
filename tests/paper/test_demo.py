"""The demonstration runs, and shows what it says."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from dims.commands import app
from dims_paper.experiments.sinusoid import DemoSettings, demo_table, run_demo, sinusoid_run
from dims_paper.figures import write_figure

SMALL = DemoSettings(draws=3, training_steps=2_000, max_time=2.0, saves=4)


@pytest.fixture(scope="module")
def result():
    return run_demo(SMALL)


@pytest.mark.slow
def test_draws_follow_both_methods_and_fit_the_points(result):
    surface = result.posterior.surface
    assert result.rla_curves.shape == result.dims_curves.shape == (3, 200)
    fitted = surface.predict(result.settled, result.inputs.unsqueeze(-1)).squeeze(-1)
    assert (fitted - result.targets).abs().max() < 0.05
    assert (result.dims.energy_violation < 1e-2).all()


@pytest.mark.slow
def test_the_table_has_a_number_for_each_method(result):
    rows = demo_table(result)
    assert all(len(row) == 3 for row in rows)
    assert rows[0] == ("draws", "3", "3")


@pytest.mark.slow
def test_the_figure_is_written(result, tmp_path):
    path, _ = write_figure(sinusoid_run(result, SMALL), tmp_path / "figures" / "demo")
    assert path.name == "demo.png"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_help_fits_a_screen_and_shows_an_example():
    shown = CliRunner().invoke(app, ["demo", "--help"])
    assert shown.exit_code == 0
    assert "Example" in shown.output
    assert len(shown.output.splitlines()) < 40


def test_bad_options_are_refused():
    assert CliRunner().invoke(app, ["demo", "--draws", "0"]).exit_code == 2
