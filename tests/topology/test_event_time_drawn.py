"""Drawings say how a source with event times becomes idle (ET-3)."""

from collections.abc import Callable, Hashable, Iterator
from datetime import timedelta

import pytest

from engine import Spout, Topology, TopologyBuilder, spout
from engine.event_time import EventTime
from engine.topology import graph


class Known(Spout):
    """Knows whether it is read to its end."""

    output_fields = "at"
    event_time = EventTime("at", idle_secs=3)

    def caught_up(self, partition: Hashable = None) -> bool:
        return True

    def next_tuple(self) -> None:
        """Emit nothing."""


@spout("at")
def silent() -> Iterator[tuple[int]]:
    yield (1,)


@pytest.mark.guarantee("ET-3")
@pytest.mark.parametrize("draw", [graph.mermaid, graph.dot, graph.svg])
def test_a_drawing_says_how_a_source_becomes_idle(draw: Callable[[Topology], str]) -> None:
    builder = TopologyBuilder("drawn")
    builder.set_spout("known", Known)
    builder.set_spout("silent", silent, event_time=EventTime("at", max_out_of_order=timedelta(seconds=10)))
    builder.set_spout("plain", silent)
    text = draw(builder.build())
    assert "event time: at; idle by knowledge after 3 s" in text
    assert "event time: at, 10 s out of order; idle by silence after 10 s" in text
    assert text.count("event time") == 2
