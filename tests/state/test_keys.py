"""Keys: equal keys have the same stored form, different keys different ones. Invalid keys are refused."""

from collections import namedtuple
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kernel import key_group
from engine.state.codec import MOST_DEPTH, MessagePack, canonical

offsets = st.timedeltas(min_value=timedelta(hours=-23), max_value=timedelta(hours=23)).map(timezone)
moments = st.datetimes(datetime(1900, 1, 2), datetime(2100, 1, 1), timezones=st.none() | offsets)
numbers = st.one_of(
    st.integers(-3, 3),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.sampled_from([0.0, -0.0, 0.5, 1e300, 2.0**70, float("inf")]),
    st.decimals(allow_nan=False, min_value=-(10**40), max_value=10**40),
    st.sampled_from([Decimal("0.5"), Decimal("0.50"), Decimal("0.1"), Decimal("-0"), Decimal("1E+3"), Decimal("Infinity")]),
)
keys = st.recursive(
    st.one_of(st.none(), numbers, st.text(st.characters(), max_size=3), st.binary(max_size=3), st.uuids(), moments),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


def stored_form(key: Any) -> bytes:
    return MessagePack().encode(canonical(key))


@pytest.mark.guarantee("CP-6")
@given(first=keys, second=keys)
def test_keys_are_equal_exactly_when_their_stored_forms_are(first: Any, second: Any) -> None:
    assert (first == second) == (stored_form(first) == stored_form(second))


@given(first=numbers, second=numbers)
def test_numbers_are_equal_exactly_when_their_stored_forms_are(first: Any, second: Any) -> None:
    assert (first == second) == (stored_form(first) == stored_form(second))


@given(moment=moments, offset=offsets)
def test_the_same_moment_in_two_time_zones_is_the_same_key(moment: datetime, offset: timezone) -> None:
    if moment.tzinfo is not None:
        assert stored_form(moment) == stored_form(moment.astimezone(offset))
    assert stored_form(moment) == stored_form(moment.replace(fold=1))


@given(key=keys)
def test_the_stored_form_equals_the_key_and_is_its_own(key: Any) -> None:
    form = canonical(key)
    assert form == key
    assert hash(form) == hash(key)
    assert stored_form(form) == stored_form(key)
    assert stored_form(MessagePack().decode(stored_form(key))) == stored_form(key)


@pytest.mark.guarantee("CP-9")
@given(key=keys)
def test_the_stored_form_is_in_the_key_group_of_the_key(key: Any) -> None:
    assert key_group(canonical(key), 128) == key_group(key, 128)


Point = namedtuple("Point", "x y")


class Level(IntEnum):
    LOW = 1


class Colour(StrEnum):
    RED = "red"


class Word(str):
    pass


@pytest.mark.parametrize(
    ("key", "plain"),
    [(Point(1, "a"), (1, "a")), (Level.LOW, 1), (Colour.RED, "red"), (Word("a"), "a"), ((Level.LOW, Point(1, 2)), (1, (1, 2)))],
)
def test_a_key_of_a_derived_type_equals_the_plain_key(key: Any, plain: Any) -> None:
    assert stored_form(key) == stored_form(plain)
    assert type(canonical(key)) is type(plain)


def test_a_decimal_of_many_digits_is_not_rounded() -> None:
    one, other = Decimal("0." + "1" * 60), Decimal("0." + "1" * 60 + "2")
    assert stored_form(one) != stored_form(other)
    with localcontext() as context:
        context.prec = 3
        assert canonical(one) == one
        assert canonical(Decimal("123456.70")) == Decimal("123456.7")
    assert stored_form(Decimal("0." + "1" * 60 + "000")) == stored_form(one)


def test_the_repeated_hour_of_a_time_zone_is_one_key() -> None:
    first = datetime(2020, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert first == first.replace(fold=1)
    assert stored_form(first) == stored_form(first.replace(fold=1)) == stored_form(first.astimezone(UTC))


class Plain(Enum):
    RED = 1


class Uneven(str):
    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


def too_deep() -> Any:
    key: Any = 1
    for _ in range(MOST_DEPTH + 1):
        key = (key,)
    return key


NOT_A_NUMBER = (float("nan"), Decimal("NaN"), Decimal("sNaN"), (1, float("nan")))
OF_NO_KIND = ([1], {1}, {}, date(2020, 1, 1), 1j, Fraction(1, 2), object(), Plain.RED, Uneven("a"), (1, [2]))
OUT_OF_RANGE = (Decimal("1E+5000"), Decimal("1E+999999999"), datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), too_deep())


NO_KEYS = [*NOT_A_NUMBER, *OF_NO_KIND, *OUT_OF_RANGE]


@pytest.mark.parametrize("key", NO_KEYS, ids=range(len(NO_KEYS)))
def test_an_invalid_key_is_refused(key: Any) -> None:
    with pytest.raises(TypeError, match="cannot be a key"):
        canonical(key)


def test_the_deepest_key_can_be_stored() -> None:
    key = too_deep()[0]
    assert MessagePack().decode(stored_form(key)) == key


def test_a_uuid_has_its_own_stored_form() -> None:
    assert canonical(UUID(int=3)) == UUID(int=3)
