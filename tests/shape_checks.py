"""Tensor shapes and types checked at run time, in the first calls that a test makes of a function.

Checking every call doubles the time of the tests, most of it in small functions that a solver calls
thousands of times with the same shapes. `make test` checks two calls, `make test-all` five:
DIMS_CHECKED_CALLS says how many.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable
from types import FunctionType
from typing import Any

import jaxtyping
import torch

__all__ = ["forget_calls", "install"]

CHECKED_CALLS = int(os.environ.get("DIMS_CHECKED_CALLS", "2"))
_calls: Counter[tuple[str, str]] = Counter()
_check_always = jaxtyping.jaxtyped


def install(*modules: str) -> None:
    """Check the functions of modules that are imported from now on."""
    jaxtyping.jaxtyped = _check_some  # what the import hook decorates every function with
    jaxtyping.install_import_hook(list(modules), "beartype.beartype")


def forget_calls() -> None:
    """The next calls are the first ones of a test."""
    _calls.clear()


def _check_some(checked: Any = None, *, typechecker: Any) -> Any:
    """Stands for `jaxtyping.jaxtyped`, as the import hook calls it."""
    if checked is None:
        return functools.partial(_check_some, typechecker=typechecker)
    check = functools.partial(_check_always, typechecker=typechecker)
    if isinstance(checked, FunctionType):
        return _sparing(checked, functools.cache(lambda: check(checked)))
    own = checked.__dict__.get("__init__")
    made = check(checked)  # of a dataclass: the fields, whenever one is made
    with_checks = made.__dict__.get("__init__")
    if isinstance(own, FunctionType) and with_checks is not own:
        made.__init__ = _sparing(own, lambda: with_checks)
    return made


def _sparing(plain: FunctionType, checked: Callable[[], Any]) -> Any:
    """The function with checks in its first calls, and then without."""
    key = (plain.__module__, plain.__qualname__)

    @functools.wraps(plain)
    def call(*arguments: Any, **options: Any) -> Any:
        # A compiled function must not depend on how often it has been called.
        if torch.compiler.is_compiling() or _calls[key] >= CHECKED_CALLS:
            return plain(*arguments, **options)
        _calls[key] += 1
        return checked()(*arguments, **options)

    return call
