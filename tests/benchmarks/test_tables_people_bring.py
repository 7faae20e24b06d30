"""The benchmark of tables: tiny cases, and which warnings count as missing or false."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState

from dims.estimators.care import complaint_about
from tables_people_bring.__main__ import OUT, run
from tables_people_bring.cases import constant
from tables_people_bring.problems import PROBLEMS
from tables_people_bring.verdicts import better, false, missing, read_cases, summary, table

TINY = {"hidden": (2,), "epochs": 5, "draws": 2, "method": "la"}


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_cases_run_once_and_are_counted(tmp_path, capsys):
    names = ["sine, 1 column", "noise classes, 40 rows"]
    run(names, [0], tmp_path, **TINY)
    assert capsys.readouterr().out.count("nats") == 2
    run(names, [0], tmp_path, **TINY)
    assert capsys.readouterr().out == ""
    cases = read_cases(tmp_path)
    assert set(cases) == set(names)
    assert "2 cases" in summary(cases)
    assert table(cases).count("\n") == 3


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "yacht"])
def test_fresh_rows_are_others(name):
    problem = PROBLEMS[name]
    (x, y), (fresh, truth) = problem.make(RandomState(0), problem.rows)
    assert len(x) == len(y) == problem.rows
    assert len(fresh) == len(truth) >= 70
    assert not {row.tobytes() for row in x} & {row.tobytes() for row in fresh} or name == "iris"


def case(gain: float, saved: float, warned: bool) -> dict[str, Any]:
    return {
        "over_constant": {"log_score": [gain, 0.1], "error": [saved, 1.0]},
        "warned": ["do not trust it"] if warned else [],
    }


def test_missing_and_false_warnings():
    assert missing(case(-0.21, 0.0, warned=False))
    assert missing(case(0.0, -2.1, warned=False))
    assert not missing(case(-0.21, 0.0, warned=True))
    assert not missing(case(-0.19, -1.9, warned=False))
    assert false(case(0.21, 0.0, warned=True))
    assert not false(case(0.19, 5.0, warned=True))
    assert not better(case(0.5, -2.1, warned=False))


def test_the_constant_answer():
    known = np.array([1.0, 2.0, 3.0])
    scores, errors = constant(known, np.array([2.0]), classes=False)
    assert scores[0] == pytest.approx(-0.5 * np.log(2 * np.pi * 2 / 3))
    assert errors[0] == 0
    scores, errors = constant(np.array(["a", "a", "b"]), np.array(["a", "b"]), classes=True)
    assert np.exp(scores) == pytest.approx([0.6, 0.4])
    assert errors.tolist() == [0, 1]


@pytest.mark.parametrize("seeds", [range(5), range(5, 10)], ids=["chosen", "confirmed"])
def test_the_results_keep_their_promise(seeds):
    """No bad answer without a warning, and at most a tenth of all cases with a false one."""
    cases = [each for own in read_cases(OUT).values() for each in own if each["seed"] in seeds]
    assert len(cases) == 5 * len(PROBLEMS)
    assert [(each["table"], each["seed"]) for each in cases if missing(each)] == []
    assert sum(map(false, cases)) <= 0.1 * len(cases)


def test_the_stored_warnings_are_those_of_the_rule():
    """A change of the rule is counted anew without fitting anything again."""
    for own in read_cases(OUT).values():
        for each in own:
            said = complaint_about(each["judgement"], PROBLEMS[each["table"]].task)
            assert [said] * bool(said) == each["warned"] + each["warned_of_network"]
