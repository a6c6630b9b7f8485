"""Rows of the tuples of a source, for each kind of row type."""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import pytest

from engine import Fields, TopologyError
from engine.streams import Flow, RowMisfit
from engine.streams.readers import reader
from engine.testing import Feeder
from tests.streams.flows import Click, run


class Pair(NamedTuple):
    first: str
    second: int = 0


@dataclass
class PairClass:
    first: str
    second: int = 0

    def __post_init__(self) -> None:
        if self.first == "bad":
            raise ValueError("a bad one")


class PairDict(TypedDict):
    first: str
    second: int


@pytest.mark.parametrize(
    ("row_type", "fields", "values", "expected"),
    [
        (Pair, ("first", "second"), [("a", 1), ("b", 2)], [Pair("a", 1), Pair("b", 2)]),
        (Pair, ("second", "first"), [(1, "a")], [Pair("a", 1)]),
        (Pair, ("second", "other", "first"), [(1, None, "a")], [Pair("a", 1)]),
        (Pair, ("first", "other"), [("a", 9)], [Pair("a", 0)]),
        (Pair, ("first",), [("a",)], [Pair("a", 0)]),
        (Pair, ("first",), [("a",), (Pair("b", 2),)], [Pair("a", 0), Pair("b", 2)]),
        (Pair, ("value",), [(Pair("a", 1),)], [Pair("a", 1)]),
        (PairClass, ("second", "first"), [(1, "a")], [PairClass("a", 1)]),
        (PairClass, ("value",), [(PairClass("a", 1),)], [PairClass("a", 1)]),
        (PairDict, ("first", "second"), [("a", 1)], [{"first": "a", "second": 1}]),
        (PairDict, ("value",), [({"first": "a", "second": 1},)], [{"first": "a", "second": 1}]),
        (str, ("line",), [("a",)], ["a"]),
        (list[int], ("numbers",), [([1],)], [[1]]),
        (int, ("number",), [(True,)], [True]),
        (Any, ("line",), [("a",), (1,)], ["a", 1]),
        (Any, ("first", "second"), [("a", 1)], [("a", 1)]),
    ],
)
def test_values_become_rows(row_type: Any, fields: tuple[str, ...], values: list[tuple[Any, ...]], expected: list[Any]) -> None:
    rows = reader("source 's'", row_type, fields)(values)
    assert rows == expected
    assert list(map(type, rows)) == list(map(type, expected))


@pytest.mark.parametrize(
    ("row_type", "fields", "values", "error"),
    [
        (str, ("line",), (7,), r"source 's': field 'line' is 7 \(int\), which is no str"),
        (PairClass, ("value",), ("a",), r"source 's': field 'value' is 'a' \(str\), which is no PairClass"),
        (PairClass, ("first", "second"), ("bad", 1), r"source 's': \('bad', 1\) is no PairClass: a bad one"),
        (PairDict, ("value",), ("a",), r"source 's': field 'value' is 'a' \(str\), which is no dict"),
    ],
)
def test_a_misfit_is_named_with_its_source_field_and_value(
    row_type: Any, fields: tuple[str, ...], values: tuple[Any, ...], error: str
) -> None:
    with pytest.raises(RowMisfit, match=error):
        reader("source 's'", row_type, fields)([values])


def test_a_pydantic_model_converts_the_values() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Visit", user=(str, ...), ms=(int, 0))
    assert reader("source 's'", model, ("user", "ms"))([("ada", "7")]) == [model(user="ada", ms=7)]
    with pytest.raises(RowMisfit, match=r"source 's': \(1, 2\) is no Visit: 1 validation error"):
        reader("source 's'", model, ("user", "ms"))([(1, 2)])


@pytest.mark.guarantee("TF-2")
@pytest.mark.parametrize(
    ("row_type", "fields", "error"),
    [
        (Click, ("user", "pgae"), r"source 'clicks': stream 'default' has no field 'page' for Click \(it has: user, pgae\). Did you"),
        (str, ("user", "page"), r"source 'clicks': stream 'default' has the fields user, page, which are no str"),
    ],
)
def test_fields_that_make_no_row_are_a_fault_of_the_topology(row_type: Any, fields: tuple[str, ...], error: str) -> None:
    flow = Flow("faults")
    flow.stream("clicks", Feeder(*fields), row_type).sink("end", print)
    with pytest.raises(TopologyError, match=error):
        flow.topology()


def test_two_streams_of_one_spout_are_one_component() -> None:
    feeder = Feeder(streams={"default": Fields("line"), "numbers": Fields("number")})
    feeder.feed(("a",))
    feeder.feed((7,), "numbers")
    feeder.close()
    flow, lines, numbers = Flow("streams"), list[str](), list[int]()
    flow.stream("source", feeder, str).sink("lines", lines.append)
    flow.stream("source", feeder, int, stream="numbers").sink("numbers", numbers.append)
    run(flow)
    assert (lines, numbers) == (["a"], [7])
