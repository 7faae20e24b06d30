"""Arguments of `fit` that estimators refuse, with a reason."""

from __future__ import annotations

from typing import Any

__all__ = ["refuse"]


def refuse(given: dict[str, Any]) -> None:
    """scikit-learn looks for `sample_weight` in the signature; who passes it anyway is told why."""
    if given.pop("sample_weight", None) is not None:
        raise TypeError(
            "sample_weight: the loss that is sampled counts every row once; repeat rows by "
            "resampling (sklearn.utils.resample), or give the loss as a dims.Likelihood to dims.fit"
        )
    if given:
        raise TypeError(f"fit: unknown arguments {', '.join(given)}; it takes X and y")
