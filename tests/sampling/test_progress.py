"""Progress where there is no terminal: a bar in notebooks, a line now and then in logs."""

from __future__ import annotations

import sys
import time
from types import ModuleType, SimpleNamespace

import pytest
import torch
from test_store import make_posterior

import dims
from dims.mechanics.batch import Progress
from dims.sampling import displays, progress
from dims.sampling.progress import part_reporter, progress_reporter, stage


@pytest.fixture
def _at_once(monkeypatch) -> None:
    monkeypatch.setattr(displays, "FIRST_LINE", 0.0)
    monkeypatch.setattr(displays, "NEXT_LINES", 0.0)
    monkeypatch.setattr(displays, "NOTEBOOK_EVERY", 0.0)
    monkeypatch.setattr(progress, "TELL_EVERY", 0.005)


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_a_log_gets_a_line_now_and_then(capsys, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(displays, "time", clock)
    with progress_reporter(True, "dims") as report:
        assert report is not None
        for second in range(200):
            clock.now = 100.0 + second
            report(Progress(second // 20, 10, 50.0, 0.0, 1.5, 2.5))
    lines = capsys.readouterr().err.splitlines()
    # The first after 10 s, when nothing is done, then one a minute.
    assert lines == [
        "dims: 0/10 done, t 0, T 1.5, L 2.5, 10 s so far",
        "dims: 3/10 done, t 0, T 1.5, L 2.5, 70 s so far, about 3 min left",
        "dims: 6/10 done, t 0, T 1.5, L 2.5, 2 min so far, about 87 s left",
        "dims: 9/10 done, t 0, T 1.5, L 2.5, 3 min so far, about 21 s left",
    ]


def test_what_is_soon_done_and_what_is_silent_writes_nothing(capsys, monkeypatch):
    make_posterior(refine=True).sample(2, "la")
    monkeypatch.setattr(displays, "FIRST_LINE", 0.0)
    for reporter in (progress_reporter, part_reporter, stage):
        with reporter(False, "silent"):
            pass
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize(
    ("how", "stages"),
    [
        (
            {"refine": True, "tune": True},
            ["curvature", "tuning prior and noise", "walking to a minimum"],
        ),
        ({}, ["tuning prior and noise"]),  # the default has the curvature of each candidate
    ],
    ids=["at θ*", "at minima"],
)
def test_curvature_tuning_and_refining_report_too(capsys, how, stages):
    x = torch.linspace(-1, 1, 10).unsqueeze(-1)
    torch.manual_seed(0)
    dims.fit(torch.nn.Linear(1, 1), (x, x.sin()), "regression", **how)
    told = capsys.readouterr().err
    for label in stages:
        assert f"dims: {label}, 0 s so far" in told


class Notebook(ModuleType):
    """What of IPython is used, with everything that was shown in the cell."""

    def __init__(self) -> None:
        super().__init__("IPython")
        self.shown: list[str] = []
        self.display = ModuleType("IPython.display")
        self.display.HTML = str
        self.display.display = self.show

    def get_ipython(self) -> object:
        return type("ZMQInteractiveShell", (), {})()

    def show(self, html: str, display_id: bool) -> SimpleNamespace:
        assert display_id
        self.shown.append(html)
        return SimpleNamespace(update=self.shown.append)


@pytest.fixture
def notebook(monkeypatch) -> Notebook:
    fake = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", fake.display)
    return fake


@pytest.mark.usefixtures("_at_once")
def test_a_notebook_gets_a_bar(notebook, capsys):
    make_posterior().sample(3, friction=1.0, max_time=0.3, settle="none", certify=False)
    bars = [shown for shown in notebook.shown if "dims" in shown]
    assert bars[0] == "<progress max='1'></progress> <code>dims</code>"
    assert "3/3 done" in bars[-1]
    assert 'value="1.0000"' in bars[-1]
    assert any("curvature" in shown for shown in notebook.shown)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("_at_once")
def test_names_are_text_in_a_notebook_and_a_failure_is_not_shown_as_done(notebook):
    def fail() -> None:
        with part_reporter(True, "<b>") as report:
            report(0.25)
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert notebook.shown[-1] == (
        "<progress max='1' value=\"0.2500\"></progress> <code>&lt;b&gt;</code>"
    )


@pytest.mark.usefixtures("_at_once")
def test_a_stage_tells_while_it_lasts(capsys):
    with stage(True, "waiting"):
        time.sleep(0.1)
    told = capsys.readouterr().err
    assert told.count("dims: waiting") >= 2
    time.sleep(0.05)
    assert capsys.readouterr().err == ""
