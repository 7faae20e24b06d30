"""Draw the figures of finished runs: data to results/paper/figures, pictures to docs/images.

    python paper/programs/figures.py runs/sphere/sphere_0.json runs/snelson/snelson_ggn_0.json

Keeps of each run what its figure needs, and redraws the figure from that alone.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from PIL import Image

from dims_paper.figures import write_figure

DATA, PICTURES = Path("results/paper/figures"), Path("docs/images")
# What reports show and figures do not.
NOT_DRAWN = ("movies", "movie_grid")
NOT_DRAWN_ROWS = ("evaluations", "energy_violation", "loss", "status", "calibration")
LARGEST = 150_000  # bytes of a picture


def keep(path: Path) -> Path:
    """The data of a figure as one small file."""
    run = json.loads(path.read_text())
    small: dict[str, Any] = {key: value for key, value in run.items() if key not in NOT_DRAWN}
    if "rows" in small:
        small["rows"] = [
            {key: value for key, value in row.items() if key not in NOT_DRAWN_ROWS}
            for row in small["rows"]
        ]
    if "losses" in small or "rows" in small:  # their figures show no paths
        small = {k: v for k, v in small.items() if k not in ("trajectories", "landscape")}
    DATA.mkdir(parents=True, exist_ok=True)
    target = DATA / f"{small['experiment']}.json"
    target.write_text(json.dumps(small, separators=(",", ":")) + "\n")
    return target


def draw(data: Path) -> Path:
    """The picture of kept data, in as many colours as its size allows."""
    png, pdf = write_figure(json.loads(data.read_text()), PICTURES / data.stem)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="*", help="none: redraw what is kept")
    options = parser.parse_args()
    for data in [keep(run) for run in options.runs] or sorted(DATA.glob("*.json")):
        print(draw(data))


if __name__ == "__main__":
    main()
