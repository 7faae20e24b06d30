"""What classifier and regressor share: a perceptron, its training, its posterior and draws."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
from torch import Tensor, nn

from dims.errors import renamed_arguments
from dims.estimators.care import judge
from dims.estimators.given import Checked, Fitted, Trained
from dims.estimators.own_words import in_words_of_estimators
from dims.estimators.refused import gaps_explained, refuse
from dims.estimators.settings import check_settings
from dims.estimators.training import trained
from dims.model.likelihoods import Likelihood
from dims.prediction.predictive import Predictive
from dims.sampling.draws import Draws
from dims.sampling.fit import fit
from dims.sampling.posterior import Posterior
from dims.sampling.samplers import DiMS, Sampler

__all__ = ["DimsEstimator"]

Self = TypeVar("Self", bound="DimsEstimator")

# Of "dims": by then single draws are good and still differ; at 10 held-out scores are the same on
# the tables of benchmarks/tables_people_bring, at three times the cost.
TIME = 3.0
# Parameters that are keywords of `Posterior.sample`.
SAMPLER_SETTINGS = ("friction", "gravity", "max_time", "tolerance", "settle", "certify")


class DimsEstimator(BaseEstimator):
    """Train a perceptron with Adam, fit its posterior at a minimum, and sample it.

    Args:
        hidden: Widths of the hidden layers; () is a linear model.
        activation: "tanh", "silu" or "gelu"; smooth, because trajectories follow the loss. None is
            "silu" in regression, which fits curves from fewer rows, and "tanh" in classification.
        skip: Whether to add a linear function of the features to the output of the hidden layers.
            From few rows it learns what is linear better, and curves worse. None adds one to a
            regressor that explains nothing without it, by the evidence, if `refine` is True.
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
        noise: Of a regressor: "constant", one for all rows, or "input", a noise that depends on the
            row. None fits both and takes the second where it predicts left-out rows significantly
            better, if rows are held out, `curvature` is "full" and `refine` is True; else it is
            "constant".
        refine: Tune prior and noise at the minimum of each candidate, and start there; False: at
            the trained network.
        draws: Number of draws.
        method: "la", "linla", "rla", "dims" or a sampler such as `dims.DiMS(...)`.
        friction: As in `dims.DiMS`; None takes the method's default, here and below.
        gravity: As in `dims.DiMS`.
        max_time: As in `dims.DiMS` and `dims.RLA`; None is 3 for "dims".
        tolerance: As in `dims.DiMS` and `dims.RLA`.
        settle: As in `dims.DiMS`; "default" takes the method's default.
        certify: As in `dims.DiMS`.
        random_state: An int, a RandomState or None, for the first weights and the draws.
        verbose: Show the progress of fitting and sampling.

    Attributes:
        posterior_: What `dims.fit` returned, in float64.
        draws_: What `Posterior.sample` returned.
        epochs_: Steps of Adam that were taken.
        skip_: Whether the network has a skip connection.
        judgement_: "evidence_over_constant", the log evidence less that of the mean or of the class
            frequencies; "gain_on_training_rows", that of the log score; "rows", the number of
            held-out rows. If there are some, in nats a row, "gain_over_constant" and
            "gain_over_network", the decrease "error_saved" of squared errors or wrong classes, and
            the standard errors of all three ("..._error"). `fit` warns where they do not support
            the answer.
        n_features_in_: Number of features seen in `fit`.
    """

    posterior_: Posterior
    draws_: Draws
    epochs_: int
    skip_: bool
    judgement_: dict[str, float]
    n_features_in_: int
    _network_draws: Draws | None = None  # of the network alone, where it was read from a file

    @renamed_arguments(n_draws="draws")
    def __init__(
        self,
        hidden: Sequence[int] = (16,),
        activation: str | None = None,
        *,
        skip: bool | None = None,
        epochs: int = 300,
        learning_rate: float = 0.02,
        weight_decay: float = 1e-3,
        validation_fraction: float = 0.2,
        curvature: str = "full",
        curvature_kind: str = "ggn",
        prior_precision: float | None = None,
        noise: Literal["constant", "input"] | None = None,
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
        verbose: bool = False,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.skip = skip
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.curvature = curvature
        self.curvature_kind = curvature_kind
        self.prior_precision = prior_precision
        self.noise = noise
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
        self.verbose = verbose

    @renamed_arguments(n_draws="draws")
    def set_params(self, **params: Any) -> DimsEstimator:
        """Set parameters by name, as every scikit-learn estimator does."""
        return super().set_params(**params)

    def fit(self: Self, X: Any, y: Any, **refused: Any) -> Self:
        """Train, fit the posterior, and draw.

        Args:
            X: Features, (N, D); the columns of a DataFrame give `feature_names_in_`.
            y: Labels of any kind, (N,), or targets, (N,) or (N, outputs).
            **refused: Nothing; `sample_weight` is refused with a reason.

        Returns:
            The estimator itself.

        Raises:
            ValueError: A parameter is out of its range, or y has one class only.
            TypeError: Weights of rows or other arguments were given.
        """
        refuse(refused)
        check_settings(self)
        self._network_draws = None
        made = self._chosen(self._checked(X, y))
        self._sample(made.draw_seed)
        self.judgement_ = judge(self.posterior_, self.draws_)
        return self

    def _chosen(self, given: Checked) -> Trained:
        """Train and fit what draws are taken of, with the warnings of that fit alone."""
        with in_words_of_estimators(stacklevel=3):
            made, self.posterior_, told = self._fitted(given, self._seeds())
            for warning in told:
                warnings.warn_explicit(warning.message, warning.category, __file__, 0)
        self._note(made)
        return made

    def _trained(self, given: Checked) -> Trained:
        """What `fit` starts from."""
        made = trained(self, given, self._seeds())
        self._note(made)
        return made

    def _note(self, made: Trained) -> None:
        self.epochs_, self.skip_ = made.epochs, made.skip

    def _seeds(self) -> np.ndarray:
        """Of the first weights, of the draws and of the split."""
        return check_random_state(self.random_state).randint(2**31 - 1, size=3)

    def _fitted(self, given: Checked, seeds: np.ndarray) -> Fitted:
        """A trained network and its posterior."""
        made = trained(self, given, seeds)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            posterior = fit(
                made.network,
                (made.inputs, made.targets),
                made.task,
                curvature=self.curvature,
                curvature_kind=self.curvature_kind,
                prior_precision=self.prior_precision,
                tune="cautious" if self.refine else True,
                refine=self.refine,
                validation=made.unseen,
                progress=bool(self.verbose),
            )
        return Fitted(made, posterior, told)

    def train(self, X: Any, y: Any) -> tuple[nn.Module, tuple[Tensor, Tensor], str | Likelihood]:
        """Train the network only, as `fit` does.

        Args:
            X: Features, (N, D).
            y: Labels or targets, as in `fit`.

        Returns:
            Network, training data and likelihood, as `dims.fit` and `dims sample` take them.
        """
        made = self._trained(self._checked(X, y))
        return made.network, (made.inputs, made.targets), made.task

    def rows_for_network(self, X: Any, y: Any) -> tuple[Tensor, Tensor]:
        """Other rows in the units of the trained network, as `validation` of `dims.fit`.

        Args:
            X: Features, (N, D).
            y: Labels or targets in the units of `fit` or `train`, which comes before.

        Returns:
            Inputs, and standardised targets or numbers of classes.

        Raises:
            ValueError: A label was not in the rows that were trained on.
        """
        check_is_fitted(self)
        with gaps_explained():
            features = validate_data(self, X, reset=False, dtype=np.float64)
        targets = self._targets_for_network(y)
        check_consistent_length(features, targets)
        return torch.tensor(features), torch.tensor(targets)

    def network_only(self: Self) -> Self:
        """A copy that predicts by the trained network alone, to compare with.

        Returns:
            A fitted estimator; a regressor has the noise of the posterior.
        """
        check_is_fitted(self)
        only, kept = copy.copy(self), self._network_draws
        if kept is None:
            surface = self.posterior_.surface
            kept = Draws.from_parameters(surface, surface.initial.unsqueeze(0))
        only.draws_ = kept
        return only

    def _checked(self, X: Any, y: Any) -> Checked:
        raise NotImplementedError

    def _targets_for_network(self, y: Any) -> np.ndarray:
        raise NotImplementedError

    def _sample(self, seed: int) -> None:
        motion = {name: getattr(self, name) for name in SAMPLER_SETTINGS}
        if self.max_time is None and self.method == DiMS.name:
            motion["max_time"] = TIME
        self.draws_ = self.posterior_.sample(
            int(self.draws), self.method, seed=seed, progress=bool(self.verbose), **motion
        )
        unfinished = sum(status is not None and not status.ok for status in self.draws_.status)
        if unfinished:
            warnings.warn(
                f"{unfinished} of {len(self.draws_)} draws ended early; draws_.summary() says why "
                "and what to do",
                ConvergenceWarning,
                stacklevel=3,  # the caller of `fit`
            )

    def _predictive(self, X: Any) -> Predictive:
        check_is_fitted(self)
        with gaps_explained():
            features = validate_data(self, X, reset=False, dtype=np.float64)
        return self.draws_.predict(torch.tensor(features))
