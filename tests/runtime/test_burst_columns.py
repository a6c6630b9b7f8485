"""Columns of a burst: the values of one field (BU-1)."""

from enum import StrEnum
from typing import Any

import pytest

from engine import Burst, BurstBolt, TopologyBuilder, UsageError
from engine.kernel import Burst as CompiledBurst
from engine.testing import Feeder, run_topology
from tests.runtime.test_bursts import NUMBERS, Doubles, Play


@pytest.mark.guarantee("BU-1")
def test_the_name_of_a_column_may_be_an_enum() -> None:
    class Field(StrEnum):
        NUMBER = "number"

    class Reads(Doubles):
        def execute_many(self, burst: Burst) -> None:
            self.seen += burst[Field.NUMBER]
            assert [value for _, value in burst.items(Field.NUMBER)] == burst["number"]
            with pytest.raises(TypeError, match=r"items\(\) takes the name of a field, not 3"):
                burst.items(3)  # type: ignore[arg-type]

    play = Play(Reads)
    assert (play.bolts[0].seen, play.failed) == (list(NUMBERS), [])


@pytest.mark.guarantee("BU-1")
def test_a_burst_of_something_else_is_a_type_error() -> None:
    """`execute` is for tests, which may pass a dict."""

    class Reads(BurstBolt):
        collector: Any = None

        def execute_many(self, burst: Burst) -> None:
            burst["word"]

    with pytest.raises(TypeError, match="dict"):
        Reads().execute({"word": "a"})  # type: ignore[arg-type]
    for read in (lambda burst: burst.fields, lambda burst: burst.is_tick, lambda burst: list(burst.items("word"))):
        with pytest.raises(TypeError, match="int"):
            read(CompiledBurst([1], None))  # type: ignore[list-item]


@pytest.mark.guarantee("BU-1")
def test_columns_of_streams_with_different_fields() -> None:
    found: list[Any] = []

    class Reads(BurstBolt):
        def execute_many(self, burst: Burst) -> None:
            found.append((burst["b"], [tup.values for tup in burst], burst.rows, burst[0]["b"], len(burst[1:])))
            with pytest.raises(UsageError, match=r"(?s)'bb'.*'b'"):
                burst["bb"]

    left, right = Feeder("a", "b"), Feeder("b")
    builder = TopologyBuilder("columns")
    builder.set_spout("left", left)
    builder.set_spout("right", right)
    builder.set_bolt("reads", Reads).shuffle_grouping("left").shuffle_grouping("right")
    left.feed((1, 2)), left.feed((3, 4))
    right.feed((5,))
    left.close(), right.close()
    run_topology(builder.build())
    [(column, values, rows, first, others)] = found
    assert sorted(column) == [2, 4, 5]
    assert values == rows
    assert (first, others) == (column[0], 2)
