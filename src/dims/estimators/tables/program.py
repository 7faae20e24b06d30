"""What a program of `dims init --csv` is given: settings at its top, an estimator, and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dims.errors import TableError
from dims.estimators.tables.columns import LEFT_OUT
from dims.estimators.tables.formats import Format
from dims.estimators.tables.predictions import check_answer
from dims.estimators.tables.spelling import did_you_mean

__all__ = ["check_settings", "made_by", "run"]

YES_OR_NO = (lambda value: isinstance(value, bool), "True or False")


def check_settings(given: Mapping[str, Any]) -> None:
    """Refuse settings that the program cannot use.

    Args:
        given: Values by name, such as `globals()`.

    Raises:
        TableError: The first of them that is wrong.
    """
    for name, (is_right, wanted) in SETTINGS.items():
        if not is_right(given[name]):
            raise TableError(f"{name}: must be {wanted}, is {given[name]!r}")
    check_answer(given["ANSWER"])
    if given["COLUMNS"].get(given["TARGET"], LEFT_OUT) != LEFT_OUT:
        raise TableError(
            f"COLUMNS: has {given['TARGET']!r}, which is the TARGET; delete its line, because a "
            "network that sees the answer learns nothing else"
        )


def made_by(estimator: Callable[[], Any]) -> Any:
    """What a function returns, where it gives an estimator the arguments that there are.

    Args:
        estimator: The function.

    Raises:
        TableError: An argument is not known.
    """
    try:
        return estimator()
    except TypeError as error:
        raise TableError(f"estimator(): {error}") from error


def run(
    words: Sequence[str],
    about: str,
    main: Callable[..., None],
    options: Mapping[str, Callable[[], None]],
) -> None:
    """Do what a command asks for.

    Args:
        words: Of the command, after the name of the program.
        about: What `--help` prints, such as the docstring of the program.
        main: Takes the other words, which are files.
        options: What is done instead of it, by the word that asks for it.

    Raises:
        TableError: An option is not known, or stands beside other words.
    """
    if {"-h", "--help"} & {*words}:
        print(about.strip())
        return
    chosen = [word for word in words if word.startswith("--")]
    for word in chosen:
        if word not in options:
            there = ["--help", *options]
            known = f"there are {', '.join(there)}"
            raise TableError(f"{word} is unknown; {known}{did_you_mean([word], there)}")
        if len(words) > 1:
            raise TableError(f"{word} stands alone; leave the other words out")
    (options[chosen[0]] if chosen else main)(*([] if chosen else words))


def _is_format(value: object) -> bool:
    return (
        isinstance(value, Format)
        and all(isinstance(each, str) for each in (value.separator, value.encoding))
        and len(value.separator) == 1
        and value.decimal in (".", ",")
    )


def _are_columns(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values())


def _is_part(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1


SETTINGS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "CSV_FILE": (lambda value: isinstance(value, str | Path), "the name of a file"),
    "FORMAT": (_is_format, 'as tables.Format(separator=",", decimal=".", encoding="utf-8")'),
    "TARGET": (lambda value: isinstance(value, str), "the name of a column"),
    "TASK": (
        lambda value: value in ("regression", "classification"),
        '"regression" or "classification"',
    ),
    "COLUMNS": (_are_columns, 'the kind of each column, as {"size": "number"}'),
    "MARK_MISSING": YES_OR_NO,
    "HELD_OUT": (_is_part, "a number between 0 and 1, such as 0.2"),
    "LEARN_FROM_ALL": YES_OR_NO,
    "VERBOSE": YES_OR_NO,
}
