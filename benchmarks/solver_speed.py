"""Compare the speed and the accuracy of solvers on the Snelson network.

python benchmarks/solver_speed.py --quick
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from dims_paper.commands.stages import stages


def bench(
    rows: Annotated[int, typer.Option(min=1, help="Trajectories for rattle.")] = 100,
    slow_rows: Annotated[int, typer.Option(min=1, help="Trajectories for the other solvers.")] = 3,
    solver: Annotated[
        list[str] | None, typer.Option(help="Time only this solver; may be repeated.")
    ] = None,
    diffrax: Annotated[
        Path | None, typer.Option(help="Python of an environment with jax and diffrax.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Only rattle, 16 trajectories to t = 1.")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Seed of the start velocities.")] = 2024,
    out: Annotated[Path, typer.Option(help="JSON file; its records are kept.")] = Path(
        "runs/bench.json"
    ),
) -> None:
    """Time the reference solver, torchode, diffrax and the solvers of dims in one run.

    Example: python benchmarks/solver_speed.py --quick
    """
    from dims_paper.datasets.locate import DataNotFoundError
    from speed.run import BenchSettings, quick_settings, run_bench
    from speed.solvers import SOLVERS

    for name in solver or ():
        if name not in SOLVERS:
            raise typer.BadParameter(f"{name!r} is unknown; choose from {', '.join(SOLVERS)}")
    settings = BenchSettings(
        rows=rows,
        slow_rows=slow_rows,
        seed=seed,
        solvers=tuple(solver or SOLVERS),
        diffrax_python=diffrax,
        device=device,
    )
    if quick:
        settings, out = quick_settings(settings), out.with_stem(out.stem + "_quick")
    console = Console()
    try:
        with stages(console) as status:
            result = run_bench(settings, out, status.update)
    except (DataNotFoundError, ImportError) as error:
        console.print(str(error), markup=False, style="red")
        raise typer.Exit(2) from None
    console.print(_table(result))
    if "gradient_share" in result:
        share = result["gradient_share"]
        exponents = ", ".join(f"{k} {v['exponent']:.2f}" for k, v in result["scaling"].items())
        console.print(f"The gradient takes {share['share']:.0%} of a step; exponents: {exponents}")
    console.print(f"[dim]{out}[/dim]")


def _table(result: dict[str, Any]) -> Table:
    """All records, fastest first."""
    table = Table(title=f"Core-seconds per sample, {result['machine']['device']}")
    for title in ("task", "solver", "rows", "evaluations", "core-seconds", "violation", "slower"):
        table.add_column(title, justify="left" if title in ("task", "solver") else "right")
    for record in sorted(result["records"], key=lambda r: (r["task"], r["core_seconds_a_sample"])):
        same = [r for r in result["records"] if r["task"] == record["task"]]
        ours = [r["core_seconds_a_sample"] for r in same if r["solver"].startswith("rattle")]
        seconds = record["core_seconds_a_sample"]
        violation = record.get("worst_energy_violation", record.get("worst_kinetic_change", 0.0))
        table.add_row(
            record["task"],
            record["solver"],
            str(record["rows"]),
            f"{record['evaluations']:,.0f}",
            f"{seconds:.3g}",
            f"{violation:.2g}",
            f"{seconds / min(ours):.0f}×" if ours else "",
        )
    return table


if __name__ == "__main__":
    typer.run(bench)
