"""The paper's pictures: runs that keep what a figure needs, and figures from that alone."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
import torch
from typer.testing import CliRunner

from cases import first
from dims.commands import app
from dims.commands.pages.style import COLOURS, LABELS
from dims.commands.pages.trajectories import Plane, landscape, rounded
from dims.surface.function import Surface
from dims_paper.experiments.sinusoid import SinusoidSettings
from dims_paper.experiments.toys import Breakdown, Curve, Sphere, Surface2d
from dims_paper.figures import FIGURES, write_figure
from dims_paper.figures.style import colour_of
from dims_paper.schema import Run
from dims_paper.scoring import function_fields

BRIEF = {
    "sphere": Sphere(max_time=0.4, saves=4),
    "curve": Curve(max_time=0.3, saves=3),
    "surface-2d": Surface2d(max_time=0.2, saves=3),
    "breakdown": Breakdown(draws=2, max_time=0.2, geodesic_time=0.1, saves=3),
}


@pytest.fixture(scope="module")
def results():
    """As a figure gets them: through JSON."""
    return {
        name: Run.from_json(json.loads(json.dumps(settings.run(print).to_json())))
        for name, settings in BRIEF.items()
    }


@pytest.mark.parametrize("name", BRIEF)
def test_trajectories_keep_the_laws_of_their_dynamics(results, name):
    for path in results[name].figure["trajectories"]:
        assert path["status"] == "FINISHED"
        kinetic, energy = path["kinetic_energy"], path["energy"]
        if path["method"] == "rla":
            assert kinetic == pytest.approx([kinetic[0]] * len(kinetic), rel=1e-2)
        elif path["method"] == "gravity":
            assert energy == pytest.approx([energy[0]] * len(energy), rel=1e-2)
        else:
            assert all(after < before for before, after in pairwise(energy))


@pytest.mark.parametrize("name", first(list(BRIEF)))
def test_figures_are_drawn_from_the_saved_results_alone(results, name, tmp_path):
    png, pdf = write_figure(results[name], tmp_path / "deep" / name)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")


def test_the_same_result_gives_the_same_files(results, tmp_path):
    first, second = (write_figure(results["sphere"], tmp_path / name) for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_result_without_a_figure_is_refused(tmp_path):
    with pytest.raises(ValueError, match="sphere"):
        write_figure(Run(experiment="nothing"), tmp_path / "x")


def test_the_plane_of_paths_gives_back_points_that_lie_on_it():
    generator = torch.Generator().manual_seed(0)
    axes = torch.linalg.qr(torch.randn(5, 2, generator=generator, dtype=torch.float64)).Q.T
    centre = torch.arange(5, dtype=torch.float64)
    inside = centre + torch.randn(9, 2, generator=generator, dtype=torch.float64) @ axes
    plane = Plane(centre, inside)
    assert plane.share == pytest.approx(1)
    torch.testing.assert_close(plane.points(plane.coordinates(inside)), inside)
    bowl = Surface(lambda theta: (theta - centre).square().sum())
    ground = landscape(bowl, (-1.0, 1.0), (-2.0, 2.0), 5, plane)
    assert ground["loss"][2][2] == pytest.approx(0, abs=1e-12)
    # Rows go up, columns to the right: the corner is at (1, 2), its neighbour in the row (0.5, 2).
    assert ground["loss"][4][3:] == pytest.approx([0.25 + 4, 1 + 4])


def test_numbers_are_shortened_and_what_is_not_finite_is_none():
    assert rounded(torch.tensor([1.23456789, float("nan"), float("inf")]).double(), 3) == [
        1.23,
        None,
        None,
    ]
    kept = function_fields(torch.tensor([[1.0, 2.0], [3.0, 6.0]]).double())
    assert kept["mean"] == [2.0, 4.0]
    assert kept["std"] == pytest.approx([2**0.5, 8**0.5], rel=1e-3)


def test_every_method_has_one_colour_and_one_name():
    assert set(COLOURS) == set(LABELS)
    methods = ("map", "la", "linla", "rla", "dims", "deep_ensemble", "swag", "last_layer")
    assert len({COLOURS[method] for method in methods}) == len(methods)
    assert colour_of("DiMS") == COLOURS["dims"]
    assert colour_of("Deep ensemble") == COLOURS["deep_ensemble"]


def test_the_commands_write_results_and_figures(tmp_path):
    arguments = ["reproduce", "curve", "--quick", "--out", str(tmp_path / "c")]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    names = sorted(path.name for path in (tmp_path / "c_quick").iterdir())
    assert names == ["curve.json", "curve.pdf", "curve.png"]
    run = json.loads((tmp_path / "c_quick" / "curve.json").read_text())
    assert run["settings"]["saves"] == 20
    assert run["dims"]


@pytest.mark.parametrize("name", [name for name in FIGURES if name not in ("snelson", "banana")])
def test_help_fits_a_screen_and_shows_an_example(name):
    shown = CliRunner().invoke(app, ["reproduce", name, "--help"])
    assert shown.exit_code == 0
    assert f"dims reproduce {name}" in " ".join(shown.output.split())
    assert len(shown.output.splitlines()) < 40


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")  # thousands of steps, each checked, would take minutes
def test_the_sinusoid_keeps_functions_and_paths(tmp_path):
    settings = SinusoidSettings(training_steps=500, draws=3, max_time=1.0, saves=4, followed=2)
    run = json.loads(json.dumps(settings.run(print).to_json()))
    assert [len(row["curves"]) for row in run["rows"]] == [3, 3]
    assert [len(movie["curves"]) for movie in run["movies"]] == [5, 5]
    assert len(run["movies"][0]["curves"][0]) == 2
    assert len(run["movies"][0]["curves"][0][0]) == len(run["movie_grid"])
    assert {path["method"] for path in run["trajectories"]} == {"rla", "dims"}
    assert 0 < run["plane_share"] <= 1
    assert write_figure(Run.from_json(run), tmp_path / "sinusoid")[0].exists()
