"""What a refresh keeps: T, E, the ledger, the proposed step; and what makes a row refresh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import dims
import problems
from dims.mechanics.metric import moving
from dims.mechanics.metric.frame import evaluate
from dims.mechanics.rows import select_rows
from dims.mechanics.solvers.base import RowState

pytestmark = pytest.mark.usefixtures("without_shape_checks")

DYNAMICS = dims.dissipative(1.0, 0.1)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(dtype: torch.dtype = torch.float64) -> dims.LossSurface:
    torch.manual_seed(0)
    inputs = torch.linspace(-1, 1, 20, dtype=dtype).unsqueeze(-1)
    layers = (torch.nn.Linear(1, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
    model = torch.nn.Sequential(*layers).to(dtype)
    return dims.LossSurface(model, (inputs, (3 * inputs).sin()), dims.Gaussian(0.1), 0.5)


Hook = Callable[[RowState, RowState, Tensor], None]


def watch(monkeypatch: pytest.MonkeyPatch, hook: Hook) -> None:
    """Call the hook with the state before and after every refresh, and the rows it is of."""
    refresh = dims.MovingMetric.refresh

    def watched(self, state, surface, dynamics, solver):
        basis = state.frame.basis.clone()  # it changes in place
        after, rows = refresh(self, state, surface, dynamics, solver)
        if len(rows):
            hook(replace(state, frame=replace(state.frame, basis=basis)), after, rows)
        return after, rows

    monkeypatch.setattr(dims.MovingMetric, "refresh", watched)


def cases() -> list:
    deep, ring = problems.deep_linear(), problems.ring()
    starts = {"deep linear": (deep, [1.0, 1.0, 1.0]), "ring": (ring, [1.0, 0.0])}
    plain = [
        pytest.param(surface, torch.tensor(start).double(), id=name)
        for name, (surface, start) in starts.items()
    ]
    surface = network()
    return [*plain, pytest.param(surface, surface.initial, id="network")]


@pytest.mark.parametrize(("surface", "position"), cases())
@pytest.mark.parametrize("solver", ["rattle", pytest.param("dopri5", marks=pytest.mark.slow)])
def test_energies_are_continuous_and_the_ledger_goes_on(surface, position, solver, monkeypatch):
    seen = []

    def hook(before: RowState, after: RowState, rows: Tensor) -> None:
        old, new = select_rows(before, rows), select_rows(after, rows)
        assert torch.equal(old.moment.kinetic, new.moment.kinetic)
        # T in the new frame, from its velocity and a fresh gradient there.
        loss, gradient = evaluate(surface, new.position, new.velocity.dtype, new.frame)
        climb = (gradient * new.velocity).sum(-1)
        kinetic = 0.5 * (new.velocity.square().sum(-1) + climb.square())
        torch.testing.assert_close(kinetic, old.moment.kinetic, rtol=1e-9, atol=0)
        torch.testing.assert_close(new.moment.climb, climb)
        torch.testing.assert_close(new.moment.loss, loss)
        torch.testing.assert_close(new.gradient, gradient)
        # E moves by no more than what the carried loss was off by, which is noted.
        energy = [DYNAMICS.energy(state.moment.kinetic, state.moment.loss) for state in (old, new)]
        jump = (energy[1] - energy[0]).abs()
        left = energy[0] - old.ledger.lowest_loss
        assert (jump <= 1e-3 * left).all()
        torch.testing.assert_close(new.ledger.step_error - old.ledger.step_error, jump)
        for name in ("start_energy", "dissipated", "arc_length", "metric_length", "steps"):
            assert torch.equal(getattr(old.ledger, name), getattr(new.ledger, name)), name
        assert (new.ledger.evaluations == old.ledger.evaluations + 1).all()
        # φ' keeps its direction, the row its place, its time and the step it wanted.
        cosine = torch.nn.functional.cosine_similarity(old.velocity, new.velocity)
        torch.testing.assert_close(cosine, torch.ones_like(cosine))
        for name in ("position", "time", "proposed_step", "goal", "status"):
            assert torch.equal(getattr(old, name), getattr(new, name)), name
        assert (new.frame.refreshes == old.frame.refreshes + 1).all()
        assert (new.frame.turned == 0).all()
        assert not new.refreshing.any()
        # The euclidean speed is that of θ' = Fφ'.
        lifted = new.frame.lift(new.velocity)
        speed = (lifted.square().sum(-1) + climb.square()).sqrt()
        torch.testing.assert_close(new.frame.speed, speed)
        identity = torch.eye(new.frame.basis.shape[1], dtype=torch.float64)
        torch.testing.assert_close(
            new.frame.basis @ new.frame.basis.mT, identity.expand(len(rows), -1, -1)
        )
        # The other rows are as they were.
        others = torch.ones(len(before.time), dtype=torch.bool)
        others[rows] = False
        for name in ("velocity", "position", "time", "proposed_step"):
            assert torch.equal(getattr(before, name)[others], getattr(after, name)[others]), name
        assert torch.equal(before.frame.basis[others], after.frame.basis[others])
        seen.append(len(rows))

    watch(monkeypatch, hook)
    how = {"tolerance": 1e-5} if solver == "dopri5" else {}
    path = dims.integrate(
        surface,
        position,
        2 * randn(6, len(position)),
        dynamics=DYNAMICS,
        solver=solver,
        max_time=2.0,
        metric=dims.MovingMetric(turn=0.5, rank=3, flat_curvature=0.1, points=8),
        **how,
    )
    assert sum(seen) == int((path.refreshes - 1).sum()) >= 3
    assert path.status == [dims.Status.FINISHED] * 6
    # Rows refresh when they need it, not all at once.
    assert min(seen) < 6
    assert len(set(path.refreshes.tolist())) > 1


def test_a_refresh_is_asked_for_by_the_angle_of_the_normal_alone(monkeypatch):
    """Rows refresh at the first look after their turn has passed the limit, and not before."""
    turned = []
    watch(monkeypatch, lambda before, after, rows: turned.append(before.frame.turned[rows]))
    surface = problems.ring()
    how = {"dynamics": DYNAMICS, "max_time": 3.0}
    start, velocity = torch.tensor([1.0, 0.0]).double(), randn(4, 2)
    metric = dims.MovingMetric(turn=1.0, flat_curvature=0.1)
    path = dims.integrate(surface, start, velocity, metric=metric, **how)
    assert (path.refreshes > 1).any()
    assert (torch.cat(turned) >= 1.0).all()
    assert (torch.cat(turned) < 1.0 + 0.6).all()  # a step turns the normal by less
    turned.clear()
    seldom = dims.integrate(surface, start, velocity, metric=replace(metric, turn=1e6), **how)
    assert seldom.refreshes.tolist() == [1] * 4
    assert turned == []


def test_the_unexplained_turn_by_hand(monkeypatch):
    """The angle between the normals (−g, 1), times the part of ‖Δg‖ beyond f·(path)."""
    surface = dims.Surface(lambda theta: theta[0].pow(3) + 0.5 * theta[1].square())
    kept: list[tuple[RowState, RowState, Tensor, Tensor]] = []
    count = moving._unexplained_turn

    def noted(before: RowState, after: RowState, step: Tensor) -> Tensor:
        kept.append((before, after, step, count(before, after, step)))
        return kept[-1][-1]

    monkeypatch.setattr(moving, "_unexplained_turn", noted)
    dims.integrate(
        surface,
        torch.tensor([0.5, 0.3]).double(),
        randn(3, 2),
        dynamics=dims.geodesic(),
        solver=dims.Rattle(step=0.1),
        max_time=0.5,
        metric=dims.MovingMetric(turn=1e6, floor=1.0, flat_curvature=1.0),
    )
    compared = 0
    for before, after, step, found in kept:
        for row in range(len(step)):
            if float(step[row]) == 0:
                continue
            old, new = before.gradient[row], after.gradient[row]
            normals = [torch.cat([-g, torch.ones(1)]) for g in (old, new)]
            cosine = torch.nn.functional.cosine_similarity(*normals, dim=0)
            speeds = [state.velocity[row].norm() for state in (before, after)]
            path = 0.5 * step[row] * (speeds[0] + speeds[1])
            beyond = (1 - before.frame.level[row] * path / (new - old).norm()).clamp(min=0)
            wanted = torch.acos(cosine.clamp(-1, 1)) * beyond
            torch.testing.assert_close(found[row], wanted, rtol=1e-6, atol=1e-9)
            compared += int(wanted > 0)
    assert compared > 3


def test_the_last_direction_stays_as_it_is(monkeypatch):
    """Nothing becomes softer than what is left: s = min(1, √(f/|λ|)) with f = max(c·δ, |λ|_r)."""
    frames = []
    watch(monkeypatch, lambda before, after, rows: frames.append(select_rows(after.frame, rows)))
    surface = network()
    dims.integrate(
        surface,
        surface.initial,
        2 * randn(4, surface.size),
        max_time=0.5,
        metric=dims.MovingMetric(turn=0.5, rank=5, floor=10.0),
    )
    assert frames
    for frame in frames:
        assert ((frame.softening > 0) & (frame.softening <= 1)).all()
        assert (frame.softening.diff(dim=-1) >= 0).all()
        assert (frame.level >= 10 * 0.5).all()  # c·δ
        last = frame.softening[:, -1]
        # 1, or the level is c·δ and the last curvature above it.
        assert ((last == 1) | (frame.level == 5.0)).all()
