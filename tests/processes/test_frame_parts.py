"""A frame with a value that cannot be loaded is read part by part (PR-1)."""

import collections
import copyreg
import datetime
import decimal
import enum
import functools
import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from engine.runtime.processes.frame_parts import load, taken_apart
from tests.processes.bolts import Unreadable


class Colour(enum.Enum):
    RED = 1


@dataclass
class Point:
    x: Any
    y: Any = None


@dataclass(frozen=True, slots=True)
class Frozen:
    x: Any


class Numbers(list[Any]):
    pass


class Named:
    def __new__(cls, *, name: str) -> "Named":
        made = object.__new__(cls)
        made.name = name
        return made

    name: str

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, str]]:
        return (), {"name": self.name}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class Odd:
    """A value whose state is set by a function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Odd, (), {"number": 1}, None, None, vars(Odd)["set_number"]

    def set_number(self, state: Any) -> None:
        pass


VALUES = [
    7, "text", b"bytes", None, 1.5, True, ..., (), [1, [2]], {"a": {"b": 1}}, {1, 2}, bytearray(b"x"), complex(1, 2), range(5),
    datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), decimal.Decimal("1.5"), collections.OrderedDict(a=1), collections.deque([1, 2], 5),
    collections.defaultdict(list, a=[1]), collections.Counter("aab"), frozenset([Frozen(3)]), {Frozen(1): Point(2)}, Colour.RED,
    Point(1, Point(2)), Frozen(1), Numbers([1, Point(2)]), Named(name="n"), Point, len,
]  # fmt: skip


def message_with(*rows: Any) -> Any:
    return taken_apart(pickle.dumps(("emits", [(("default", None), list(rows), [0] * len(rows))]), 5))


@pytest.mark.guarantee("PR-1")
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_beside_a_guilty_one_are_as_they_were(value: Any) -> None:
    _, [(target, rows, anchors)] = message_with((1, Unreadable(), value), (2, value, "shared", [value]))
    loaded = load(rows[1])
    assert loaded == (2, value, "shared", [value])
    assert type(loaded[1]) is type(value)
    assert (target, anchors) == (("default", None), [0, 0])
    with pytest.raises(ValueError, match="made by another version"):
        load(rows[0])


@pytest.mark.guarantee("PR-1")
def test_attributes_and_circles_stay() -> None:
    numbers = Numbers([1])
    numbers.unit = "m"  # type: ignore[attr-defined]
    circle = Point(1)
    circle.y = [circle]
    _, [(_, rows, _)] = message_with((Unreadable(),), (numbers, circle, functools.partial(int, base=2)))
    numbers, circle, binary = load(rows[1])
    assert (numbers, numbers.unit) == ([1], "m")
    assert circle.y[0] is circle
    assert binary("101") == 5


@pytest.mark.guarantee("PR-1")
def test_a_guilty_row_can_be_shown() -> None:
    _, [(_, rows, _)] = message_with((1, Unreadable(), Point(1), ("a",)))
    assert repr(rows[0]) == "(1, _raise(), Point({'x': 1, 'y': None}), ('a',))"


@pytest.mark.guarantee("PR-1", "PR-2")
def test_other_messages_arrive_as_a_whole() -> None:
    assert taken_apart(pickle.dumps(("changes", {1: Unreadable()}), 5)) is None
    assert message_with((Unreadable(),), (Odd(),)) is None, "its state would be lost"
    assert taken_apart(b"no pickle") is None


@pytest.mark.guarantee("PR-1")
def test_no_stand_in_gets_into_the_cache_of_extension_codes() -> None:
    copyreg.add_extension(Point.__module__, "Point", 77)
    try:
        assert message_with((Unreadable(),), (Point(1),)) is None
        assert pickle.loads(pickle.dumps(Point(1), 5)) == Point(1)
    finally:
        copyreg.remove_extension(Point.__module__, "Point", 77)
