"""Every public function and class documents all of its arguments; functions show an example."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import dims

OBJECTS = {f"dims.{name}": getattr(dims, name) for name in dims.__all__}
OBJECTS |= {f"dims.metrics.{name}": getattr(dims.metrics, name) for name in dims.metrics.__all__}
FUNCTIONS = {name: value for name, value in OBJECTS.items() if inspect.isfunction(value)}
CLASSES = {
    name: value
    for name, value in OBJECTS.items()
    if inspect.isclass(value)
    and not issubclass(value, Exception)
    and not getattr(value, "_is_protocol", False)
}


def lacking(value: Any) -> list[str]:
    """The arguments that have no line of their own in the docstring."""
    text = inspect.getdoc(value) or ""
    names = inspect.signature(value).parameters
    return [name for name in names if not re.search(rf"^\s*{name}\b[^\n]*:", text, re.M)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_document_arguments_result_and_an_example(name):
    function = FUNCTIONS[name]
    text = inspect.getdoc(function) or ""
    assert lacking(function) == []
    assert "Example:" in text
    if inspect.signature(function).return_annotation not in (None, "None"):
        assert "Returns:" in text


@pytest.mark.parametrize("name", [name for name in CLASSES if name != "dims.Status"])
def test_classes_document_their_arguments(name):
    assert lacking(CLASSES[name]) == []


def test_a_missing_argument_is_seen():
    def function(draws: int, seed: int) -> None:
        """Draw.

        Args:
            draws: How many.
        """

    assert lacking(function) == ["seed"]
