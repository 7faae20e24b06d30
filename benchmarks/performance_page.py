"""Write the tables of docs/performance.md from the files in results/benchmarks.

python benchmarks/performance_page.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tables import markdown

RESULTS, PAGE = Path("results/benchmarks"), Path("docs/performance.md")


def load(name: str) -> Any:
    """One result file."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def rattle_seconds(records: list[dict[str, Any]], task: str) -> float:
    """Core-seconds per sample of rattle in float32."""
    return next(
        r["core_seconds_a_sample"] for r in records if r["solver"] == "rattle" and r["task"] == task
    )


def named(record: dict[str, Any]) -> str:
    """The solver and its precision."""
    name = "reference solver" if record["solver"] == "reference" else record["solver"]
    return name if "float64" in name else f"{name}, {record['precision']}"


def solvers(task: str) -> str:
    """All solvers of one task, slowest first."""
    records = load("bench")["records"]
    law = "worst_kinetic_change" if task == "rla" else "worst_energy_violation"
    rows = []
    for record in sorted(
        (r for r in records if r["task"] == task), key=lambda r: -r["core_seconds_a_sample"]
    ):
        seconds = record["core_seconds_a_sample"]
        rows.append(
            [
                named(record),
                str(record["rows"]),
                f"{record['evaluations']:,.0f}",
                f"{seconds:.3g}",
                f"{seconds / rattle_seconds(records, task):.1f}",
                f"{record[law]:.2g}",
                f"{record['gradient_norm']:.0f}",
            ]
        )
    title = "T changes by" if task == "rla" else "energy violation"
    head = [
        "solver",
        "rows",
        "evaluations",
        "core-seconds per sample",
        "× rattle",
        title,
        "final ‖g‖",
    ]
    return markdown(head, rows)


def scaling() -> str:
    """Time per step against rows, points and parameters."""
    rows = [
        [
            what,
            ", ".join(f"{size:,}" for size in found["sizes"]),
            ", ".join(f"{1e3 * s:.1f}" for s in found["seconds"]),
            f"{found['exponent']:.2f}",
        ]
        for what, found in load("bench")["scaling"].items()
    ]
    return markdown(["varied", "sizes", "milliseconds per step", "exponent"], rows)


def against_reference() -> str:
    """Rattle before and after the reference solver, in one run."""
    first, reference, last = load("bench_reference")["records"]
    return markdown(
        [
            "solver",
            "rows",
            "evaluations",
            "core-seconds per sample",
            "reference ÷ this",
            "energy violation",
        ],
        [
            [
                named(r),
                str(r["rows"]),
                f"{r['evaluations']:,.0f}",
                f"{r['core_seconds_a_sample']:.3g}",
                f"{reference['core_seconds_a_sample'] / r['core_seconds_a_sample']:.0f}",
                f"{r['worst_energy_violation']:.2g}",
            ]
            for r in (first, reference, last)
        ],
    )


def share() -> str:
    """The share of the gradient in a step."""
    found = load("bench")["gradient_share"]
    step, gradient = 1e3 * found["step"], 1e3 * found["gradient"]
    return (
        f"A compiled float32 step of {found['rows']} rows takes {step:.2f} ms on one core. Its "
        f"gradient alone takes {gradient:.2f} ms, or {100 * found['share']:.0f} %."
    )


def gpu() -> str:
    """Times on a GPU."""
    rows = [
        [
            f"Snelson, K = 593, {r['rows']:,} samples, {r['precision']}",
            f"{r['wall_seconds']:.1f}",
            f"{1e3 * r['wall_seconds'] / r['rows']:.0f} ms",
            f"{r['evaluations']:,.0f} (at most {r['most_evaluations']:,})",
            f"{r['worst_energy_violation']:.2g}",
            f"{r['compilation_seconds']:.0f}",
        ]
        for r in load("bench_gpu")["records"]
    ]
    lenet = load("lenet")
    cold, warm = lenet["seconds"]
    network = f"LeNet, K = {lenet['parameters']:,}, {lenet['points']:,} images"
    counts = lenet["evaluations"]
    rows.append(
        [
            f"{network}, {lenet['rows']} samples, {lenet['precision']}",
            f"{warm:.1f}",
            f"{1e3 * warm / lenet['rows']:.0f} ms",
            f"{sum(counts) / len(counts):,.0f} (at most {max(counts):,})",
            f"{max(lenet['energy_violation']):.2g}",
            f"{cold - warm:.0f}",
        ]
    )
    head = [
        "on an H200, compiled before",
        "seconds",
        "per sample",
        "gradients",
        "energy violation",
        "compilation, s",
    ]
    return markdown(head, rows)


def curvature() -> str:
    """Times of the curvature."""
    rows = []
    for title, found in load("curvature")["core_seconds"].items():
        rows += [[title, name, f"{seconds:.2f}"] for name, seconds in found.items()]
    return markdown(["curvature", "implementation", "core-seconds"], rows)


def step_control() -> str:
    """Variants of the step control."""
    rows = [
        [
            v["variant"],
            f"{v['evaluations']:,}",
            str(v["rejections"]),
            f"{v['energy']['2']:.1f}, {v['energy']['10']:.1f}, {v['energy']['50']:.1f}",
            f"{v['gradient_norm']:.1f}",
        ]
        for v in load("step_control")["variants"]
    ]
    head = ["variant, 200 rows", "gradients", "rejected", "E at t = 2, 10, 50", "final ‖g‖"]
    return markdown(head, rows)


def stiffest() -> str:
    """Step sizes in units of the fastest oscillation."""
    rows = [
        [f"{m['time']}", f"{m['median']:.2f}", f"{m['from']:.2f} to {m['to']:.2f}"]
        for m in load("step_control")["stiffest_mode"]
    ]
    return markdown(["from t =", "median ωh", "80 % of steps"], rows)


def networks() -> str:
    """Gradients per trajectory on several networks."""
    rows = [
        [
            str(n["seed"]),
            f"{n['gradients']:,.0f} ± {n['error']:,.0f}",
            f"{n['median']:,.0f}",
            f"{n['most']:,.0f}",
            f"{n['energy']['10.0']:.1f}, {n['energy']['50.0']:.1f}",
            f"{n['worst_energy_violation']:.1g}",
        ]
        for n in sorted(load("networks")["networks"], key=lambda n: n["gradients"])
    ]
    head = ["network", "gradients", "median", "maximum", "E at t = 10, 50", "energy violation"]
    return markdown(head, rows)


PARTS: dict[str, Callable[[], str]] = {
    "solvers": lambda: solvers("dims"),
    "geodesics": lambda: solvers("rla"),
    "reference": against_reference,
    "scaling": scaling,
    "share": share,
    "gpu": gpu,
    "curvature": curvature,
    "step control": step_control,
    "stiffest mode": stiffest,
    "networks": networks,
}


def filled(text: str) -> str:
    """The page with the content between its marks replaced."""
    for name, write in PARTS.items():
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not mark.search(text):
            raise ValueError(f"{PAGE}: no mark '<!-- {name} -->'")
        text = mark.sub(lambda m, write=write: f"{m[1]}{write()}\n{m[2]}", text)
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
