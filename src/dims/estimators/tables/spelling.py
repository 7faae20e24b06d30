"""Words that are likely the same one, written in another way."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean", "likely_spelling", "same_word"]

SHOWN_NAMES = 4
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "æ": "ae"})


def did_you_mean(words: Iterable[object], others: Iterable[object]) -> str:
    """A question that ends an error about names that are not there; "" where none is like them."""
    found = [meant for word in words if (meant := likely_spelling(str(word), others)) is not None]
    return f"; did you mean {' and '.join(map(repr, found[:SHOWN_NAMES]))}?" if found else ""


def likely_spelling(word: str, others: Iterable[object]) -> str | None:
    """Another word that differs in capitals, umlauts or accents only, or in few letters."""
    words = [str(other) for other in others if str(other) != word]
    same = next((other for other in words if same_word(word, other)), None)
    if same is not None:
        return same
    named = {spelling: other for other in words for spelling in _spellings(other)}
    for spelling in _spellings(word):
        close = get_close_matches(spelling, named, 1, cutoff=0.8)
        if close:
            return named[close[0]]
    return None


def same_word(one: str, other: str) -> bool:
    """Whether two words differ in capitals, blanks, umlauts or accents only: Zürich is Zuerich, and
    Zurich."""
    return not set(_spellings(one)).isdisjoint(_spellings(other))


def _spellings(word: str) -> tuple[str, str]:
    """In small letters without accents; umlauts have an e, or none."""
    plain = " ".join(unicodedata.normalize("NFC", word).casefold().split())
    return _without_accents(plain.translate(UMLAUTS)), _without_accents(plain)


def _without_accents(word: str) -> str:
    letters = unicodedata.normalize("NFKD", word)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
