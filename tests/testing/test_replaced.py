"""`replaced` puts a feeder for a source, or a capture for a sink, into a finished topology."""

import pytest

from engine import BasicBolt, Spout, Topology, TopologyBuilder, TopologyError, Tuple, UsageError
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
