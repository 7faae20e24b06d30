"""Warnings of `dims.fit` in the words of an estimator, whose user has never called it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from dims.model.checks_trained import UNTRAINED

__all__ = ["in_words_of_estimators"]

# Arguments of `dims.fit` that an estimator has not, and what its user can do instead.
CAUTIOUS = 'tune="cautious" chooses prior and noise at a minimum and starts there; '
ALONE = "refine=True alone keeps those of this θ*, which are often wrong below"
WORDS = {CAUTIOUS + ALONE: "refine=True chooses prior and noise at a minimum and starts there"}


@contextmanager
def in_words_of_estimators(stacklevel: int) -> Iterator[None]:
    """Give warnings again from where the user called, once they name what the user can set.

    That of an untrained network is left out: estimators train it, and judge the answer themselves.

    Args:
        stacklevel: As in `warnings.warn`, of the one that enters the context.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        text = str(warning.message)
        if text.startswith(UNTRAINED):
            continue
        for theirs, ours in WORDS.items():
            text = text.replace(theirs, ours)
        # Two frames are those of this function and of the context manager.
        warnings.warn(text, warning.category, stacklevel=stacklevel + 2)
