"""Tuples from one task to another arrive in order, on all streams and with full mailboxes (GRP-4)."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import BasicBolt, Bolt, Config, Fields, Spout, SpoutExhausted, TopologyBuilder, Tuple
from engine.testing import run_topology
from engine.topology import BoltDeclarer

pytestmark = pytest.mark.guarantee("GRP-4")

STREAMS = ("default", "red", "green")
Heard = dict[tuple[int, int], list[int]]
"""By (source task, target task), the numbers that came, in order."""


class Sends(Spout):
    """Emits numbers on random streams, several a poll."""

    output_fields = {stream: Fields("number", "key") for stream in STREAMS}

    def __init__(self, count: int, burst: int) -> None:
        self.left, self.burst = count, burst

    def next_tuple(self) -> None:
        if self.left <= 0:
            raise SpoutExhausted
        chance = self.context.random
        for _ in range(self.burst):
            self.left -= 1
            self.collector.emit((-self.left, chance.randrange(5)), self.left, chance.choice(STREAMS))


class Relays(Bolt):
    """Numbers its emits, on random streams, anchored or not."""

    output_fields = {stream: Fields("number", "key") for stream in STREAMS}

    def prepare(self) -> None:
        self.sent = 0

    def execute(self, tup: Tuple) -> None:
        for _ in range(self.context.random.randrange(3)):
            self.sent += 1
            anchors = tup if self.context.random.random() < 0.7 else None
            self.collector.emit((self.sent, tup["key"]), anchors, self.context.random.choice(STREAMS))
        self.collector.ack(tup)


class Hears(Bolt):
    """Records its inputs by source task."""

    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    def note(self, tup: Tuple) -> None:
        self.heard[tup.source_task, self.context.task_id].append(tup["number"])

    def execute(self, tup: Tuple) -> None:
        self.note(tup)
        self.collector.ack(tup)


class HearsSlowly(Hears):
    """Records its inputs, and is slow for some."""

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        self.note(tup)
        if self.context.random.random() < 0.2:
            await asyncio.sleep(self.context.random.random() / 10)
        self.collector.ack(tup)


class HearsBasically(BasicBolt):
    """Records its inputs like Hears, as a BasicBolt."""

    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    def execute(self, tup: Tuple) -> None:
        self.heard[tup.source_task, self.context.task_id].append(tup["number"])


GROUPINGS: list[Callable[[BoltDeclarer, str, str], object]] = [
    lambda bolt, source, stream: bolt.shuffle_grouping(source, stream),
    lambda bolt, source, stream: bolt.fields_grouping(source, "key", stream=stream),
    lambda bolt, source, stream: bolt.all_grouping(source, stream),
    lambda bolt, source, stream: bolt.global_grouping(source, stream),
    lambda bolt, source, stream: bolt.partial_key_grouping(source, "key", stream=stream),
    lambda bolt, source, stream: bolt.load_aware_grouping(source, stream),
]


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), hears=st.sampled_from([Hears, HearsSlowly, HearsBasically]))
def test_every_pair_of_tasks_keeps_its_order(seed: int, hears: Any) -> None:
    chance, heard = random.Random(seed), defaultdict[tuple[int, int], list[int]](list)
    builder = TopologyBuilder("order")
    burst = chance.choice([1, 3, 20])
    builder.set_spout("sends", lambda: Sends(60, burst), parallelism=chance.randint(1, 2))
    relays = builder.set_bolt("relays", Relays, parallelism=chance.randint(1, 3))
    listens = builder.set_bolt("hears", lambda: hears(heard), parallelism=chance.randint(1, 3))
    for stream in STREAMS:
        chance.choice(GROUPINGS)(relays, "sends", stream)
        chance.choice(GROUPINGS)(listens, "relays", stream)
        if chance.random() < 0.5:
            chance.choice(GROUPINGS)(listens, "sends", stream)
    config = Config(
        executor_receive_buffer_size=chance.choice([2, 3, 8, 1000]),
        burst=chance.choice([1, 7, 256]),
        acker_executors=chance.choice([0, 1, 3]),
    )
    finished = run_topology(builder.build(), config, seed=seed, shuffle=True)
    assert finished.state == "complete"
    assert finished.errors == ()
    for pair, numbers in heard.items():
        assert numbers == sorted(numbers), pair
    assert sum(map(len, heard.values())) == finished.snapshot.components["hears"].executed


def test_the_order_is_kept_after_the_death_of_the_receiving_instance() -> None:
    heard: Heard = defaultdict(list)

    class HearsUntilItDies(Hears):
        def execute(self, tup: Tuple) -> None:
            if tup["number"] % 13 == 0:
                raise ValueError("thirteen")
            super().execute(tup)

    builder = TopologyBuilder("deaths")
    builder.set_spout("sends", lambda: Sends(100, 10))
    hears = builder.set_bolt("hears", lambda: HearsUntilItDies(heard))
    for stream in STREAMS:
        hears.shuffle_grouping("sends", stream=stream)
    finished = run_topology(builder.build(), Config(executor_receive_buffer_size=4, on_error="restart"), shuffle=True)
    assert finished.snapshot.components["hears"].restarts == 8
    [numbers] = heard.values()
    assert numbers == [-left for left in reversed(range(100)) if left % 13]
