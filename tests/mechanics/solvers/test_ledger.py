"""The energy ledger against brute force and closed forms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import dims
from cases import examples
from dims.mechanics.dynamics import Dynamics
from dims.mechanics.geometry import project_to_tangent
from dims.mechanics.ledger import Ledger, Moment, energy_violation, tangent_moment


def scalar(number: float) -> Tensor:
    return torch.tensor([number], dtype=torch.float64)


def moment(kinetic: float, loss: float = 0.0, climb: float = 0.0) -> Moment:
    return Moment(scalar(kinetic), scalar(loss), scalar(climb))


def book(moments: list[Moment], steps: list[float], dynamics: Dynamics) -> Ledger:
    ledger = Ledger.open(moments[0], dynamics)
    for (before, after), step in zip(itertools.pairwise(moments), steps, strict=True):
        ledger = ledger.record(scalar(step), before, after, None, dynamics)
    return ledger


def wavy(t: float) -> tuple[float, float]:
    """A kinetic energy and its derivative."""
    return 1.5 + math.sin(3 * t), 3 * math.cos(3 * t)


def dissipated_by_quadrature(dynamics: Dynamics, steps: int) -> float:
    """Book T(t) = wavy(t) over [0, 2]; w follows from T' = −κw − 2ηT."""
    times = np.linspace(0, 2, steps + 1)
    moments = []
    for t in times:
        kinetic, slope = wavy(t)
        power = float(dynamics.friction.power(scalar(kinetic)))
        moments.append(moment(kinetic, climb=-(slope + power) / dynamics.gravity))
    return float(book(moments, np.diff(times).tolist(), dynamics).dissipated)


@pytest.mark.parametrize(
    ("dynamics", "power"), [(dims.damped(0.8, 0.3), 1.0), (dims.dissipative(0.8, 0.3), 1.5)]
)
def test_the_dissipated_energy_is_a_quadrature_of_fourth_order(dynamics, power):
    """2ηT is 2η₀T for constant and 2η₀T^{3/2} for speed-dependent friction."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    energies = np.array([wavy(1 + x)[0] for x in nodes])
    exact = float(weights @ (2 * 0.3 * energies**power))
    counts = [8, 16, 32, 64]
    errors = [abs(dissipated_by_quadrature(dynamics, n) - exact) for n in counts]
    assert errors[-1] < 1e-6
    order = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert order == pytest.approx(4, abs=0.2)


def test_without_friction_nothing_is_dissipated():
    moments = [moment(1.0), moment(2.0), moment(0.5)]
    assert float(book(moments, [0.1, 0.2], dims.gravitational(1.0)).dissipated) == 0


def test_extremes_lengths_and_errors_by_hand():
    dynamics = dims.gravitational(2.0)
    moments = [moment(1.0, 5.0), moment(4.0, 3.0), moment(0.25, 6.0), moment(9.0, 4.0)]
    ledger = book(moments, [1.0, 0.5, 2.0], dynamics)
    energies = [11.0, 10.0, 12.25, 17.0]
    assert float(ledger.start_energy) == energies[0]
    assert float(ledger.lowest_energy) == 10.0
    assert float(ledger.lowest_loss) == 3.0
    assert float(ledger.lowest_kinetic) == 0.25
    assert float(ledger.largest_rise) == 7.0
    assert float(ledger.largest_change) == 6.0
    assert int(ledger.steps) == 3
    speeds = np.sqrt(2 * np.array([1.0, 4.0, 0.25, 9.0]))
    trapezoid = np.array([1.0, 0.5, 2.0]) @ (speeds[1:] + speeds[:-1]) / 2
    assert float(ledger.arc_length) == pytest.approx(trapezoid)
    # What friction does not explain is error, of either sign.
    assert float(ledger.step_error) == pytest.approx(1.0 + 2.25 + 4.75)
    given = ledger.record(scalar(1.0), moments[-1], moments[0], scalar(-0.5), dynamics)
    assert float(given.step_error - ledger.step_error) == 0.5
    assert float(ledger.turn_page().largest_rise) == 0
    assert float(ledger.turn_page().lowest_energy) == 10.0


def brute_violation(moments: list[Moment], dynamics: Dynamics) -> float:
    """The definition, step by step."""
    kinetic = [float(m.kinetic) for m in moments]
    loss = [float(m.loss) for m in moments]
    energy = [t + dynamics.gravity * z for t, z in zip(kinetic, loss, strict=True)]
    floor = dynamics.gravity * min(loss)
    start = energy[0] - floor
    if start <= 0:
        return 0.0
    if dynamics.friction is None:
        return max(abs(e - energy[0]) for e in energy) / start
    lows = np.minimum.accumulate(energy)
    left = [max(low - floor, 1e-4 * start) for low in lows]  # 0 for denormal energies
    rises = zip(energy, lows, left, strict=True)
    return max((e - low) / scale if scale > 0 else 0.0 for e, low, scale in rises)


def booked_violation(moments: list[Moment], dynamics: Dynamics, page: int) -> float:
    """The same through pages of so many steps."""
    ledger = Ledger.open(moments[0], dynamics)
    pages = []
    for index, (before, after) in enumerate(itertools.pairwise(moments)):
        ledger = ledger.record(scalar(0.1), before, after, None, dynamics)
        if (index + 1) % page == 0 or index == len(moments) - 2:
            pages.append((torch.tensor([0]), ledger.largest_rise, ledger.lowest_since))
            ledger = ledger.turn_page()
    return float(energy_violation(pages, ledger, dynamics))


states = st.lists(
    st.tuples(st.floats(0, 10), st.floats(-5, 5)).map(lambda pair: moment(*pair)),
    min_size=2,
    max_size=20,
)


@pytest.mark.parametrize(
    "dynamics",
    [dims.geodesic(), dims.gravitational(2.0), dims.damped(2.0, 0.1), dims.dissipative(0.5, 0.1)],
)
@settings(deadline=None, max_examples=examples(50))
@given(moments=states)
def test_violation_is_its_definition_and_never_understated(dynamics, moments):
    exact = brute_violation(moments, dynamics)
    assert booked_violation(moments, dynamics, page=1) == pytest.approx(exact, rel=1e-9, abs=1e-12)
    assert booked_violation(moments, dynamics, page=8) >= exact * (1 - 1e-9) - 1e-12


def test_violation_by_hand():
    """E = 10, 4, 5, 2, 2.5 above a lowest loss of 0: rises of 1 over 4 and of ½ over 2."""
    energies = [10.0, 4.0, 5.0, 2.0, 2.5]
    falling = [moment(e) for e in energies]
    assert booked_violation(falling, dims.dissipative(), page=1) == pytest.approx(0.25)
    assert booked_violation(falling[::-1], dims.dissipative(), page=1) == pytest.approx(4.0)
    geodesic = [moment(t, z) for t, z in [(2.0, 7.0), (2.1, 1.0), (1.7, 30.0)]]
    assert booked_violation(geodesic, dims.geodesic(), page=2) == pytest.approx(0.15)


def test_near_the_floor_a_rise_is_measured_against_the_start():
    """What is left may be nothing at all; then a ten-thousandth of the start energy counts."""
    spent = [moment(10.0), moment(0.0), moment(1e-4)]
    assert booked_violation(spent, dims.dissipative(), page=1) == pytest.approx(0.1)
    nothing = [moment(0.0), moment(0.0)]
    for dynamics in (dims.dissipative(), dims.gravitational(), dims.geodesic()):
        assert booked_violation(nothing, dynamics, page=1) == 0.0


def test_pages_of_a_shrinking_batch_reach_their_rows():
    dynamics = dims.dissipative()
    start = Moment(*(torch.tensor(x, dtype=torch.float64) for x in ([8.0, 8.0], [0.0, 0.0])),
                   torch.zeros(2, dtype=torch.float64))  # fmt: skip
    ledger = Ledger.open(start, dynamics)
    both = (torch.tensor([0, 1]), torch.tensor([0.0, 1.0]), torch.tensor([8.0, 4.0]))
    second = (torch.tensor([1]), torch.tensor([2.0]), torch.tensor([2.0]))
    pages = [tuple(t.double() if t.is_floating_point() else t for t in p) for p in (both, second)]
    assert energy_violation(pages, ledger, dynamics).tolist() == [0.0, 1.0]


vectors = st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3).map(
    lambda numbers: torch.tensor([numbers], dtype=torch.float64)
)


@settings(deadline=None, max_examples=examples(100))
@given(velocity=vectors, gradient=vectors, climb=st.floats(-1e3, 1e3))
def test_projection_lands_on_the_tangent_plane_and_adds_no_energy(velocity, gradient, climb):
    """The nearest tangent vector, by solving the normal equations densely."""
    ours, height = project_to_tangent(velocity, scalar(climb), gradient)
    before = 0.5 * (float(velocity.square().sum()) + climb**2)
    after = 0.5 * (float(ours.square().sum()) + float(height) ** 2)
    assert after <= before * (1 + 1e-12) + 1e-12
    scale = 1 + float(gradient.norm()) * float(ours.norm())
    assert abs(float((gradient * ours).sum()) - float(height)) <= 1e-9 * scale
    tangent = torch.cat([torch.eye(3, dtype=torch.float64), gradient])  # its columns span the plane
    point = torch.cat([velocity[0], scalar(climb)])
    nearest = tangent @ torch.linalg.lstsq(tangent, point.unsqueeze(-1)).solution
    size = 1e-9 * (1 + float(point.norm()))
    torch.testing.assert_close(ours[0], nearest[:3, 0], rtol=1e-7, atol=size)


def test_a_tangent_velocity_is_left_alone_and_its_energy_is_that_of_the_metric():
    generator = torch.Generator().manual_seed(0)
    gradient, velocity = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    loss = torch.arange(4, dtype=torch.float64)
    now = tangent_moment(loss, gradient, velocity)
    again, climb = project_to_tangent(velocity, now.climb, gradient)
    torch.testing.assert_close(again, velocity)
    torch.testing.assert_close(climb, now.climb)
    metric = torch.eye(3, dtype=torch.float64) + gradient.unsqueeze(-1) * gradient.unsqueeze(-2)
    expected = 0.5 * torch.einsum("si,sij,sj->s", velocity, metric, velocity)
    torch.testing.assert_close(now.kinetic, expected)
