"""JSON form of keys and values. A reader that knows only docs/STATE.md gets equal values of the same types."""

import base64
import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.json_values import StoredPickle, json_form, text_form
from engine.json_text import json_text

READERS: dict[str, Any] = {
    "$bytes": base64.b64decode,
    "$tuple": lambda items: tuple(map(read, items)),
    "$set": lambda items: set(map(read, items)),
    "$frozenset": lambda items: frozenset(map(read, items)),
    "$dict": lambda items: {read(key): read(value) for key, value in items},
    "$int": lambda text: int(text, 16),
    "$float": float,
    "$decimal": Decimal,
    "$uuid": UUID,
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$timedelta": lambda parts: timedelta(*parts),
}


def read(form: Any) -> Any:
    """A reader written after docs/STATE.md alone."""
    if isinstance(form, list):
        return [read(each) for each in form]
    if not isinstance(form, dict):
        return form
    tag = next(iter(form), "")
    if not tag.startswith("$"):
        return {name: read(each) for name, each in form.items()}
    value = READERS[tag](form[tag])
    return value.replace(fold=1) if form.get("fold") else value


ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=[]))
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.dates()
    | st.times()
    | st.timedeltas()
)
KEYS = ATOMS | st.tuples(ATOMS, ATOMS) | st.text("$abc", max_size=4)
VALUES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.sets(ATOMS, max_size=3)
        | st.frozensets(ATOMS, max_size=3)
    ),
)


@given(VALUES)
def test_every_value_can_be_written_and_read_back(value: Any) -> None:
    found = read(json.loads(json_text({"value": json_form(value)}))["value"])
    assert found == value
    assert repr(read(json_form(found))) == repr(found)
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ({"a": [1, 1.5, None, True, "é"]}, {"a": [1, 1.5, None, True, "é"]}),
        (2**53, {"$int": "0x20000000000000"}),
        (-(2**53) + 1, -(2**53) + 1),
        (float("-inf"), {"$float": "-inf"}),
        (b"hi", {"$bytes": "aGk="}),
        ({1: "a"}, {"$dict": [[1, "a"]]}),
        ({"$bytes": "aGk="}, {"$dict": [["$bytes", "aGk="]]}),
        ({3, 1, 2}, {"$set": [1, 2, 3]}),
        (Decimal("1.10"), {"$decimal": "1.10"}),
        (datetime(2026, 10, 25, 2, 30, fold=1), {"$datetime": "2026-10-25T02:30:00", "fold": 1}),
        (timedelta(days=-1, microseconds=5), {"$timedelta": [-1, 0, 5]}),
        (StoredPickle(b"\x80"), {"$pickle": "gA=="}),
        (complex(1, 2), {"$repr": "(1+2j)", "type": "builtins.complex"}),
    ],
)
def test_the_json_forms_equal_those_of_the_page(value: Any, form: Any) -> None:
    assert json_form(value) == form
    assert list(json_form(value)) == list(form) if isinstance(form, dict) else True


def test_a_lone_surrogate_is_escaped() -> None:
    assert json_text({"key": "a\udc80"}).encode() == b'{"key": "a\\udc80"}'


@pytest.mark.parametrize(
    ("value", "text"), [("a", "'a'"), ("x" * 50, "'" + "x" * 8 + "…"), (StoredPickle(b"123"), "pickle of 3 bytes"), ("\udc80", r"'\udc80'")]
)
def test_values_have_a_short_text_for_tables(value: Any, text: str) -> None:
    assert text_form(value, 10) == text


def test_an_int_of_too_many_digits_has_a_text() -> None:
    assert text_form(10**5000, 20).startswith("<int that cannot be")
