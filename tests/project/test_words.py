"""The code and the documentation use the words of the field, not private ones.

A line that needs an old word, because it reads files of an earlier version, has the comment
`# old name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("src", "paper", "docs", "examples", "README.md")
TEXT = {".py", ".js", ".css", ".md", ".txt", ".toml"}  # data files (.csv, .json) keep their words
EXEMPT = "old name"

# Whole identifiers, and their parts between underscores or capitals.
IDENTIFIERS = {
    r"legs?": "segment",
    r"launch(?:es|ed|ing)?": "initial state, start",
    r"debts?": "accumulated error",
    r"repayments?": "correction",
    r"wish(?:es|ed|ing)?": "proposed step",
    r"retreat(?:s|ed|ing)?": "rejected step",
}
TERMS = {
    r"foreign": "out-of-distribution (OOD)",
    r"told apart": "significantly different",
    r"recipes?": "reference solver",
    r"--more(?![\w-])": "--additional-baselines",
    r"is no minimum": "is not a minimum",
    r"the same bits": "bitwise identical",
}
BREAK = r"\s+(?:(?:#|//|>|\*|\")\s*)*"  # between two words, also where a comment or string wraps
PATTERNS = {
    re.compile(rf"(?<![a-z]){words.replace(' ', BREAK)}(?![a-z])", re.IGNORECASE): better
    for words, better in (IDENTIFIERS | TERMS).items()
}


def private_words(text: str) -> Iterator[tuple[int, str, str]]:
    """The line, the word and a better one, for every word that should not be there."""
    # A zero-width space ends a word at a capital, as in `LegState`, without moving lines.
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "\u200b", text)
    lines = split.split("\n")
    for pattern, better in PATTERNS.items():
        for match in pattern.finditer(split):
            number = split.count("\n", 0, match.start()) + 1
            if EXEMPT not in lines[number - 1]:
                yield number, " ".join(match[0].split()), better


def pages() -> list[Path]:
    files = [path for place in PLACES for path in (ROOT / place).rglob("*")]
    files += [ROOT / place for place in PLACES if (ROOT / place).is_file()]
    return sorted(path for path in files if path.is_file() and path.suffix in TEXT)


def test_the_words_of_the_field_are_used():
    found = []
    for path in pages():
        place = path.relative_to(ROOT).as_posix()
        found += [f"{place}: file name {word!r}" for _, word, _ in private_words(place)]
        found += [
            f"{place}:{number}: {word!r}, write {better!r}"
            for number, word, better in sorted(private_words(path.read_text(encoding="utf-8")))
        ]
    assert not found, f"{len(found)} words to replace:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "legs = 3",
        "def run_leg(): ...",
        "class LegState:",
        "LAUNCH_TIME",
        "state.launched",
        "energy_debt",
        "the repayments of",
        "wished < 1",
        "_retreat",
        "foreign data",
        "is_foreign",
        "told\n    # apart",
        'told "\n    "apart',
        "the published recipe",
        "Give --more to",
        "which is no\nminimum",
        "the same\nbits",
    ],
)
def test_private_words_are_found(text):
    assert len(list(private_words(text))) == 1


@pytest.mark.parametrize(
    "text",
    ["legend", "legacy", "elegance", "delegate", "--more-than", "more", "is not a minimum",
     "the same bit", 'KEYS = {"ood": "foreign"}  # old name', "wishbone"],
)  # fmt: skip
def test_ordinary_words_stay(text):
    assert list(private_words(text)) == []


def test_matches_name_their_line():
    assert list(private_words("one\ntwo\nx = leg")) == [(3, "leg", "segment")]
    assert [number for number, *_ in private_words("one\ntold\napart")] == [2]
