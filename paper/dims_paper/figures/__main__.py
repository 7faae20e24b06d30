"""Draw the figures of finished runs: data to results/paper/figures, pictures to docs/images.

    python -m dims_paper.figures runs/sphere/sphere_0.json runs/snelson/snelson_ggn_0.json

Keeps of each run what its figure needs, and redraws the figure from that alone.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from PIL import Image

from dims_paper.cache import read_json, write_json
from dims_paper.figures import write_figure
from dims_paper.schema import Run

DATA, PICTURES = Path("results/paper/figures"), Path("docs/images")
# What reports show and figures do not.
NOT_DRAWN = ("movies", "movie_grid")
DRAWN = ("curves", "mean", "std", "map")  # of a row
NO_TRAJECTORIES = ("trajectories", "landscape")  # in figures of functions and maps
LARGEST = 150_000  # bytes of a picture


def keep(path: Path) -> Path:
    """The data of a figure as one small file."""
    run = Run.from_json(read_json(path))
    left_out = (*NOT_DRAWN, *NO_TRAJECTORIES) if run.rows else NOT_DRAWN
    rows = [
        replace(row, diagnostics={}, figure={k: v for k, v in row.figure.items() if k in DRAWN})
        for row in run.rows
    ]
    small = replace(
        run, rows=rows, figure={k: v for k, v in run.figure.items() if k not in left_out}
    )
    target = DATA / f"{run.experiment}.json"
    write_json(target, small.to_json(), indent=None)
    return target


def draw(data: Path) -> Path:
    """The picture of kept data, in as many colours as its size allows."""
    png, pdf = write_figure(Run.from_json(read_json(data)), PICTURES / data.stem)
    pdf.unlink()
    with Image.open(png) as image:
        full = image.convert("RGB")
    for colours in (256, 128, 64, 32):
        # By coverage, not by counting pixels: a thin line must keep the colour of its method.
        few = full.quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(png, optimize=True)
        if png.stat().st_size <= LARGEST:
            return png
    raise SystemExit(f"{png}: {png.stat().st_size} bytes, above {LARGEST}")


if __name__ == "__main__":  # without runs: redraw what is kept
    for data in [keep(Path(run)) for run in sys.argv[1:]] or sorted(DATA.glob("*.json")):
        print(draw(data))
