"""The stable hash (GRP-2): against its model, its golden values, other processes, and equality."""

import enum
import os
import subprocess
import sys
from collections import Counter, namedtuple
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from itertools import product
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _native.hash import key_group, stable_hash, stable_hash_fields
from tests.model.stable_hash_model import model_group, model_hash

NAN, INFINITY = float("nan"), float("inf")
PRIME = 2**61 - 1

NUMBERS = (
    st.integers() | st.integers(-(2**70), 2**70) | st.booleans() | st.floats() | st.decimals(-1000, 1000) | st.decimals(allow_nan=False)
)
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
ATOMS = (
    st.none()
    | NUMBERS
    | st.text()
    | st.text(st.characters(codec="ascii"), max_size=40)
    | st.text(st.characters(exclude_categories=[]), max_size=5)
    | st.binary(max_size=70)
    | st.uuids()
    | st.datetimes()
    | st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=OFFSETS)
)
VALUES = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple), max_leaves=8)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 3


class Word(enum.StrEnum):
    HELLO = "hello"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Customer:
    def __init__(self, number: int) -> None:
        self.number = number

    def __stable_hash__(self) -> int:
        return stable_hash(("customer", self.number))


@pytest.mark.guarantee("GRP-2")
@given(VALUES)
def test_the_hash_equals_the_models(value: object) -> None:
    assert stable_hash(value) == model_hash(value)


@pytest.mark.guarantee("GRP-2")
@pytest.mark.parametrize("size", [*range(36), 47, 48, 49, 64, 1000])
def test_the_hash_of_every_length_of_text_and_bytes_equals_the_models(size: int) -> None:
    text = "".join(chr(33 + at * 7 % 90) for at in range(size))
    for value in (text, text.encode(), "ü" + text, text + "\N{GRINNING FACE}", "\ud800" + text):
        assert stable_hash(value) == model_hash(value)


# Stored state is laid out by these. They change with the storage format only.
GOLDEN: list[tuple[object, int]] = [
    (None, 0x33df1795fb8f5130),
    (True, 0x31f91b21e50001f0),
    (0, 0xa8c6fe73f9c47e98),
    (-1, 0x4a395e9f5050ba84),
    (2**31, 0x5b915bfd6f85a924),
    (2**63, 0x5742099e1a0fe9a3),
    (-(10**30), 0x951e3b4b4a0f5cec),
    (2**61 - 1, 0xa8c6fe73f9c47e98),
    (0.1, 0x4af936ef080fb495),
    (-1e300, 0x0f6aa777ddd5e7e8),
    (5e-324, 0x52be0d57af937f7e),
    (INFINITY, 0xb581ef0078a6d2d4),
    (-INFINITY, 0x17ed54ff4d555c1b),
    (NAN, 0x5365d5b4b4f5dcd8),
    (Decimal("19.99"), 0xab5d6ad778e480a7),
    (Decimal("1e-400"), 0x1e3f4981612fa9e7),
    ("", 0x4d25bac32e9ce66d),
    ("a", 0xfd24f1be37f83cc7),
    ("the", 0x07f51a08fae2e98c),
    ("word", 0xed8c700ad1a5f72f),
    ("seventeen letters", 0xc6bdaaa370e81f9b),
    ("0123456789abcdef", 0x4fdad0676fa7d328),
    ("x" * 100, 0x9cbc7ac19fd84086),
    ("größe", 0xae835d2bd6cd2d02),
    ("\u6570\u636e", 0x8d38689510a3aaa0),
    ("\U0001f600", 0xec1eb644af0de54f),
    ("\ud800", 0x071e87a398395af3),
    (b"", 0x6dc683924d19f7cf),
    (b"word", 0x961ca860c2a5d031),
    (bytes(range(256)), 0x9951295ad86ad68f),
    (UUID("12345678-1234-5678-1234-567812345678"), 0x6981f3e13cceef62),
    (datetime(2024, 2, 29, 12, 30, 15, 123456), 0x97116f24f4c3351b),
    (datetime(2024, 2, 29, 12, 30, 15, tzinfo=UTC), 0xb724490432150666),
    (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), 0xbaa8fd3797f1f136),
    ((), 0x1f83d9abfb41bd6b),
    (("word", 1), 0x87ae5260c5f2a675),
    (("a", None, 2.5, (b"b", ["c", "d"])), 0x45ef6f98e1042228),
    (Colour.BLUE, 0x26ea9b8a6e3b8b73),
    (Access.READ | Access.WRITE, 0x38be0b7d01a20b47),
]


@pytest.mark.guarantee("GRP-2")
@pytest.mark.parametrize(("value", "expected"), GOLDEN, ids=[repr(value)[:40] for value, _ in GOLDEN])
def test_golden_values_never_change(value: object, expected: int) -> None:
    assert stable_hash(value) == expected


@pytest.mark.guarantee("GRP-2")
def test_golden_groups_never_change() -> None:
    assert [key_group(word, 128) for word in ("the", "cow", "jumped", "over", "the", "moon")] == [63, 119, 0, 71, 63, 120]
    assert [key_group(number, 100) for number in range(8)] == [70, 45, 34, 37, 51, 59, 40, 33]


@pytest.mark.guarantee("GRP-2")
@pytest.mark.parametrize("seed", ["0", "1", "4294967295"])
def test_another_process_gives_the_same_hash(seed: str) -> None:
    values = [value for value, _ in GOLDEN if type(value).__module__ != __name__]
    program = (
        "import sys; from datetime import *; from decimal import *; from uuid import *; nan = float('nan'); inf = float('inf')\n"
        "from _native.hash import stable_hash\n"
        "print([stable_hash(value) for value in eval(sys.stdin.read())])"
    )
    source = repr(values).replace("datetime.", "")
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", program], input=source, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == str([stable_hash(value) for value in values])


# ---- equal values ----------------------------------------------------------------------------------------------------


class CloseToWhole(float):
    """Equal to its base, but by an `__eq__` of its own, as numpy.float64 is."""

    def __eq__(self, other: object) -> bool:
        return float(self) == other

    def __hash__(self) -> int:
        return hash(float(self))


class Text(str):
    pass


class Number(int):
    pass


class Money(Decimal):
    pass


class Key(UUID):
    pass


class Instant(datetime):
    pass


class Octets(bytes):
    pass


class Row(list[object]):
    pass


Point = namedtuple("Point", "x y")

EQUAL: list[tuple[object, ...]] = [
    (1, 1.0, True, Decimal(1), Decimal("1.00"), Number(1)),
    (0, 0.0, -0.0, False, Decimal("-0")),
    (-1, -1.0, Decimal("-1")),
    (2**70, float(2**70), Decimal(2**70)),
    (-(2**63), -(2.0**63), Decimal(-(2**63))),
    (2**63, 2.0**63),
    (PRIME, Decimal(PRIME)),
    (0.5, Decimal("0.5"), Decimal("0.500")),
    (5e-324, Decimal.from_float(5e-324)),
    (sys.float_info.max, Decimal(sys.float_info.max), int(sys.float_info.max)),
    (10**400, Decimal("1e400")),
    (INFINITY, Decimal("Infinity")),
    (-INFINITY, Decimal("-Infinity")),
    (3, Level.LOW),
    ("hello", Word.HELLO, Text("hello")),
    ("\N{GREEK SMALL LETTER ALPHA}", Text("\N{GREEK SMALL LETTER ALPHA}")),
    (b"hello", Octets(b"hello")),
    (Decimal("2.5"), Money("2.5"), CloseToWhole(2.5)),
    (UUID(int=7), Key(int=7)),
    (datetime(2024, 2, 29, 12, 30), Instant(2024, 2, 29, 12, 30), datetime(2024, 2, 29, 12, 30, fold=1)),
    (datetime(2024, 2, 29, 12, tzinfo=UTC), datetime(2024, 2, 29, 14, tzinfo=timezone(timedelta(hours=2)))),
    ((1, "a"), (1.0, "a"), (True, "a")),
    (Point(1, 2), (1, 2)),
    ([1, 2], Row([1, 2])),
]


@pytest.mark.guarantee("GRP-2")
@pytest.mark.parametrize("values", EQUAL, ids=[repr(values)[:50] for values in EQUAL])
def test_equal_values_hash_equally(values: tuple[object, ...]) -> None:
    assert all(one == values[0] for one in values)
    assert len({stable_hash(value) for value in values}) == 1


@pytest.mark.guarantee("GRP-2")
@given(NUMBERS, NUMBERS)
def test_equal_numbers_hash_equally(one: complex, other: complex) -> None:
    if one == other:
        assert stable_hash(one) == stable_hash(other)
    elif not (isinstance(one, int) or isinstance(other, int)):
        assert stable_hash(one) != stable_hash(other) or one != one


@pytest.mark.guarantee("GRP-2")
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_hashes_like_the_decimal_and_the_integer_that_it_equals(number: float) -> None:
    assert stable_hash(Decimal(number)) == stable_hash(number)
    assert stable_hash(int(number)) == stable_hash(float(int(number)))


@pytest.mark.guarantee("GRP-2")
@given(st.text())
def test_text_has_the_same_hash_with_any_width_in_memory(text: str) -> None:
    once_wide = ("\N{GRINNING FACE}" + text)[1:]
    assert stable_hash(text) == stable_hash(once_wide) == stable_hash(Text(text))


@pytest.mark.guarantee("GRP-2")
@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=OFFSETS), OFFSETS)
def test_the_same_instant_has_the_same_hash_in_every_time_zone(time: datetime, zone: timezone) -> None:
    assert stable_hash(time) == stable_hash(time.astimezone(zone))


class Autumn(tzinfo):
    """A zone whose offset depends on `fold`, as in the hour that is repeated when summer time ends."""

    def utcoffset(self, time: datetime | None) -> timedelta:
        return timedelta(hours=1 if time is not None and time.fold else 2)

    def dst(self, time: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, time: datetime | None) -> str:
        return "autumn"


@pytest.mark.guarantee("GRP-2")
def test_times_that_only_differ_in_fold_are_equal_and_hash_equally() -> None:
    zone = Autumn()
    first, second = datetime(2024, 10, 27, 2, 30, tzinfo=zone), datetime(2024, 10, 27, 2, 30, tzinfo=zone, fold=1)
    assert first == second
    assert stable_hash(first) == stable_hash(second)


def test_every_nan_has_the_same_hash() -> None:
    kinds = [NAN, -NAN, float("-nan"), Decimal("NaN"), Decimal("sNaN"), Decimal("NaN123"), CloseToWhole("nan")]
    assert len({stable_hash(value) for value in kinds}) == 1


def test_different_values_hash_differently() -> None:
    values = [
        None, 0, 1, -1, 2, 0.5, INFINITY, -INFINITY, NAN, "", "0", "1", b"", b"0", (), (None, None), (0, 0), (0, 1), (1, 0), ((0, 0), 0),
        (0, (0, 0)), (0, 0, 0), UUID(int=0), UUID(int=1), Colour.RED, Colour.BLUE, Access(0), Access.READ, Access.READ | Access.WRITE,
        datetime(1, 1, 1), datetime(1, 1, 1, tzinfo=UTC), "a", "aa", "a\0", "\0", "\0\0", "\ud800", "\ud83d\ude00", "\U0001f600",
    ]
    assert len({stable_hash(value) for value in values}) == len(values)


# ---- tuples and fields -----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("CP-9")
@given(VALUES)
def test_a_tuple_or_list_with_one_item_has_the_hash_of_the_item(value: object) -> None:
    assert stable_hash((value,)) == stable_hash([value]) == stable_hash(((value,),)) == stable_hash(value)


@given(st.lists(VALUES, max_size=4))
def test_a_list_has_the_hash_of_a_tuple(items: list[object]) -> None:
    assert stable_hash(items) == stable_hash(tuple(items))


@pytest.mark.guarantee("GRP-2")
@given(st.data())
def test_the_hash_of_several_fields_is_that_of_their_tuple(data: st.DataObject) -> None:
    values = tuple(data.draw(st.lists(VALUES, min_size=1, max_size=5)))
    positions = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=4))
    assert stable_hash_fields(values, positions) == stable_hash(tuple(values[position] for position in positions))


def test_a_position_behind_the_last_value_raises() -> None:
    with pytest.raises(IndexError):
        stable_hash_fields(("a",), [0, 1])


# ---- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("GRP-2")
@given(VALUES, st.integers(1, 2**32 - 1))
def test_the_key_group_equals_the_models(value: object, key_groups: int) -> None:
    group = key_group(value, key_groups)
    assert 0 <= group < key_groups
    assert group == model_group(model_hash(value), key_groups)


@pytest.mark.parametrize("key_groups", [0, -1, 2**32])
def test_a_number_of_groups_out_of_range_is_refused(key_groups: int) -> None:
    with pytest.raises(ValueError, match=f"key_groups is {key_groups}"):
        key_group("a", key_groups)


class Multiple(Customer):
    """A poor hash: always a multiple of the number of groups."""

    def __stable_hash__(self) -> int:
        return self.number * 128


KEY_SETS: dict[str, Iterable[object]] = {
    "counted": range(25_600),
    "multiples of 128": range(0, 128 * 25_600, 128),
    "high bits": [number << 32 for number in range(25_600)],
    "tenths": [number / 10 for number in range(25_600)],
    "three letters": ["".join(letters) for letters in product("abcdefghijklmnopqrstuvwxyz", repeat=3)],
    "user names": [f"user-{number:06d}" for number in range(25_600)],
    "addresses": [f"https://example.org/items/{number}/reviews" for number in range(25_600)],
    "pairs": list(product(range(160), range(160))),
    "minutes": [datetime(2024, 1, 1) + timedelta(minutes=number) for number in range(25_600)],
    "uuids": [UUID(int=number) for number in range(25_600)],
    "poor hashes": [Multiple(number) for number in range(25_600)],
}


@pytest.mark.parametrize("keys", KEY_SETS.values(), ids=KEY_SETS)
def test_keys_spread_evenly_over_the_groups(keys: Iterable[object]) -> None:
    filled = Counter(key_group(key, 128) for key in keys)
    expected = filled.total() / 128
    chi_square = sum((filled[group] - expected) ** 2 / expected for group in range(128))
    assert chi_square < 127 + 5 * (2 * 127) ** 0.5     # mean and five standard deviations


def test_hashing_leaves_no_reference_behind() -> None:
    values: list[object] = ["\ud800 lone" * 3, ("a", 1.5), [Text("b")], Decimal("1.5"), Customer(1), Level.LOW]
    before = [sys.getrefcount(value) for value in values]
    for value in values * 10:
        stable_hash(value)
    del value
    assert [sys.getrefcount(value) for value in values] == before
