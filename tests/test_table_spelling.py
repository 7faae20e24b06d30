"""Words that are written in two ways are found, however often each is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from dims.estimators import tables
from dims.estimators.tables.spelling import likely_spelling, same_word


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("Koeln", "Köln"),
        ("Muenchen", "München"),
        ("Munchen", "München"),
        ("Zurich", "Zürich"),
        ("ZUERICH", "Zürich"),
        ("Strasse", "Straße"),
        ("Geneve", "Genève"),
        ("Mu\u0308nchen", "München"),  # two characters on some systems
        ("Muenchn", "München"),
        ("Genf", None),
        ("Bonn", None),
    ],
)
def test_umlauts_and_accents_do_not_matter(word, meant):
    cities = ["Köln", "München", "Zürich", "Straße", "Genève", "Hamburg"]
    assert likely_spelling(word, cities) == meant


def test_other_words_are_not_the_same():
    assert not same_word("A+", "A-")
    assert not same_word("<5", ">5")
    assert not same_word("Mannheim", "Monheim")


def decisions(folder: Path, cities: list[str]) -> list[str]:
    path = folder / "t.csv"
    path.write_text("\n".join(["city,y", *(f"{city},{i}.5" for i, city in enumerate(cities))]))
    table = tables.read(path, {"city": "category"}, "y", "regression")
    return tables.decisions(tables.preparation({"city": "category"}), table)


@pytest.mark.parametrize("count", [4, 12])
def test_frequent_levels_that_seem_to_be_one_are_named(tmp_path, count):
    assert decisions(tmp_path, ["München"] * 20 + ["Bonn"] * 9 + ["Muenchen"] * count) == [
        f"column 'city': 'Muenchen' ({count} rows) and 'München' (20 rows) are two levels; if they "
        "are one, write them alike"
    ]


@pytest.mark.parametrize("others", [[], ["Bonn"] * 9])
def test_rare_ones_are_named_once(tmp_path, others):
    notes = decisions(tmp_path, ["München"] * 20 + others + ["Muenchen"] * 2)
    assert len(notes) == 1
    assert "is it 'München'?" in notes[0]


def test_other_levels_are_not_named(tmp_path):
    assert decisions(tmp_path, ["München"] * 20 + ["Münster"] * 9 + ["Bonn"] * 9) == []
