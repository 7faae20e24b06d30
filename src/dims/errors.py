"""All errors and warnings of the library, with `DimsError` and `DimsWarning` as their bases.

Bad arguments raise plain ValueError or TypeError, as everywhere in Python. The classes below are
for what a program may want to tell apart. Each also has the built-in base that fits it.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar

__all__ = [
    "AugmentationWarning",
    "BatchingWarning",
    "CompileWarning",
    "DimsDeprecationWarning",
    "DimsError",
    "DimsWarning",
    "DivergedError",
    "DrawsFileError",
    "EigenpairsWarning",
    "EngineError",
    "EntryError",
    "EvidenceWarning",
    "HmcWarning",
    "IndefiniteHessianWarning",
    "MemoryLimitError",
    "ModelWarning",
    "NotAMinimumWarning",
    "NotPositiveDefiniteError",
    "ReportError",
    "SnapshotError",
    "StackingWarning",
    "StoreError",
    "StoreWarning",
    "TableError",
    "TableWarning",
    "TemperatureWarning",
    "Tf32Warning",
    "WorseThanBaselineWarning",
]


class DimsError(Exception):
    """Base of all errors that dims defines."""


class DimsWarning(UserWarning):
    """Base of all warnings that dims gives."""


class DimsDeprecationWarning(DimsWarning, FutureWarning):
    """A name or argument has a better one and is removed in the next minor version."""


class DivergedError(DimsError, ValueError):
    """Training ran away from every good solution; a smaller learning rate is needed."""


class DrawsFileError(DimsError, ValueError):
    """A file of draws is damaged, of another kind, or of another model."""


class EngineError(DimsError, RuntimeError):
    """Some jobs could not be computed; those that could were handed over."""


class EntryError(DimsError, ValueError):
    """ENTRY of `dims sample` names nothing that can be called, or what it names failed."""


class MemoryLimitError(DimsError, MemoryError):
    """What was asked for does not fit into the memory that is free."""


class NotPositiveDefiniteError(DimsError, ValueError):
    """Curvature plus prior is not a precision matrix and cannot be repaired."""


class ReportError(DimsError, ValueError):
    """There is no run where one was looked for, or it cannot be read."""


class SnapshotError(DimsError, ValueError):
    """The tensors of a checkpoint do not belong to this batch."""


class StoreError(DimsError, ValueError):
    """The folder belongs to another run, is not a store, or is in use."""


class TableError(DimsError, ValueError):
    """The file is not a table that a network can learn from."""


class AugmentationWarning(DimsWarning):
    """The training data is random; one pass of it is read and kept."""


class BatchingWarning(DimsWarning):
    """A network cannot be computed for many sets of weights at once; the run continues without."""


class CompileWarning(DimsWarning):
    """torch.compile did not work here; the run continues without it."""


class EigenpairsWarning(DimsWarning):
    """The Lanczos iteration ended before all eigenpairs had converged."""


class EvidenceWarning(DimsWarning):
    """The evidence has its maximum at a bound, or the search for it did not converge."""


class HmcWarning(DimsWarning):
    """Trajectories diverged: the draws may not be a ground truth."""


class IndefiniteHessianWarning(DimsWarning):
    """The Hessian plus prior has directions of negative curvature, which were repaired."""


class ModelWarning(DimsWarning):
    """What is sampled of a model may not be what its user means by it."""


class NotAMinimumWarning(DimsWarning):
    """θ* is not a minimum of the surface that is sampled."""


class StackingWarning(DimsWarning):
    """Held-out rows could not choose weights of draws, which count alike."""


class StoreWarning(DimsWarning):
    """A chunk was damaged or belongs to another run, and is computed again."""


class TableWarning(DimsWarning):
    """A table to be predicted is not like the one that was learned from."""


class TemperatureWarning(DimsWarning):
    """The held-out rows are best explained by a temperature at a bound of its range."""


class Tf32Warning(DimsWarning):
    """Gradients are rounded so much that draws follow another motion."""


class WorseThanBaselineWarning(DimsWarning):
    """An answer is worse than the mean, the class frequencies, or the network alone."""


Function = TypeVar("Function", bound=Callable[..., Any])


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn that a name is deprecated, and say which one to use."""
    warnings.warn(
        f"{old} is deprecated and will be removed in the next minor version; use {new}",
        DimsDeprecationWarning,
        stacklevel=stacklevel,
    )


def _suggest(
    name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Name the argument that a misspelt one is near to; Python's own words say the rest."""
    called = type(args[0]).__name__ if name == "__init__" else name
    for given in kwargs:
        near = get_close_matches(given, signature.parameters, 1)
        if given not in signature.parameters and near:
            raise TypeError(f"{called}({given}=...): there is no such argument; is it {near[0]}=?")


def renamed_arguments(**new_names: str) -> Callable[[Function], Function]:
    """Let a function accept the old names of its arguments, with a deprecation warning.

    Example: `@renamed_arguments(lr="learning_rate")` accepts `lr=` for `learning_rate=`.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def accepting(*args: Any, **kwargs: Any) -> Any:
            for old, new in new_names.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(f"{old}: it is the old name of {new}; give one of the two")
                    warn_renamed(f"{function.__name__}({old}=...)", f"{new}=...")
                    kwargs[new] = kwargs.pop(old)
            try:
                signature.bind(*args, **kwargs)
            except TypeError:
                _suggest(function.__name__, signature, args, kwargs)
            return function(*args, **kwargs)

        signature = inspect.signature(function)
        accepting.__signature__ = signature  # type: ignore[attr-defined]
        return accepting  # type: ignore[return-value]

    return decorate
