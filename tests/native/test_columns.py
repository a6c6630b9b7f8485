"""Fields of rows as buffers in Arrow's layout: their contents, and the values that are left to the slow way."""

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _native.columns import (
    binary_buffers,
    boolean_buffers,
    date_buffers,
    double_buffers,
    float_buffers,
    integer_buffers,
    string_buffers,
    timestamp_buffers,
)
from _native.nested import list_parts, map_parts, struct_parts


class OwnZone(tzinfo):
    """A zone with code of its own."""


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


in_utc = partial(timestamp_buffers, in_utc=True)
without_zone = partial(timestamp_buffers, in_utc=False)
in_struct = partial(struct_parts, names=("a", "b"), fillers=(None, 0))


def rows_of(*values: Any) -> list[tuple[Any, ...]]:
    return [("before", value, "behind") for value in values]


@pytest.mark.parametrize(("byte_width", "letter"), [(1, "b"), (2, "h"), (4, "i"), (8, "q")])
def test_integers_of_each_width_are_stored_up_to_their_limits(byte_width: int, letter: str) -> None:
    most = 2 ** (8 * byte_width - 1) - 1
    assert integer_buffers(rows_of(0, most, -most - 1), 1, byte_width) == (0, [None, struct.pack(f"=3{letter}", 0, most, -most - 1)])
    assert integer_buffers(rows_of(most + 1), 1, byte_width) is None
    assert integer_buffers(rows_of(-most - 2), 1, byte_width) is None
    assert integer_buffers(rows_of(2**70), 1, byte_width) is None


def test_nulls_are_unset_bits() -> None:
    values = [None if number % 3 == 0 else float(number) for number in range(11)]
    made = double_buffers(rows_of(*values), 1)
    assert made is not None
    nulls, (bits, _) = made
    assert bits is not None
    assert nulls == 4
    assert [bits[number // 8] >> (number % 8) & 1 for number in range(11)] == [value is not None for value in values]


def test_texts_are_concatenated() -> None:
    assert string_buffers(rows_of("a", "", "é", None), 1) == (1, [bytes([0b11110111]), struct.pack("=5i", 0, 1, 1, 3, 3), "aé".encode()])


def test_bools_are_bits() -> None:
    assert boolean_buffers(rows_of(*[True, False, None] * 3), 1) == (3, [bytes([0b11011011, 0b11111110]), bytes([0b01001001, 0])])


@given(st.dates())
def test_a_date_is_its_days_since_1970(day: date) -> None:
    assert date_buffers(rows_of(day), 1) == (0, [None, struct.pack("=i", (day - EPOCH.date()).days)])


ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, microseconds=3)), ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")])


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=ZONES))
def test_a_datetime_with_a_zone_is_its_instant(at: datetime) -> None:
    assert timestamp_buffers(rows_of(at), 1, in_utc=True) == (0, [None, struct.pack("=q", (at - EPOCH) // timedelta(microseconds=1))])


@given(st.datetimes() | st.datetimes(timezones=st.just(UTC)))
def test_a_datetime_is_its_microseconds_since_1970(at: datetime) -> None:
    micros = (at.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    assert timestamp_buffers(rows_of(at), 1, in_utc=True) == (0, [None, struct.pack("=q", micros)])


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (lambda rows, place: integer_buffers(rows, place, 8), True),
        (lambda rows, place: integer_buffers(rows, place, 8), 1.0),
        (double_buffers, True),
        (double_buffers, 2**53 + 1),
        (float_buffers, 1e-40),
        (float_buffers, 1e300),
        (float_buffers, 2**24 + 1),
        (binary_buffers, "a"),
        (binary_buffers, bytearray(b"a")),
        (boolean_buffers, 1),
        (date_buffers, datetime(2026, 1, 1)),
        (string_buffers, b"a"),
        (string_buffers, "\ud800"),
        (in_utc, 1.0),
        (in_utc, 253_402_300_800_000_000),
        (in_utc, -62_135_596_800_000_001),
        (in_utc, date(2026, 1, 1)),
        (in_utc, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
        (in_utc, datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-1)))),
        (in_utc, datetime(2026, 1, 1, tzinfo=OwnZone())),
        (without_zone, datetime(2026, 1, 1, tzinfo=UTC)),
        (list_parts, "ab"),
        (list_parts, {1}),
        (map_parts, [("a", 1, 2)]),
        (map_parts, (("a", 1),)),
        (in_struct, {"a": 1, "c": 2}),
        (in_struct, (1,)),
        (in_struct, [1, 2]),
    ],
)
def test_a_value_of_another_type_is_left_to_the_slow_way(read: Callable[[list[Any], int], object], value: object) -> None:
    assert read(rows_of(value), 1) is None


def test_floats_of_32_bits_keep_their_values() -> None:
    assert float_buffers(rows_of(0.5, -0.0, 3, float("inf")), 1) == (0, [None, struct.pack("=4f", 0.5, -0.0, 3, float("inf"))])


def test_bytes_are_concatenated() -> None:
    assert binary_buffers(rows_of(b"ab", None, b"\xff"), 1) == (1, [bytes([0b11111101]), struct.pack("=4i", 0, 2, 2, 3), b"ab\xff"])


def test_a_negative_index_reads_the_values_themselves() -> None:
    assert double_buffers([1.5, 2], -1) == (0, [None, struct.pack("=2d", 1.5, 2)])


def test_nested_values_are_taken_apart() -> None:
    ends = struct.pack("=4i", 0, 2, 2, 3)
    assert list_parts(rows_of([1, 2], None, ("x",)), 1) == (1, [bytes([0b11111101]), ends], [1, 2, "x"])
    assert map_parts(rows_of({"a": 1, "b": 2}, None, [("a", 3)]), 1) == (1, [bytes([0b11111101]), ends], ["a", "b", "a"], [1, 2, 3], False)
    assert (map_parts([[("a", 3), ("a", 3)]], -1) or ())[4], "a key twice"
    assert (map_parts([[([], 3)]], -1) or ())[4], "a key without a hash"
    assert in_struct(rows_of({"b": 1}, None, (2, 3)), 1) == (1, [bytes([0b11111101])], [[None, None, 2], [1, 0, 3]])


@pytest.mark.parametrize("rows", [[("too", "short")], [["no", "tuple", "at all"]]])
def test_a_value_that_is_not_a_row_is_an_error(rows: list[Any]) -> None:
    with pytest.raises((IndexError, TypeError)):
        string_buffers(rows, 2)


def test_without_rows_the_column_is_empty() -> None:
    assert integer_buffers([], 0, 4) == (0, [None, b""])
    assert string_buffers([], 0) == (0, [None, bytes(4), b""])
