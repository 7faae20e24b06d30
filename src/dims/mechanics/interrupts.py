"""Ctrl-C and the signals of schedulers: they wait while a state is between two moments."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["held", "stoppable"]

# A terminal that closes sends SIGHUP, a scheduler SIGTERM. Windows has no SIGHUP.
SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class _Waiting(threading.local):
    """How many `held` blocks this thread is in, and the signal that came meanwhile."""

    depth = 0
    signal: int | None = None


_waiting = _Waiting()


@contextmanager
def held() -> Iterator[None]:
    """Inside, an interrupt waits until the end: what is done here is done whole."""
    _waiting.depth += 1
    try:
        yield
    finally:
        _waiting.depth -= 1
    if _waiting.depth == 0 and _waiting.signal is not None:
        _waiting.signal = None
        raise KeyboardInterrupt


@contextmanager
def stoppable() -> Iterator[None]:
    """Inside, Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt, but for `held` blocks.

    A signal that would have ended the process does so at the end of the block. Signals that are
    ignored (as by nohup) or that a program handles itself stay as they are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if _waiting.depth:
            _waiting.signal = number
        else:
            raise KeyboardInterrupt

    ours = {number: signal.getsignal(number) for number in SIGNALS}
    ours = {n: h for n, h in ours.items() if h in (signal.SIG_DFL, signal.default_int_handler)}
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        _waiting.signal = None
        for number, handler in ours.items():
            signal.signal(number, handler)
        for number in received:
            if ours[number] is signal.SIG_DFL:
                signal.raise_signal(number)
