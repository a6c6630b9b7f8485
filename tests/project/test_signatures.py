"""The signatures of the public names show no private name, and each name in them can be found."""

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest

import engine
from engine import KeyValueState
from engine.state import LayeredState

PRIVATE = re.compile(r"(?<!\w)_(?!native\.|asyncio\.)\w+")
MOST_CHARACTERS = 400
"""Longest signature of a function. A longer one shows an alias that Python has expanded."""


def callables(name: str) -> Iterator[tuple[str, Any]]:
    """The function or class of a public name, and the public methods that the project itself defines."""
    found = getattr(engine, name)
    if inspect.isclass(found):
        for attribute, value in inspect.getmembers(found):
            function = value.fget if isinstance(value, property) else value
            is_public = not attribute.startswith("_") or attribute == "__init__"
            if is_public and inspect.isfunction(function) and function.__module__.startswith("engine."):
                yield f"{name}.{attribute}", function
    elif inspect.isfunction(found):
        yield name, found


CALLABLES = [pytest.param(value, id=name) for exported in engine.__all__ for name, value in callables(exported)]


@pytest.mark.parametrize("function", CALLABLES)
def test_a_signature_shows_public_names(function: Any) -> None:
    signature = inspect.signature(function)
    annotations = [*(each.annotation for each in signature.parameters.values()), signature.return_annotation]
    shown = [inspect.formatannotation(each) for each in annotations if each is not inspect.Signature.empty]
    assert not [text for text in shown if PRIVATE.search(text)]
    assert function.__name__ == "__init__" or len(str(signature)) <= MOST_CHARACTERS, str(signature)


@pytest.mark.parametrize("function", CALLABLES)
def test_every_name_of_a_signature_can_be_found(function: Any) -> None:
    get_type_hints(function)


@pytest.mark.parametrize("method", ["get", "put", "get_many", "put_many", "add_many"])
def test_a_compiled_method_of_a_state_has_the_parameters_of_its_interface(method: str) -> None:
    compiled = inspect.signature(getattr(LayeredState, method)).parameters.values()
    declared = inspect.signature(getattr(KeyValueState, method)).parameters.values()
    assert [(each.name, each.default) for each in compiled] == [(each.name, each.default) for each in declared]
