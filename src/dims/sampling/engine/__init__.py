"""Who computes the chunks of a run: this process, or the workers of a Ray cluster."""

from __future__ import annotations

from dims.errors import EngineError
from dims.sampling.engine.cluster import Ray
from dims.sampling.engine.local import InProcess
from dims.sampling.engine.work import Engine, Job, Work

__all__ = ["Engine", "EngineError", "InProcess", "Job", "Ray", "Work", "resolve_engine"]


def resolve_engine(engine: str | Engine | None) -> Engine:
    """None: this process; "ray": a cluster with its default settings; else an engine object."""
    if engine is None:
        return InProcess()
    if engine == "ray":
        return Ray()
    if isinstance(engine, (str, type)) or not isinstance(engine, Engine):
        raise ValueError(f'engine: {engine!r} is unknown; give None, "ray" or dims.Ray(...)')
    return engine
