"""Texts of users' values, whatever their own code does."""

import asyncio
from typing import Any

import pytest

from engine.cli.json_values import json_form, text_form
from engine.json_text import json_text
from engine.safe_text import safe_repr, safe_str
from engine.web.encoding import json_value

pytestmark = pytest.mark.guarantee("RUN-6")


class NamelessType(type):
    """A class that does not even tell its name."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise ValueError("no name")


class Odd(metaclass=NamelessType):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


class LongStr(str):
    """A text whose length and parts are code of its own."""

    __slots__ = ()

    def __len__(self) -> int:
        raise ValueError("no length")

    def __getitem__(self, key: Any) -> str:
        raise ValueError("no parts")


class Returns:
    def __repr__(self) -> str:
        return LongStr("fine")


ERRORS = [ValueError(), StopIteration(), asyncio.CancelledError(), GeneratorExit(), SystemExit(3), RecursionError()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("text_of", [safe_repr, safe_str])
def test_a_text_that_raises_is_replaced(text_of: Any, error: BaseException) -> None:
    text = text_of(Odd(error))
    assert "cannot be shown" in text
    assert type(error).__name__ in text


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "text_of",
    [
        lambda value: json_text([value]),
        lambda value: json_text({value: 1}),
        lambda value: json_value([value])[0],
        lambda value: json_form([value])[0]["$repr"],
        lambda value: text_form(value, 200),
    ],
    ids=["line", "key of a line", "page", "form of a state", "table of a state"],
)
def test_a_value_that_cannot_be_shown_is_replaced_in_json_and_in_tables(text_of: Any, error: BaseException) -> None:
    assert f"cannot be shown: a value's repr raised {type(error).__name__}" in text_of(Odd(error))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_container_that_cannot_be_read_is_replaced(error: BaseException) -> None:
    class Unread(dict[str, int]):
        def items(self) -> Any:
            raise error

    assert json_text({"a": Unread(b=1)}) == """{"a": "{'b': 1}"}"""


def test_an_interrupt_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        safe_repr(Odd(KeyboardInterrupt()))


def test_a_text_is_a_plain_str() -> None:
    assert type(safe_repr(Returns())) is str
    assert (safe_repr(Returns()), safe_str(Returns())) == ("fine", "fine")


def test_a_text_is_bounded() -> None:
    assert safe_repr("a" * 1_000, 10) == "'aaaaaa..."
    assert safe_repr(["a"] * 1_000, 10, end="…") == "['a', 'a'…"
    assert safe_repr("short", 10) == "'short'"
