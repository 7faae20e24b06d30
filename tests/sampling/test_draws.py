"""The container of draws: its fields, its checks, selection, summary and ArviZ form."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import json
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
import typer

import dims
from dims.commands import app
from dims.sampling.draws.fields import ROW_NUMBERS
from dims.sampling.samplers import SAMPLERS
from draws_problems import draws_of, problem

PER_DRAW = ("parameters", "status", "evaluations", "verdict", *ROW_NUMBERS)


def bare(**fields: Any) -> dims.Draws:
    surface, _ = problem("one output")
    given = {
        "parameters": surface.initial.repeat(3, 1),
        "method": "la",
        "surface": surface,
        "map_parameters": surface.initial,
    }
    return dims.Draws(**(given | fields))


def test_what_is_left_out_is_not_known() -> None:
    draws = bare()
    assert len(draws) == 3
    for name in ROW_NUMBERS:
        values = getattr(draws, name)
        assert values.shape == (3,)
        assert values.dtype == torch.float64
        assert values.isnan().all()
    assert draws.evaluations.tolist() == [0, 0, 0]
    assert draws.status == [None, None, None]
    assert draws.verdict is None
    assert draws.seed is None
    assert draws.settings == {}
    assert repr(draws) == f"Draws(3 by 'la', {draws.surface.size} parameters)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        draws.method = "dims"  # type: ignore[misc]


def test_fields_are_kept() -> None:
    surface, _ = problem("four classes")
    draws = draws_of(surface)
    torch.testing.assert_close(draws.loss, surface.value(draws.parameters))
    assert draws.status[3] is dims.Status.BUDGET_SPENT
    assert draws.verdict == ["saddle", "minimum"] * 2 + ["saddle"]
    assert draws.displacement.isnan().all()
    assert draws.settings["solver"] == "rattle"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([3, 0, -1], [3, 0, 4]),
        (torch.tensor([1, 1]), [1, 1]),
        (np.array([2]), [2]),
        (torch.tensor([True, False, True, False, False]), [0, 2]),
        ([False, True, False, False, True], [1, 4]),
        (slice(1, None, 2), [1, 3]),
        (torch.zeros(5, dtype=torch.bool), []),
        ([], []),
    ],
)
def test_select_takes_every_field_along(rows: Any, expected: list[int]) -> None:
    surface, _ = problem("one output")
    draws = draws_of(surface)
    chosen = draws.select(rows)
    assert len(chosen) == len(expected)
    for name in PER_DRAW:
        one, many = getattr(chosen, name), getattr(draws, name)
        if isinstance(many, torch.Tensor):
            torch.testing.assert_close(one, many[expected], rtol=0, atol=0, equal_nan=True)
        else:
            assert one == [many[i] for i in expected]
    assert chosen.surface is draws.surface
    assert chosen.settings == draws.settings
    assert chosen.seed == draws.seed
    assert len(draws) == 5


def test_bad_selections_are_named() -> None:
    draws = bare()
    with pytest.raises(ValueError, match=r"mask of shape \(2,\) for 3 draws"):
        draws.select([True, False])
    with pytest.raises(IndexError, match="with 3 draws"):
        draws.select([0, 3])
    with pytest.raises(TypeError, match="mask, a list of indices or a slice"):
        draws.select([0.5])
    with pytest.raises(TypeError, match="mask, a list of indices or a slice"):
        draws.select(1)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"method": ""}, ValueError, "method: expected a name"),
        ({"parameters": torch.zeros(3, 4).double()}, ValueError, r"expected shape \(draws, 36\)"),
        ({"parameters": torch.zeros(36).double()}, ValueError, r"got \(36,\)"),
        ({"parameters": torch.zeros(3, 36)}, TypeError, "expected a tensor of torch.float64"),
        ({"parameters": [[0.0]]}, TypeError, "expected a tensor of torch.float64, got list"),
        ({"map_parameters": torch.zeros(5).double()}, ValueError, r"expected shape \(36,\)"),
        ({"loss": torch.zeros(2).double()}, ValueError, r"loss: expected shape \(3,\), got \(2,\)"),
        ({"evaluations": torch.zeros(3, 1).long()}, ValueError, "evaluations: expected shape"),
        ({"status": [dims.Status.FINISHED]}, ValueError, "status: 1 entries for 3 draws"),
        ({"verdict": ["a"] * 4}, ValueError, "verdict: 4 entries for 3 draws"),
        ({"settings": {"solver": dims.Rattle()}}, TypeError, "'solver' is a Rattle"),
        ({"settings": {3: "x"}}, TypeError, "3 is not text"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        bare(**({"parameters": torch.zeros(3, 36).double()} | fields))


def test_settings_become_what_a_file_gives_back() -> None:
    given = {"times": (1, 2.5), "limit": math.inf, "name": None}
    draws = bare(settings=given)
    assert draws.settings == {"times": [1, 2.5], "limit": math.inf, "name": None}
    given["name"] = "changed"
    assert draws.settings["name"] is None


def test_summary_counts_and_advises() -> None:
    surface, _ = problem("one output")
    draws = draws_of(surface, rows=12)
    text = draws.summary()
    assert text.startswith("12 draws by 'dims', seed 7\n36 parameters, 12 training points, Gauss")
    assert "prior precision 0.5" in text
    assert "2 finished" in text
    assert "verdicts: 6 saddle, 6 minimum" in text
    assert f"cost: {sum(range(100, 112)):,} gradients" in text
    lowest, median, highest = draws.loss.quantile(torch.tensor([0.0, 0.5, 1.0]).double()).tolist()
    row = next(line for line in text.splitlines() if line.startswith("loss"))
    assert row.split()[1:] == [f"{x:.4g}" for x in (lowest, median, highest)]
    assert "displacement" not in text  # not computed
    advice = text[text.index("advice:") :]
    for status in (dims.Status.STALLED, dims.Status.NOT_FINITE, dims.Status.BUDGET_SPENT):
        assert status.advice in advice
    assert dims.Status.FINISHED.advice not in advice
    assert "gradient norm above" not in advice  # where there are verdicts, they count
    steep, saddles = (
        int((draws.gradient_norm > 1).sum()),
        int((draws.smallest_eigenvalue < 0).sum()),
    )
    unjudged = dataclasses.replace(draws, verdict=None).summary()
    advice = unjudged[unjudged.index("advice:") :]
    assert f"{steep} draws with a gradient norm above 1" in advice
    assert 'posterior.sample(..., settle="stiff")' in advice  # nothing was settled
    assert f"{saddles} draws with negative curvature" in advice
    assert "energy law" not in advice


@functools.cache
def minimum_of_the_problem() -> torch.Tensor:
    surface, _ = problem("one output")
    return dims.settle(surface, surface.initial[None], "full").positions[0]


def at_minimum(rows: int, **fields: Any) -> dims.Draws:
    """Draws around a true minimum of their surface."""
    minimum = minimum_of_the_problem()
    noise = 0.3 * torch.randn(rows, len(minimum), generator=torch.Generator().manual_seed(0))
    given = {"parameters": minimum + noise, "map_parameters": minimum}
    return bare(**(given | fields))


def test_summary_is_quiet_when_all_is_well() -> None:
    assert "advice" not in at_minimum(10).summary()
    well = at_minimum(
        10,
        method="dims",
        status=[dims.Status.FINISHED] + [dims.Status.AT_REST] * 9,
        gradient_norm=torch.full((10,), 1e-3).double(),
        energy_violation=torch.full((10,), 1e-3).double(),
    )
    assert "trajectories: 9 at rest, 1 finished" in well.summary()
    assert "advice" not in well.summary()
    bad = dataclasses.replace(well, energy_violation=torch.tensor([0.5] + [0.0] * 9).double())
    assert "1 trajectory broke the energy law by more than 1%" in bad.summary()
    settled = bare(
        method="dims", gradient_norm=torch.ones(3).double() * 2, settings={"settle": "stiff"}
    )
    assert 'posterior.sample(..., settle="full")' in settled.summary()
    broken = bare(parameters=torch.full((3, 36), math.nan).double())
    assert "3 draws with NaN or infinite parameters" in broken.summary()
    assert "0 draws by 'la'" in bare().select([]).summary()


def test_summary_advises_on_the_start_the_prior_and_the_number() -> None:
    assert "only 3 draws: a spread is uncertain by 50%" in at_minimum(3).summary()
    assert "only 1 draw: its spread is unknown" in at_minimum(1).summary()
    assert "θ* is not a minimum" not in at_minimum(3).summary()
    sloping = bare().summary()
    assert (
        "θ* is not a minimum of the sampled loss (gradient norm 73): dims.fit(..., "
        'tune="cautious")' in sloping
    )
    for prior, told in ((1e-6, True), (1e6, True), (0.0, False), (0.5, False)):
        surface = problem("one output")[0].with_settings(prior_precision=prior)
        assert ("at a bound of its search" in bare(surface=surface).summary()) is told


def judged(**settings: Any) -> dims.Draws:
    """Twelve draws with verdicts as the sampler writes them."""
    draws = draws_of(problem("one output")[0], rows=12)
    verdict = ["MINIMUM"] * 8 + ["NOT_AT_REST"] * 3 + ["SADDLE"]
    broken = torch.tensor([1.0] + [0.0] * 11).double()
    settings = {**draws.settings, **settings}
    return dataclasses.replace(draws, verdict=verdict, settings=settings, energy_violation=broken)


def test_advice_can_be_typed_as_it_stands() -> None:
    """Whatever it says of `posterior.sample` and `dims sample`, they take; and it is a change."""
    options = typer.main.get_command(app).commands["sample"].params
    known = {name for option in options for name in option.opts}
    given = {"max_time": 20.0, "settle": "stiff", "tolerance": None, "solver": "rattle"}
    calls = 0
    for settings in (given, given | {"settle": "full", "tolerance": 1e-3}):
        advice = judged(**settings).summary().split("advice:")[1]
        for name, text in re.findall(r"posterior\.sample\(\.\.\., (\w+)=([^)]+)\)", advice):
            value = ast.literal_eval(text)
            SAMPLERS["dims"](**{name: value})  # as posterior.sample does
            used = settings[name] if settings[name] is not None else dims.Rattle().tolerance
            assert value > used if name == "max_time" else value != used
            calls += 1
        assert set(re.findall(r"--[\w-]+", advice)) <= known
    assert calls == 8


def test_the_summary_says_what_a_minimum_is_not() -> None:
    draws = judged(settle="stiff")
    text = draws.summary()
    flat = dims.certify(draws.surface, draws.parameters[:1]).flat_curvature
    assert f"curvatures within ±{float(flat[0]):.3g} (20 times the prior's) count as flat" in text
    lowest = draws.smallest_eigenvalue[:8]
    bent = int((lowest < 0).sum())
    assert 0 < bent < 8
    assert f"Of the 8, {bent} bend down in flat directions (lowest {lowest.min():.3g})" in text
    assert 'settle="stiff" left slopes there' in text
    assert 'settle="full" has walked down' in judged(settle="full").summary()
    free = draws.surface.with_settings(prior_precision=0.0)
    text = dataclasses.replace(draws, surface=free).summary()
    assert "within ±1e-06 of the largest count as flat" in text
    without = dataclasses.replace(draws, verdict=["SADDLE"] * 12).summary()
    assert "flat" not in without


def test_datatree_has_the_draws_and_their_statistics() -> None:
    surface, _ = problem("one output")
    draws = draws_of(surface)
    tree = draws.to_datatree()
    parameters = tree["posterior/parameters"]
    assert parameters.dims == ("chain", "draw", "parameter")
    np.testing.assert_array_equal(parameters.values[0], draws.parameters.numpy())
    stats = tree["sample_stats"]
    np.testing.assert_array_equal(stats["loss"].values[0], draws.loss.numpy())
    np.testing.assert_array_equal(stats["lp"].values[0], -draws.loss.numpy())
    np.testing.assert_array_equal(stats["evaluations"].values[0], draws.evaluations.numpy())
    assert stats["status"].values[0].tolist() == [s.name for s in draws.status if s]
    assert stats["diverging"].values[0].tolist() == [True, False, False, True, True]
    assert stats["verdict"].values[0].tolist() == draws.verdict
    assert "displacement" not in stats
    assert tree.attrs["method"] == "dims"
    assert json.loads(tree.attrs["settings"]) == draws.settings
    assert "sample_stats" not in bare().to_datatree().children


def test_datatree_without_arviz_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "arviz_base":
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"dims\[arviz\]"):
        bare().to_datatree()
