"""Calls a tick many times: eagerly, compiled, or compiled and captured in a CUDA graph."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from dims.errors import CompileWarning
from dims.mechanics.rows import map_tensors
from dims.mechanics.snapshot import flatten
from dims.mechanics.solvers.base import RowState
from dims.model.torch_support.compiling import compile_for

__all__ = ["REPLAYS", "stepper"]

Tick = Callable[[RowState], RowState]
MOST_COMPILATIONS = 64  # of a tick in one process: each surface, precision and batch size is one
_CAN_SKIP_CHECKS = "skip_guard_eval_unsafe" in str(inspect.signature(torch.compiler.set_stance))
REPLAYS = 4  # of a graph between two looks at the rows


def stepper(
    tick: Tick, ticks: int, compiled: bool, device: torch.device, replays: int = REPLAYS
) -> Tick:
    """A function that advances a state by `ticks` ticks, a CUDA graph by `replays` times that."""
    if not compiled:
        return lambda state: _repeat(tick, state, ticks)
    return _Compiled(tick, ticks, device, replays)


def _repeat(tick: Tick, state: RowState, ticks: int) -> RowState:
    for _ in range(ticks):
        state = tick(state)
    return state


class _Compiled:
    """Falls back to eager ticks, with a warning, where compiling fails."""

    def __init__(self, tick: Tick, ticks: int, device: torch.device, replays: int) -> None:
        self.eager = tick
        self.tick = compile_for(device, tick)
        self.ticks, self.replays = ticks, replays
        self.graphs: dict[int, _Graph] = {}
        self.with_graph = device.type == "cuda"
        self.rows = -1
        self.works = True

    def __call__(self, state: RowState) -> RowState:
        if not self.works:
            return _repeat(self.eager, state, self.ticks)
        rows = len(state.status)
        try:
            with _patience():
                return self._advance(state, rows)
        except Exception as error:
            warnings.warn(
                f"torch.compile failed ({type(error).__name__}: {str(error).splitlines()[0]}); "
                "the run goes on without it, slower",
                CompileWarning,
                stacklevel=2,
            )
            self.works = False
            return _repeat(self.eager, state, self.ticks)

    def _advance(self, state: RowState, rows: int) -> RowState:
        if self.with_graph:
            if rows not in self.graphs:
                self.graphs = {rows: _Graph(self.tick, state, self.ticks, self.replays)}
            return self.graphs[rows](state)
        if rows != self.rows:
            # Fields that share memory, as in a first state, would be compiled for alone.
            state, self.rows = _clone(state), rows
            return _repeat(self.tick, state, self.ticks)
        with _trust():
            return _repeat(self.tick, state, self.ticks)


def _patience() -> AbstractContextManager[Any]:
    """Lets torch compile a tick often; past its limit it goes on without compiling, silently."""
    config = torch._dynamo.config
    name = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
    return config.patch({name: max(MOST_COMPILATIONS, getattr(config, name))})


def _trust() -> AbstractContextManager[Any]:
    """Spares the checks that a compiled tick still fits its state: nothing but the number of rows
    ever changes. They take as long as the tick of a small batch."""
    if not _CAN_SKIP_CHECKS:
        return nullcontext()
    return torch.compiler.set_stance(skip_guard_eval_unsafe=True)


class _Graph:
    """The ticks captured once over fixed memory, so that a replay is a single call."""

    def __init__(self, tick: Tick, state: RowState, ticks: int, replays: int) -> None:
        self.replays = replays
        self.state = _clone(state)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            _repeat(tick, self.state, 3)  # compiles and warms up outside the capture
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            _copy_into(self.state, _repeat(tick, self.state, ticks))

    def __call__(self, state: RowState) -> RowState:
        _copy_into(self.state, state)
        for _ in range(self.replays):
            self.graph.replay()
        return _clone(self.state)


def _copy_into(target: RowState, source: RowState) -> None:
    news = flatten(source, "state")
    for path, tensor in flatten(target, "state").items():
        tensor.copy_(news[path])


def _clone(state: RowState) -> RowState:
    return map_tensors(Tensor.clone, state)
