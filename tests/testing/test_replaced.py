"""`replaced` puts a feeder for a source, or a capture for a sink, into a finished topology."""

from collections.abc import Iterator

import pytest

from engine import BasicBolt, Spout, StatefulBasicBolt, Topology, TopologyBuilder, TopologyError, Tuple, UsageError, spout
from engine.testing import Capture, Feeder, replaced, run_topology


class Unreachable(Spout):
    output_fields = "number"

    def open(self) -> None:
        raise AssertionError("this source is not for tests")

    def next_tuple(self) -> None:
        """Never called."""


class Double(BasicBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        return (2 * tup["number"],)


class Store(BasicBolt):
    def execute(self, tup: Tuple) -> None:
        raise AssertionError("this sink is not for tests")


def topology() -> Topology:
    builder = TopologyBuilder("production")
    builder.set_spout("source", Unreachable)
    builder.set_bolt("double", Double, parallelism=2).shuffle_grouping("source")
    builder.set_bolt("store", Store, parallelism=3).fields_grouping("double", "number")
    return builder.build()


def test_source_and_sink_are_replaced_and_the_rest_runs() -> None:
    source, sink = Feeder("number"), Capture()
    source.feed_all([(1,), (2,), (3,)])
    source.close()
    original = topology()
    run_topology(replaced(replaced(original, "source", source), "store", sink))
    assert sorted(sink.values) == [(2,), (4,), (6,)]
    assert sorted(source.acked, key=str) == [1, 2, 3]
    assert original.components["store"].streams == {}
    assert {arrival.task_id for arrival in sink.arrivals} <= {4, 5, 6}


def test_an_unsuitable_replacement_is_refused() -> None:
    with pytest.raises(UsageError, match="Did you mean 'source'"):
        replaced(topology(), "sourc", Feeder("number"))
    with pytest.raises(TopologyError, match="is a spout"):
        replaced(topology(), "store", Unreachable)
    with pytest.raises(TopologyError, match="has no stream 'default'"):
        replaced(topology(), "double", Capture())


def test_an_exact_source_is_replaced_by_one_that_cannot_rewind() -> None:
    class Rewinds(Unreachable):
        def seek(self, position: int | None) -> None:
            """Never called."""

        def position(self) -> int:
            return 0

    @spout("number")
    def numbers() -> Iterator[tuple[int]]:
        yield (3,)

    class Keep(StatefulBasicBolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> tuple[int]:
            return (tup["number"],)

    builder, sink = TopologyBuilder("exact"), Capture()
    builder.set_spout("source", Rewinds)
    builder.set_bolt("keep", Keep).shuffle_grouping("source")
    builder.set_bolt("sink", sink).shuffle_grouping("keep")
    assert run_topology(replaced(builder.build(), "source", numbers)).state == "complete"
    assert sink.values == [(3,)]
