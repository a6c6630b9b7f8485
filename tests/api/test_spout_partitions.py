"""What spouts know about their partitions, for event time: those that know nothing, and one of a user (ET-3)."""

from collections.abc import AsyncIterator, Collection, Hashable, Iterator
from typing import Any

import pytest

from engine import BurstSpout, FlowControlSpout, FlowProducer, Inlet, Spout, SpoutExhausted, TopologyBuilder, spout
from engine.testing import Capture, Feeder, RaiseError, replaced, run_topology

pytestmark = pytest.mark.guarantee("ET-3")


@spout("number")
def numbers() -> Iterator[tuple[int]]:
    yield (1,)


@spout("number", repeatable=True)
def repeatable() -> Iterator[tuple[int]]:
    yield (1,)


@spout("number", positions=True)
def with_positions(after: Any) -> Iterator[Any]:
    yield 1, (1,)


@spout("number", burst=True)
async def bursts() -> AsyncIterator[list[tuple[int]]]:
    yield [(1,)]


class Records(FlowProducer):
    def records(self, after: Any) -> Iterator[Any]:
        yield 1, "record"


@pytest.mark.parametrize(
    "made",
    [Inlet("number"), numbers, repeatable, with_positions, bursts, Feeder("number"), FlowControlSpout(Records())],
    ids=["Inlet", "generator", "repeatable", "positions", "bursts", "Feeder", "FlowControlSpout"],
)
def test_these_sources_have_no_partitions_and_never_know_their_end(made: Any) -> None:
    source: Spout = made if isinstance(made, Spout) else made.create()
    assert source.partitions() is None
    assert source.partition_of(1) is None
    assert source.caught_up() is None


class Rooms(BurstSpout):
    """A source with a partition for each room, which it does not know before its first poll."""

    output_fields = "temperature"

    def __init__(self, told: list[tuple[Any, ...]]) -> None:
        self._told = told
        self._left: dict[str, list[int]] | None = None

    def open(self) -> None:
        self._tell()

    def _tell(self) -> None:
        found = self.partitions()
        self._told.append((sorted(map(str, found)), {str(one): self.caught_up(one) for one in found}, self.caught_up()))

    def partitions(self) -> Collection[Hashable]:
        return self.UNKNOWN_PARTITIONS if self._left is None else self._left.keys()

    def partition_of(self, message_id: tuple[str, int]) -> str:
        return message_id[0]

    def caught_up(self, partition: Hashable = None) -> bool:
        if self._left is None or partition is None:
            return self._left is not None and not any(self._left.values())
        return not self._left[str(partition)]

    def next_tuples(self, limit: int) -> None:
        if self._left is None:
            self._left = {"attic": [], "cellar": [12, 13]}
        elif self.caught_up():
            raise SpoutExhausted
        else:
            value = self._left["cellar"].pop(0)
            self.collector.emit((value,), ("cellar", value))
        self._tell()


def test_wrappers_for_tests_pass_them_on() -> None:
    """Given a topology whose source is replaced, and whose calls are counted for a fault, then the new source answers itself."""
    told: list[tuple[Any, ...]] = []
    sink = Capture()
    builder = TopologyBuilder("example")
    builder.set_spout("rooms", Feeder("temperature"))
    builder.set_bolt("sink", sink).shuffle_grouping("rooms")
    topology = replaced(builder.build(), "rooms", lambda: Rooms(told))
    run_topology(topology, faults=[RaiseError("rooms", at_call=2)])
    unknown = "partitions that are not known yet"
    assert told == [
        ([unknown], {unknown: False}, False),
        (["attic", "cellar"], {"attic": True, "cellar": False}, False),
        (["attic", "cellar"], {"attic": True, "cellar": False}, False),
        (["attic", "cellar"], {"attic": True, "cellar": True}, True),
    ]
    assert sink.values == [(12,), (13,)]
