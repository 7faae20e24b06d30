"""What classifier and regressor share: a perceptron, its training, its posterior and draws."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from dims.errors import renamed_arguments
from dims.estimators.care import Rows, judge, judge_by_evidence, split_rows, train_for_best_length
from dims.model.likelihoods import Likelihood, resolve_likelihood
from dims.model.shapes import check_integer, check_positive
from dims.model.training import Training, perceptron
from dims.prediction.predictive import Predictive
from dims.sampling.draws import Draws
from dims.sampling.fit import fit
from dims.sampling.posterior import Posterior
from dims.sampling.samplers import Sampler

__all__ = ["DimsEstimator"]

# Parameters that are keywords of `Posterior.sample`.
SAMPLER_SETTINGS = ("friction", "gravity", "max_time", "tolerance", "settle", "certify")
ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh}


class Standardise(nn.Module):
    """(x − mean) / scale, with constants."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: np.ndarray, scale: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("scale", torch.tensor(scale))

    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs - self.mean) / self.scale


class DimsEstimator(BaseEstimator):
    """Train a perceptron with Adam, fit its posterior at a minimum, and sample it.

    Args:
        hidden: Widths of the hidden layers; () is a linear model.
        activation: "tanh", "silu" or "gelu"; smooth, because trajectories follow the loss.
        epochs: Most steps of Adam, each on all points.
        validation_fraction: Part of the rows that is held out: half of them choose the number of
            steps, the others weigh network and draws (`draws_.mixture`) and judge the answer. 0, or
            fewer than 10 rows for each purpose, holds none out: all steps are taken, draws count
            alike, and the evidence judges.
        learning_rate: Learning rate of Adam.
        weight_decay: Weight decay of Adam, on the mean loss of a point.
        curvature: "full", "diagonal", "kronecker" or "low_rank", as in `dims.fit`.
        curvature_kind: "ggn" or "hessian", as in `dims.fit`.
        prior_precision: Precision of the prior; None tunes it by the evidence. The noise of a
            regressor is always tuned.
        refine: Tune prior and noise at the minimum of each candidate, and start there; False: at
            the trained network.
        draws: Number of draws.
        method: "la", "linla", "rla", "dims" or a sampler such as `dims.DiMS(...)`.
        friction: As in `dims.DiMS`; None takes the method's default, here and below.
        gravity: As in `dims.DiMS`.
        max_time: As in `dims.DiMS` and `dims.RLA`.
        tolerance: As in `dims.DiMS` and `dims.RLA`.
        settle: As in `dims.DiMS`; "default" takes the method's default.
        certify: As in `dims.DiMS`.
        random_state: An int, a RandomState or None, for the first weights and the draws.

    Attributes:
        posterior_: What `dims.fit` returned, in float64.
        draws_: What `Posterior.sample` returned.
        epochs_: Steps of Adam that were taken.
        judgement_: Gains in nats a row: "gain_over_constant" is that over the mean or the class
            frequencies, "gain_over_network" that of weighing, "rows" the number of held-out rows
            (0: by the evidence). `fit` warns where the first is within its standard error of 0, or
            the second far below 0.
        n_features_in_: Number of features seen in `fit`.
    """

    posterior_: Posterior
    draws_: Draws
    epochs_: int
    judgement_: dict[str, float]
    n_features_in_: int

    @renamed_arguments(n_draws="draws")
    def __init__(
        self,
        hidden: Sequence[int] = (16,),
        activation: str = "tanh",
        *,
        epochs: int = 300,
        learning_rate: float = 0.02,
        weight_decay: float = 1e-3,
        validation_fraction: float = 0.2,
        curvature: str = "full",
        curvature_kind: str = "ggn",
        prior_precision: float | None = None,
        refine: bool = True,
        draws: int = 20,
        method: str | Sampler = "dims",
        friction: float | None = None,
        gravity: float | None = None,
        max_time: float | None = None,
        tolerance: float | None = None,
        settle: Literal["stiff", "full", "none", "default"] | None = "default",
        certify: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.curvature = curvature
        self.curvature_kind = curvature_kind
        self.prior_precision = prior_precision
        self.refine = refine
        self.draws = draws
        self.method = method
        self.friction = friction
        self.gravity = gravity
        self.max_time = max_time
        self.tolerance = tolerance
        self.settle = settle
        self.certify = certify
        self.random_state = random_state

    @renamed_arguments(n_draws="draws")
    def set_params(self, **params: Any) -> DimsEstimator:
        """Set parameters by name, as every scikit-learn estimator does."""
        return super().set_params(**params)

    def _fit(self, features: np.ndarray, targets: np.ndarray, outputs: int, task: str) -> None:
        """From checked arrays to `posterior_` and `draws_`."""
        check_integer("epochs", self.epochs, lowest=0)
        check_integer("draws", self.draws)
        check_positive("learning_rate", self.learning_rate)
        check_positive("weight_decay", self.weight_decay, or_zero=True)
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction: must lie in [0, 1), got {self.validation_fraction}"
            )
        random = check_random_state(self.random_state)
        first_seed, draw_seed, split_seed = map(int, random.randint(2**31 - 1, size=3))
        generator = torch.Generator().manual_seed(first_seed)
        network = self._network(features, outputs, generator)
        inputs, answers = torch.tensor(features), torch.tensor(targets)
        rows = split_rows(len(inputs), self.validation_fraction, split_seed)
        self._train(network, inputs, answers, resolve_likelihood(task, outputs), rows)
        kept = torch.cat([rows.training, rows.length])
        unseen = (inputs[rows.judging], answers[rows.judging]) if len(rows.judging) else None
        self.posterior_ = fit(
            network,
            (inputs[kept], answers[kept]),
            task,
            curvature=self.curvature,
            curvature_kind=self.curvature_kind,
            prior_precision=self.prior_precision,
            tune="minimum" if self.refine else True,
            refine=self.refine,
            validation=unseen,
            progress=False,
        )
        self._sample(draw_seed)
        self._judge()

    def _sample(self, seed: int) -> None:
        motion = {name: getattr(self, name) for name in SAMPLER_SETTINGS}
        self.draws_ = self.posterior_.sample(
            int(self.draws), self.method, seed=seed, progress=False, **motion
        )
        unfinished = sum(status is not None and not status.ok for status in self.draws_.status)
        if unfinished:
            warnings.warn(
                f"{unfinished} of {len(self.draws_)} draws ended early; draws_.summary() says why "
                "and what to do",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _judge(self) -> None:
        """Is it worse than the mean, the class frequencies, or the network alone? Then warn."""
        unseen, known = self.posterior_.validation, self.posterior_.surface.data.targets
        if unseen is None:
            self.judgement_ = judge_by_evidence(self.posterior_, known)
        else:
            assert isinstance(unseen.inputs, Tensor)
            self.judgement_ = judge(self.draws_, unseen.inputs, unseen.targets, known)

    def _network(self, features: np.ndarray, outputs: int, generator: torch.Generator) -> nn.Module:
        """The untrained network."""
        if self.activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise ValueError(f"activation: {self.activation!r} is unknown; there are {known}")
        given = self.hidden
        listed = isinstance(given, Sequence)
        if not (listed and all(isinstance(width, Integral) and width > 0 for width in given)):
            raise ValueError(f"hidden: expected widths of layers such as (16, 16), got {given!r}")
        widths = [features.shape[1], *map(int, given), outputs]
        layers = perceptron(widths, ACTIVATIONS[self.activation], generator=generator)
        scaler = StandardScaler().fit(features)
        return nn.Sequential(Standardise(scaler.mean_, scaler.scale_), *layers)

    def _train(
        self,
        network: nn.Module,
        inputs: Tensor,
        targets: Tensor,
        likelihood: Likelihood,
        rows: Rows,
    ) -> None:
        targets = likelihood.check_targets(network(inputs), targets)
        training = Training(self.epochs, None, self.learning_rate, self.weight_decay)
        self.epochs_ = train_for_best_length(network, inputs, targets, likelihood, training, rows)
        if not all(parameter.isfinite().all() for parameter in network.parameters()):
            raise ValueError(
                f"learning_rate: training diverged at {self.learning_rate}; choose a smaller one"
            )

    def _predictive(self, X: Any) -> Predictive:
        check_is_fitted(self)
        features = validate_data(self, X, reset=False, dtype=np.float64)
        return self.draws_.predict(torch.tensor(features))
