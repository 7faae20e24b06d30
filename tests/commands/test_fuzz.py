"""Arguments and manifests of any kind end in a result or in one of the documented errors."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from test_store import make_posterior
from typer.testing import CliRunner

import dims
from cases import examples
from dims.commands import app
from dims.sampling.store.manifest import MANIFEST, agree

fuzz = settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])

WORD = st.text(st.characters(exclude_characters="/"), max_size=12)
NUMBER = st.sampled_from(
    ["0", "1", "2", "-1", "x", "", "nan", "inf", "-inf", "1e400", "0x1", "1_0", "\u0663", "9" * 40]
)
GOOD = "good.py:problem"
# Values that are right must be cheap: no long way, no cluster, nothing outside the sandbox.
OPTIONS: dict[str, st.SearchStrategy[str]] = {
    "--draws": st.sampled_from(["1", "2"]) | NUMBER.filter(lambda text: text != "1_0"),
    "--method": st.sampled_from(["la", "linla", "LA", ""]) | WORD.filter(lambda w: w != "dims"),
    "--friction": NUMBER,
    "--max-time": NUMBER,
    "--tolerance": NUMBER,
    "--settle": st.sampled_from(["stiff", "none"]) | WORD,
    "--curvature": st.sampled_from(["full", "round"]) | WORD,
    "--chunk-size": NUMBER,
    "--engine": st.sampled_from(["local", "spark"]) | WORD.filter(lambda word: word != "ray"),
    "--address": st.sampled_from(["auto", ""]) | WORD,
    "--threads": NUMBER.filter(lambda text: text not in ("2", "1_0", "\u0663")),
    "--seed": NUMBER,
    "--device": st.sampled_from(["cpu", "cuda", "meta", "cpu:7", ""]) | WORD,
    "--out": st.sampled_from(["all.safetensors", "file", "no/such/folder", "a\0b", ""]),
    "--store": st.sampled_from(["run", "other", "file", "file/below", "", "a\0b", "x" * 300]),
}
FLAGS = (
    "--json",
    "--retry-failed",
    "--refine",
    "--tune-at-minimum",
    "--help",
    "--no-such",
    "-x",
    "--",
    "-",
)


@st.composite
def command_line(draw: st.DrawFn) -> list[str]:
    name = draw(st.sampled_from(["sample"] * 6 + ["init", "data", ""]) | WORD)
    if name in ("demo", "reproduce"):
        name = "data"
    words = [name] if name else []
    if name == "init":
        return words + draw(st.lists(WORD | WORD.map(lambda word: word + ".py"), max_size=2))
    if name != "sample":
        return words + draw(st.lists(WORD | st.sampled_from(FLAGS), max_size=3))
    entry = st.sampled_from([GOOD] * 4 + ["good.py:no", "no.py:f", "", ":", "os:sep"]) | WORD
    if draw(st.booleans()):  # all well, but for one option or flag
        words += [GOOD, "--store", "run", "--method", "la", "--draws", "2"]
        most = 1
    else:
        words += draw(st.lists(entry, max_size=2))
        most = 4
    for option in draw(st.lists(st.sampled_from(sorted(OPTIONS)), max_size=most)):
        words += [option, draw(OPTIONS[option])]
    return words + draw(st.lists(st.sampled_from(FLAGS), max_size=1))


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("around") / "sandbox"
    place.mkdir()
    (place / "file").write_text("mine")
    (place / "good.py").write_text("def problem(): ...")
    posterior = make_posterior()
    command = sys.modules["dims.commands.sample"]
    fit = command._fit

    def quick_fit(entry: str, *rest: Any) -> dims.Posterior:
        return posterior if entry == GOOD else fit(entry, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("DIMS_DATA", str(place))
        patch.setattr(command, "_fit", quick_fit)  # a fit takes far longer than all the rest
        yield place


@fuzz
@given(words=command_line())
def test_any_command_line_ends_with_a_documented_code(words: list[str], sandbox: Path) -> None:
    shutil.rmtree(sandbox / "run", ignore_errors=True)
    result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    event(f"exit code {result.exit_code}")
    assert result.exit_code in (0, 1, 2)
    if result.exit_code:
        assert "Traceback" not in result.output
    assert (sandbox / "file").read_text() == "mine"
    assert [path.name for path in sandbox.parent.iterdir()] == [sandbox.name]


WANTED: dict[str, Any] = {
    "version": 2,
    "chunk_size": 3,
    "method": "dims",
    "settings": {"friction": 0.1, "settle": None, "certify": True},
    "seed": 0,
    "fingerprint": "ab" * 32,
    "parts": {"weights": "cd" * 32},
    "threads": 1,
    "draws": [7],
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from([*WANTED, "other", "../../x"])
TRUE = st.sampled_from([*WANTED.values(), True, 1.0, 2, 5000])
CONTENT = st.one_of(
    st.binary(max_size=80),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(NAMES, JSON | TRUE, max_size=3).map(
        lambda change: json.dumps(WANTED | change).encode()
    ),
    st.integers(-1, 5000).map(lambda count: json.dumps(WANTED | {"threads": count}).encode()),
    st.integers(1, 5000).map(lambda depth: b"[" * depth + b"]" * depth),
    st.integers(1, 5000).map(lambda depth: b'{"a":' * depth + b"1" + b"}" * depth),
    st.integers(4000, 5000).map(lambda digits: b'{"seed": ' + b"9" * digits + b"}"),
    st.just(b" " * (2**20 + 1)),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.mark.parametrize("current", [dict, dims.DiMS.current_settings])
@fuzz
@given(content=CONTENT)
def test_any_manifest_is_the_wanted_one_or_refused(content: bytes, folder: Path, current) -> None:
    (folder / MANIFEST).write_bytes(content)
    wanted = WANTED | {"settings": current(WANTED["settings"])}
    refusal, agreed = "", wanted
    try:
        agreed = agree(folder, {k: v for k, v in wanted.items() if k != "draws"}, 5, True, current)
    except dims.StoreError as error:
        refusal = str(error)
    event("refused" if refusal else "accepted")
    if refusal:
        assert str(folder) in refusal
        assert len(refusal.splitlines()) == 1
    else:
        agreed = agreed | {"settings": current(agreed["settings"])}
        assert agreed == wanted | {name: agreed[name] for name in ("threads", "draws")}
        assert agreed["draws"][-1] >= 5
        assert type(agreed["threads"]) is int
        assert 1 <= agreed["threads"] <= 4096
    assert (folder / MANIFEST).read_bytes() == content
    assert [path.name for path in folder.iterdir()] == [MANIFEST]
