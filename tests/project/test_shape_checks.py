"""The tests' own checks of shapes: they see wrong ones, in the first calls of every test."""

from __future__ import annotations

from collections.abc import Callable

import beartype
import jaxtyping
import pytest
from jaxtyping import Float
from torch import Tensor, zeros

import shape_checks


@pytest.fixture
def halved(monkeypatch: pytest.MonkeyPatch) -> Callable[[Tensor], Tensor]:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", False)

    @jaxtyping.jaxtyped(typechecker=beartype.beartype)
    def function(x: Float[Tensor, "rows two"]) -> Float[Tensor, " rows"]:
        return x[:, 0] if x.shape[1] == 2 else x

    return function


def test_wrong_shapes_are_found_in_the_first_calls(halved: Callable[[Tensor], Tensor]) -> None:
    for _ in range(shape_checks.CHECKED_CALLS - 1):
        assert halved(zeros(3, 2)).shape == (3,)
    with pytest.raises(jaxtyping.TypeCheckError):
        halved(zeros(3))  # an argument
    assert halved(zeros(3, 4)).shape == (3, 4)  # no longer looked at
    shape_checks.forget_calls()
    with pytest.raises(jaxtyping.TypeCheckError):
        halved(zeros(3, 4))  # a result


def test_functions_of_the_library_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    from dims.mechanics.geometry import kinetic_energy

    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", False)
    with pytest.raises(jaxtyping.TypeCheckError):
        kinetic_energy(zeros(2, 3), zeros(4, 5))
