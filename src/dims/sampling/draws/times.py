"""Methods of `Draws` about saved times and about what predictions are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from dims.sampling.draws.diversity import Diversity, diversity_of
from dims.sampling.draws.mixture import across_times, stacked
from dims.sampling.draws.saved import draws_at
from dims.sampling.draws.unseen import collect_unseen

if TYPE_CHECKING:
    from dims.sampling.draws.container import Draws

__all__ = ["SavedTimes"]


class SavedTimes:
    """What draws can do with their saved times; `Draws` derives from it."""

    def at(self, time: float) -> Draws:
        """The draws as they were at a saved time: on their trajectories, not settled.

        Args:
            time: One of `times`, or max_time, which gives the delivered draws unless it was saved.

        Returns:
            Draws with the loss, gradient norm and kinetic energy of that place and without saved
            times. What belongs to a whole trajectory (energy law, arc length, evaluations) is not
            known; a row that failed before that time is where it failed, as its status says.
            Weights belong to the delivered draws: at a saved time all draws count alike.

        Raises:
            ValueError: Nothing was saved at that time.

        Example:
            >>> draws = posterior.sample(30, dims.DiMS(save_at=(3.0, 10.0)))
            >>> draws.at(3.0).loss
        """
        return draws_at(cast("Draws", self), time)

    def across_times(self, times: Sequence[float] | None = None) -> Draws:
        """The same draws, whose predictions are averages over saved times and the end.

        Single draws become better with time, and their disagreement smaller; the average over
        times keeps both.

        Args:
            times: Some of `times`, and max_time for the delivered draws; None: all of them.

        Returns:
            Draws with a `mixture` that `predict` uses; `predict(x, weights="equal")` leaves it out.

        Raises:
            ValueError: Nothing was saved at such a time.

        Example:
            >>> draws = posterior.sample(30, dims.DiMS(save_at=(1.0, 3.0, 10.0)))
            >>> draws.across_times().predict(x)
        """
        return across_times(cast("Draws", self), times)

    def stacked(self, validation: Any, *, pseudo_count: float = 1.0) -> Draws:
        """The same draws, with weights of the network and of their times by held-out rows.

        Args:
            validation: Rows (x, y) that the network has never seen.
            pseudo_count: Held-out rows that each group has in advance, as in
                `dims.prediction.stacking.stack`; with widened draws the weights that need no
                held-out rows count as six times as many more.

        Returns:
            Draws with a `mixture` that `predict` uses; `predict(x, weights="equal")` leaves it out.

        Raises:
            ValueError: The rows do not fit the network, or a fraction is given.

        Example:
            >>> draws = posterior.sample(30, dims.DiMS(save_at=(1.0, 3.0, 10.0)))
            >>> draws.stacked((x_held_out, y_held_out)).predict(x)
        """
        draws = cast("Draws", self)
        return stacked(draws, collect_unseen(validation, draws.surface), pseudo_count)

    def diversity(self, inputs: Any = None) -> Diversity:
        """How much of the predictive uncertainty is disagreement of the draws.

        Regression: mean epistemic variance over mean variance. Classification: mean mutual
        information over mean entropy.

        Args:
            inputs: Where to look; None takes up to 200 training inputs.

        Returns:
            The share at the inputs, and at the same inputs moved by five standard deviations in
            random directions (NaN where inputs are not numbers of one tensor).

        Raises:
            TypeError: There are no training data to look at, and no inputs.

        Example:
            >>> draws.diversity()
            Diversity(on_data=0.02, far=0.4)
        """
        return diversity_of(cast("Draws", self), inputs)
