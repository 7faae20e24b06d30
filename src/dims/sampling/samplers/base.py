"""What a sampler is: settings, and a rule that turns Laplace perturbations ε into draws."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from dims.mechanics.snapshot import Checkpoint
from dims.model.shapes import RowVectors, Vector
from dims.prediction.showing import ShownSettings
from dims.sampling.draws import Draws
from dims.sampling.draws.measure import measure
from dims.sampling.perturbations import precondition
from dims.sampling.progress import Report
from dims.sampling.settings import decode, encode
from dims.surface.loss import LossSurface

__all__ = ["Report", "Sampler", "Start"]

Kind = TypeVar("Kind", bound="Sampler")


@dataclass(frozen=True)
class Start:
    """Where sampling starts.

    Args:
        surface: The loss surface that is sampled.
        position: The trained parameters θ*, (K,); those of each draw, (S, K), where draws start
            from several networks.
        gradient: The gradient of the surface there, in the same shape.
        checkpoint: Where to keep what is half done; None keeps nothing.
        seed: The seed of the run.
        numbers: The numbers of the draws; None means from 0 on.
    """

    surface: LossSurface
    position: Vector | RowVectors
    gradient: Vector | RowVectors
    checkpoint: Checkpoint | None = None
    seed: int = 0
    numbers: tuple[int, ...] | None = None

    def velocities(self, perturbations: RowVectors, preconditioned: bool) -> RowVectors:
        """v = G^(−½)·ε, whose energy does not depend on the slope at θ*, or v = ε."""
        return precondition(perturbations, self.gradient) if preconditioned else perturbations

    def measure(self, thetas: RowVectors) -> dict[str, Any]:
        """Loss and gradient norm of rows (S, K), as fields of `Draws`."""
        return measure(self.surface, thetas)


class Sampler(ShownSettings, ABC):
    """One method of sampling with its settings; subclass it to add your own.

    A subclass is a frozen dataclass whose fields are its settings: numbers, text, tuples of them,
    or dataclasses. It has a `name`, which becomes `Draws.method`, and a method `draw`. Then
    `posterior.sample(30, MySampler())` works, with stores and engines too.

    Example:
        >>> @dataclass(frozen=True)
        ... class Tempered(dims.Sampler):
        ...     name = "tempered"
        ...     temperature: float = 1.0
        ...
        ...     def draw(self, start, perturbations, progress=None):
        ...         thetas = start.position + self.temperature**0.5 * perturbations
        ...         return {"parameters": thetas, **start.measure(thetas)}
        >>> draws = posterior.sample(30, Tempered(2.0))
    """

    name: ClassVar[str]

    @abstractmethod
    def draw(
        self, start: Start, perturbations: RowVectors, progress: Report | None = None
    ) -> dict[str, Any]:
        """Turn perturbations into parameter vectors, row by row.

        Draw i must depend on row i alone, so that it is the same in every batch.

        Args:
            start: The surface, θ* and the gradient there.
            perturbations: ε, the centred Laplace draws, (S, K).
            progress: Called now and then with how far the batch is, if given.

        Returns:
            Fields of `dims.Draws` by name: "parameters" (S, K), and what is known of each row.
        """

    def sample(
        self,
        start: Start,
        perturbations: RowVectors,
        seed: int | None,
        progress: Report | None = None,
    ) -> Draws:
        """Draw, and put the result together with what all draws of a run share.

        Args:
            start: The surface, θ* and the gradient there.
            perturbations: ε, the centred Laplace draws, (S, K).
            seed: What ε was drawn from; it is only noted.
            progress: Called now and then with how far the batch is, if given.

        Returns:
            One draw for each row of `perturbations`.
        """
        return Draws(
            method=self.name,
            surface=start.surface,
            map_parameters=start.position.reshape(-1, start.position.shape[-1])[0],
            seed=seed,
            settings=self.settings,
            **self.draw(start, perturbations, progress),
        )

    def finer(self) -> Sampler:
        """The sampler for draws that failed: with a smaller tolerance, where it has one."""
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """The fields in JSON's types, as files and manifests hold them."""
        if not dataclasses.is_dataclass(self):
            raise TypeError(
                f"method: {type(self).__name__} must be a dataclass; write "
                "@dataclass(frozen=True) above it, and its settings as fields"
            )
        return {f.name: encode(f.name, getattr(self, f.name)) for f in dataclasses.fields(self)}

    @classmethod
    def current_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings as this version writes them; files of earlier versions lack the newer fields."""
        defaults = {
            field.name: encode(field.name, field.default)
            for field in dataclasses.fields(cls)  # type: ignore[arg-type]
            if field.default is not dataclasses.MISSING
        }
        return {**defaults, **settings}

    @classmethod
    def from_settings(
        cls: type[Kind], settings: Mapping[str, Any], classes: Iterable[type] = ()
    ) -> Kind:
        """Rebuild a sampler from `settings`.

        Args:
            settings: What `settings` returned, or `Draws.settings` of its draws.
            classes: The classes of frictions and solvers that dims does not define.

        Returns:
            An equal sampler.

        Raises:
            ValueError: A setting has a class that is not known.
            TypeError: There are settings that the sampler does not have.

        Example:
            >>> sampler = dims.DiMS.from_settings(draws.settings)
        """
        current = cls.current_settings(settings)
        return cls(**{name: decode(name, value, classes) for name, value in current.items()})
