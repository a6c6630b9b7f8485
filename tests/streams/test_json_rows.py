"""`json_of`: JSON into typed rows, and what it refuses."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import pytest

from engine import TopologyError
from engine.streams import Failed, Flow, RowMisfit, json_of
from engine.streams.shapes import as_stored, converter
from engine.testing import Feeder
from tests.streams.flows import run


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Point(NamedTuple):
    x: float
    y: float = 0.0


@dataclass(frozen=True)
class Order:
    id: UUID
    at: datetime
    total: Decimal
    size: Size
    points: list[Point] = field(default_factory=list)
    note: str | None = None
    tags: frozenset[str] = frozenset()
    pair: tuple[int, str] = (0, "")
    sizes: Mapping[str, Size] = field(default_factory=dict)
    kind: Literal["new", "old"] = "new"
    day: date | None = None
    clock: time | None = None
    took: timedelta = timedelta()
    extra: Any = None


class Seen(TypedDict):
    user: str
    page: NotRequired[str]


FULL = Order(
    UUID(int=7),
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    Decimal("1.10"),
    Size.LARGE,
    [Point(1.0, 2.0), Point(3.0)],
    "hi",
    frozenset({"a"}),
    (1, "b"),
    {"big": Size.LARGE},
    "old",
    date(2026, 1, 2),
    time(3, 4),
    timedelta(seconds=1.5),
    {"any": [1]},
)
TEXT = (
    '{"id": "00000000-0000-0000-0000-000000000007", "at": "2026-01-02T03:04:05Z", "total": "1.10", "size": "l", '
    '"points": [{"x": 1, "y": 2.0}, {"x": 3.0, "z": 1}], "note": "hi", "tags": ["a"], "pair": [1, "b"], "sizes": {"big": "l"}, '
    '"kind": "old", "day": "2026-01-02", "clock": "03:04", "took": 1.5, "extra": {"any": [1]}, "unknown": 1}'
)


def test_every_field_becomes_its_type() -> None:
    assert json_of(Order)(TEXT.encode()) == FULL
    assert json_of(Order)(TEXT) == FULL


def test_a_stored_row_becomes_the_same_row() -> None:
    assert converter(Order, "stored")(as_stored(FULL)) == FULL


def test_missing_fields_get_their_defaults() -> None:
    assert json_of(Point)("""{"x": 1}""") == Point(1.0, 0.0)
    assert json_of(Seen)("""{"user": "ada"}""") == {"user": "ada"}
    assert json_of(Sequence[int])("[1, 2]") == [1, 2]


@pytest.mark.parametrize(
    ("row_type", "text", "error"),
    [
        (Point, "{", "is no JSON of a Point"),
        (Point, "[1]", r"'\[1\]' is no Point: the value is \[1\] \(list\), which is no object with the fields of Point"),
        (Point, "{}", r"the value is \{\} \(dict\), which is no Point, since it has no 'x'"),
        (Point, '{"x": "1"}', r"field 'x' is '1' \(str\), which is no float"),
        (Point, '{"x": true}', r"field 'x' is True \(bool\), which is no float"),
        (Seen, '{"user": null}', r"field 'user' is None \(NoneType\), which is no str"),
        (Order, TEXT.replace('"x": 3.0', '"x": "far"'), r"field 'points.1.x' is 'far' \(str\), which is no float"),
        (Order, TEXT.replace('"size": "l"', '"size": "xl"'), r"field 'size' is 'xl' \(str\), which is no value of Size"),
        (Order, TEXT.replace('"kind": "old"', '"kind": "odd"'), r"field 'kind' is 'odd' \(str\), which is no Literal\['new', 'old'\]"),
        (Order, TEXT.replace("03:04:05Z", "never"), r"field 'at' is '2026-01-02Tnever' \(str\), which is no text of a datetime"),
        (Order, TEXT.replace('"note": "hi"', '"note": 7'), r"field 'note' is 7 \(int\), which is no str \| None"),
        (Order, TEXT.replace('[1, "b"]', "[1]"), r"field 'pair' is \[1\] \(list\), which is no tuple of 2 items"),
        (Order, TEXT.replace('{"big": "l"}', '{"big": 1}'), r"field 'sizes.big' is 1 \(int\)"),
        (int, "true", r"'true' is no int: the value is True \(bool\), which is no int"),
    ],
)
def test_a_misfit_is_named_with_its_field_and_value(row_type: Any, text: str, error: str) -> None:
    with pytest.raises(RowMisfit, match=error):
        json_of(row_type)(text)


def test_it_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(json_of(Point)))(b'{"x": 1}') == Point(1.0)


def test_a_pydantic_model_checks_itself() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Visit", user=(str, ...), ms=(int, 0))
    assert json_of(model)('{"user": "ada", "ms": "7"}') == model(user="ada", ms=7)
    with pytest.raises(RowMisfit, match=r"is no Visit: 1 validation error"):
        json_of(model)('{"user": 1}')


def test_a_source_decodes_its_value() -> None:
    flow, points, bad = Flow("values"), list[Point](), list[Failed[dict[str, Any]]]()
    feeder = Feeder("offset", "value")
    feeder.feed_all([(0, b'{"x": 1}'), (1, b"{}"), (2, b'{"x": 3, "y": 2}')])
    feeder.close()
    source = flow.stream("points", feeder, Point, value=json_of(Point), divert=True)
    source.sink("points-end", points.append)
    source.failed.sink("bad", bad.append)
    run(flow)
    assert points == [Point(1.0), Point(3.0, 2.0)]
    ((row, error, _, stage),) = bad
    assert (row, stage) == ({"offset": 1, "value": b"{}"}, "points")
    assert error.startswith("RowMisfit: source 'points': field 'value': b'{}' is no Point: the value is {} (dict)")


def test_a_source_without_a_value_is_a_fault() -> None:
    flow = Flow("values")
    flow.stream("points", Feeder("x", "y"), Point, value=json_of(Point)).sink("end", print)
    with pytest.raises(TopologyError, match=r"source 'points': stream 'default' has no field 'value', of which value=... could make a row"):
        flow.topology()
