"""`dims sample`: a run in a folder, in this process or on a cluster."""

from __future__ import annotations

import json
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dims.commands.exits import CANNOT_GO_ON, FAILED_DRAWS, end, stop, tell

if TYPE_CHECKING:
    from dims.sampling.draws import Draws
    from dims.sampling.posterior import Posterior

__all__ = ["sample"]

EngineName = StrEnum("EngineName", ["local", "ray"])
MethodName = StrEnum("MethodName", ["la", "linla", "rla", "dims"])
CurvatureName = StrEnum("CurvatureName", ["full", "diagonal", "kronecker", "low_rank"])
SettleName = StrEnum("SettleName", ["stiff", "full", "none"])


def _number(text: str, low: int, high: int) -> Any:
    """An option for a whole number; its bounds are checked and not shown: help fits a screen."""

    def check(given: int | None) -> int | None:
        if given is not None and not low <= given <= high:
            raise typer.BadParameter(f"{given} is not between {low} and {high}")
        return given

    return typer.Option(help=text, callback=check)


def _name(text: str) -> Any:
    """An option for one of some names, which its help lists."""
    return typer.Option(metavar="NAME", help=text)


def _times(text: str | None) -> tuple[float, ...] | None:
    """Times as they are typed: 3,10."""
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"--save-at: {text!r} is not a list of times such as 3,10") from error


def sample(
    entry: Annotated[str, typer.Argument(help="file.py:function; `dims init` writes one")],
    store: Annotated[Path, typer.Option(help="Folder of the run.")],
    draws: Annotated[int, _number("Number of draws.", 1, 10**7)] = 100,
    method: Annotated[MethodName, _name("la, linla, rla or dims.")] = MethodName.dims,
    friction: Annotated[float | None, typer.Option(help="η₀; 0.1 without it.")] = None,
    gravity: Annotated[float | None, typer.Option(help="κ; 1 without it.")] = None,
    max_time: Annotated[float | None, typer.Option(help="3 for dims, 1 for rla.")] = None,
    tolerance: Annotated[float | None, typer.Option(help="Of the solver.")] = None,
    save_at: Annotated[str | None, typer.Option(help="Times to keep too: 3,10.")] = None,
    settle: Annotated[SettleName | None, _name("To rest: stiff, full or none.")] = None,
    curvature: Annotated[
        CurvatureName, _name("full, diagonal, kronecker, low_rank.")
    ] = CurvatureName.full,
    refine: Annotated[bool, typer.Option("--refine", help="Walk to a minimum first.")] = False,
    tune_at_minimum: Annotated[
        bool, typer.Option("--tune-at-minimum", help="Prior and noise at their own minimum.")
    ] = False,
    chunk_size: Annotated[int, _number("Draws kept together.", 1, 10**7)] = 50,
    engine: Annotated[EngineName, _name("local or ray.")] = EngineName.local,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster.")] = None,
    threads: Annotated[int | None, _number("Of each worker; 1 with Ray.", 1, 4096)] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Failed draws once more.")
    ] = False,
    seed: Annotated[int, _number("Of the draws.", 0, 2**63 - 1)] = 0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda; or the model's.")] = None,
    out: Annotated[Path | None, typer.Option(help="One file for all draws.")] = None,
    follow: Annotated[int, _number("Draws whose paths to keep.", 0, 1000)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="A summary for programs.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Sample minima around a trained network; the same command goes on after a stop.

    Exit codes: 0 well, 1 cannot go on, 2 bad input, 3 draws failed, 130 stopped.

    Example: dims sample my_run.py:problem --store runs/first --draws 200
    """
    if address is not None and engine is not EngineName.ray:
        end("--address: it belongs to a cluster; add --engine ray")
    if out is not None and out.exists():
        end(f"--out: {out} exists; give another name")
    if follow and method in (MethodName.la, MethodName.linla):
        end(f"--follow: draws by {method.value} have no trajectories; leave it out")
    began = time.monotonic()
    with _exit_codes(store) as told, _stoppable():
        posterior = _fit(entry, device, curvature.value, refine, tune_at_minimum, engine, quiet)
        how: dict[str, Any] = {"friction": friction, "gravity": gravity, "max_time": max_time}
        how |= {"seed": seed, "store": store, "chunk_size": chunk_size, "progress": not quiet}
        how |= {"tolerance": tolerance, "save_at": _times(save_at), "retry_failed": retry_failed}
        how |= {} if settle is None else {"settle": settle.value}
        made = posterior.sample(
            draws, method.value, engine=_engine(engine, address, threads), **how
        )
        if out is not None:
            made.save(out)
        if follow:
            _follow(posterior, made, follow, store, out, quiet)
        _keep_predictions(posterior, made, told, [store, *([] if out is None else [out])])
    _tell(made, posterior, store, time.monotonic() - began, as_json)


@contextmanager
def _exit_codes(store: Path) -> Iterator[list[str]]:
    """Inside, a warning is one line, and so is what ends the program with a code for the shell.

    The lines of warnings are collected for the report of the run.
    """
    from dims.errors import EngineError, MemoryLimitError

    told: list[str] = []

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        tell(message)
        told.append(str(message))

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield told
    except KeyboardInterrupt:
        stop(store)
    except EngineError as error:
        end(error, CANNOT_GO_ON)
    except OSError as error:
        end(error.args[-1] if error.errno is None else error, CANNOT_GO_ON)
    except (ImportError, MemoryLimitError, TypeError, ValueError) as error:
        end(error)


def _fit(
    entry: str,
    device: str | None,
    curvature: str,
    refine: bool,
    tune_at_minimum: bool,
    engine: EngineName,
    quiet: bool,
) -> Posterior:
    import torch

    from dims.commands.entry import call_entry, import_entry
    from dims.sampling.fit import fit

    module, name = import_entry(entry)
    torch.manual_seed(0)  # a network that is trained in ENTRY must be the same when a run goes on
    model, data, likelihood, rows = call_entry(module, name)
    if device is not None:
        try:
            model = model.to(device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"--device: {device[:40]!r} ({str(error).splitlines()[0]})") from error
    if engine is EngineName.ray:
        from dims.sampling.engine.cluster import send_source

        send_source(module)
    how: dict[str, Any] = {"refine": refine, "tune": "cautious" if tune_at_minimum else None}
    how |= {"curvature": curvature, "progress": not quiet, "validation": rows}
    return fit(model, data, likelihood, **how)


def _follow(
    posterior: Posterior, draws: Draws, count: int, store: Path, out: Path | None, quiet: bool
) -> None:
    from dims.commands.followed import keep_followed
    from dims.commands.pages.beside import TRAJECTORIES, beside
    from dims.sampling.files import write_text_atomically
    from dims.sampling.progress import progress_reporter

    with progress_reporter(not quiet, "following") as report:
        kept = keep_followed(posterior, draws, count, store, report)
    if out is not None:
        write_text_atomically(beside(out, TRAJECTORIES), kept.read_text(encoding="utf-8"))


def _keep_predictions(
    posterior: Posterior, draws: Draws, told: list[str], places: Sequence[Path]
) -> None:
    """What `dims report` shows of predictions, next to the draws."""
    from dims.commands.pages.beside import PREDICTIONS, beside
    from dims.commands.pages.predicted import predicted
    from dims.sampling.files import write_text_atomically

    found = predicted(draws, posterior.surface.data, posterior.validation)
    text = json.dumps({"warnings": list(dict.fromkeys(told)), **found})
    for place in places:
        write_text_atomically(beside(place, PREDICTIONS), text)


def _engine(name: EngineName, address: str | None, threads: int | None) -> Any:
    import torch

    from dims.sampling.engine import Ray

    if name is EngineName.ray:
        return Ray(address=address, threads=threads or 1)
    if threads is not None:
        torch.set_num_threads(threads)
    return None


def _tell(draws: Draws, posterior: Posterior, store: Path, seconds: float, as_json: bool) -> None:
    """A summary for a person or a program; draws that failed show in the exit code too."""
    from dims.sampling.draws.advice import advice_on
    from dims.sampling.store.chunks import failed_rows

    failed = failed_rows(draws)
    if as_json:
        prior = posterior.prior_precision
        facts = {
            "store": str(store),
            "method": draws.method,
            "seed": draws.seed,
            "draws": len(draws),
            "failed": failed,
            "status": Counter(s.name.lower() for s in draws.status if s is not None),
            "verdicts": Counter(draws.verdict or []),
            "evaluations": int(draws.evaluations.sum()),
            "prior_precision": prior if isinstance(prior, float) else prior.tolist(),
            "noise_std": posterior.noise_std,
            "gradient_norm": posterior.gradient_norm,
            "advice": advice_on(draws),
            "seconds": round(seconds, 3),
        }
        print(json.dumps(facts))
    else:
        print(draws.summary())
        if draws.mixture is not None and draws.mixture.held_out:
            rows = draws.mixture.held_out
            print(f"the report scores the same {rows} held-out rows, which flatters a little")
        print(f"\nIn {store}, {seconds:.1f} s")
    if failed:
        some = ", ".join(map(str, failed[:10])) + (" …" if len(failed) > 10 else "")
        end(
            f"{len(failed)} of {len(draws)} draws failed ({some}); they are kept with their "
            "status: --retry-failed tries them again with a finer tolerance",
            FAILED_DRAWS,
        )


@contextmanager
def _stoppable() -> Iterator[None]:
    """Schedulers end jobs with SIGTERM, terminals that close with SIGHUP: as good as Ctrl-C."""
    from dims.mechanics.interrupts import SIGNALS

    ended = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        ended = []
    for number in ended:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in ended:
            signal.signal(number, signal.SIG_DFL)
