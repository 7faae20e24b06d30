"""Checks of what the metrics take: the value in float64, or an error that says what to pass."""

from __future__ import annotations

from numbers import Real

import torch
from torch import Tensor

__all__ = ["check_draw_axis", "check_draws", "check_labelled", "check_log_probabilities"]
__all__ += ["check_level", "check_noise", "check_paired", "to_float64"]


def _check_tensor(value: Tensor, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor, got {type(value).__name__}; use torch.as_tensor"
        )


def to_float64(value: Tensor, name: str) -> Tensor:
    _check_tensor(value, name)
    if not value.is_floating_point():
        raise TypeError(f"{name} must be of floating point, got {value.dtype}; call .double()")
    if value.numel() == 0:
        raise ValueError(f"{name} is empty, got shape {tuple(value.shape)}; pass one input or more")
    return value.detach().double()


def check_log_probabilities(value: Tensor, name: str) -> Tensor:
    log_p = to_float64(value, name)
    if torch.finfo(value.dtype).bits < 32:
        raise TypeError(
            f"{name} must be float32 or float64, got {value.dtype}, which rounds likelihoods by "
            "percents; pass torch.log_softmax(logits.float(), dim=-1)"
        )
    if log_p.ndim < 2 or log_p.shape[-1] < 2:
        raise ValueError(
            f"{name} must have shape (..., N, C) with C ≥ 2 classes, got {tuple(log_p.shape)}; "
            "turn a single logit z into the columns logsigmoid(−z), logsigmoid(z)"
        )
    if log_p.isnan().any():
        raise ValueError(f"{name} contains NaN; leave out failed draws first")
    total = log_p.exp().sum(dim=-1)
    # Room for float32 with many classes; logits miss by far more.
    if not ((total - 1).abs() <= 1e-3).all():
        are_probabilities = bool((log_p >= 0).all() and (log_p <= 1).all())
        advice = "probabilities.log()" if are_probabilities else "torch.log_softmax(logits, dim=-1)"
        raise ValueError(
            f"{name} must be log-probabilities, but their exponentials sum to between "
            f"{total.min().item():.4g} and {total.max().item():.4g} over the classes, not 1; "
            f"pass {advice}"
        )
    return log_p


def check_draws(value: Tensor, name: str) -> Tensor:
    if isinstance(value, Tensor) and value.ndim != 3:
        raise ValueError(
            f"{name} must have shape (S, N, C) with the draws in front, got "
            f"{tuple(value.shape)}; use unsqueeze(0) for a single predictive"
        )
    return check_log_probabilities(value, name)


def check_labelled(log_probabilities: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    log_p = check_log_probabilities(log_probabilities, "log_probabilities")
    inputs, classes = log_p.shape[-2:]
    _check_tensor(labels, "labels")
    if labels.ndim == 2 and labels.shape[-1] == classes:
        raise ValueError(
            f"labels must be class numbers of shape ({inputs},), got {tuple(labels.shape)}, which "
            "looks one-hot; pass labels.argmax(dim=-1)"
        )
    if labels.shape != (inputs,):
        raise ValueError(
            f"labels must have shape ({inputs},), one for each input of log_probabilities "
            f"{tuple(log_p.shape)}, got {tuple(labels.shape)}; pass one class number per input"
        )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(f"labels must be integers, got {labels.dtype}; call labels.long()")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise ValueError(
            f"labels must lie in 0..{classes - 1}, got values from {low} to {high}; number the "
            "classes from 0 and leave out ignored inputs"
        )
    return log_p, labels.to(log_p.device, torch.int64)


def check_draw_axis(means: Tensor, targets: Tensor) -> Tensor:
    both = isinstance(means, Tensor) and isinstance(targets, Tensor)
    if both and means.ndim != targets.ndim + 1:
        raise ValueError(
            f"means must have shape (S, *targets.shape) with the draws in front, got "
            f"{tuple(means.shape)} for targets {tuple(targets.shape)}; use unsqueeze(0) for a "
            "single predictive, squeeze(-1) for a single output"
        )
    return means


def check_paired(means: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    means, targets = to_float64(means, "means"), to_float64(targets, "targets")
    if targets.ndim not in (1, 2):
        raise ValueError(
            f"targets must have shape (N,) or (N, D), got {tuple(targets.shape)}; flatten outputs"
        )
    if means.shape[-targets.ndim :] != targets.shape:
        raise ValueError(
            f"means must have shape (..., *targets.shape), got {tuple(means.shape)} for targets "
            f"{tuple(targets.shape)}; squeeze or unsqueeze the output axis of one of them"
        )
    for name, values in (("means", means), ("targets", targets)):
        if not values.isfinite().all():
            raise ValueError(f"{name} contains NaN or inf; leave out failed draws or missing data")
    return means, targets.to(means.device)


def check_noise(noise_std: float | Tensor, means: Tensor) -> Tensor:
    if isinstance(noise_std, bool) or not isinstance(noise_std, (Real, Tensor)):
        raise TypeError(
            f"noise_std must be a float or a tensor, got {type(noise_std).__name__}; "
            "pass the standard deviation of the observation noise"
        )
    std = torch.as_tensor(noise_std, dtype=torch.float64, device=means.device).detach()
    if not ((std > 0) & std.isfinite()).all():
        raise ValueError(f"noise_std must be positive and finite, got {noise_std}; check its fit")
    try:
        return std.expand(means.shape)
    except RuntimeError:
        raise ValueError(
            f"noise_std of shape {tuple(std.shape)} does not broadcast to means "
            f"{tuple(means.shape)}; pass a number, one per output (D,), or one per target"
        ) from None


def check_level(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}; 0.95 is usual")
    return level
