"""What a Kafka spout knows about its partitions, for event time: which it has, and which are read to their end (ET-3)."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.protocol.fetch import FetchResponse_v4

import engine
from engine import Config, Run, Spout, TopologyBuilder
from engine.kafka import KafkaSpout, KafkaSpoutConfig
from engine.kafka.client.log_ends import LogEnds
from engine.kafka.client.partition import PartitionId
from tests.kafka.exact_play import Told
from tests.kafka.play import Notes, Noting, gauges, produce, settings
from tests.servers.kafka_admin import create_topic
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("ET-3")

UNKNOWN = Spout.UNKNOWN_PARTITIONS


class Observed(KafkaSpout):
    """Notes the partition of each row at its emit."""

    def __init__(self, config: KafkaSpoutConfig, play: "Play") -> None:
        super().__init__(config)
        self.play = play

    def open(self) -> None:
        collector, spout = self.collector, self

        class Stamping:
            report_error = collector.report_error

            def emit(self, values: Any, message_id: Any = None, stream: str = "default") -> None:
                spout.play.stamped.append((values[0], spout.partition_of(message_id)))
                collector.emit(values, message_id, stream)

        self.collector = Stamping()  # type: ignore[assignment]
        super().open()
        assert self.partitions() == UNKNOWN
        assert self.caught_up() is False
        self.play.spouts.append(self)


class Play:
    """The spouts of one run, and the rows that they have emitted, each with its partition."""

    run: Run

    def __init__(self) -> None:
        self.notes = Notes()
        self.spouts: list[Observed] = []
        self.stamped: list[tuple[int, Hashable]] = []

    @property
    def spout(self) -> Observed:
        return self.spouts[-1]

    def ends(self) -> dict[Any, bool]:
        """Tell for each partition of the only task whether it is caught up."""
        return {partition: self.spout.caught_up(partition) for partition in self.spout.partitions()}

    async def until_ends(self, topic: str, *ends: bool) -> None:
        """Wait until the partitions 0, 1, ... of a topic are caught up, or are not."""
        wanted = {PartitionId(topic, number): end for number, end in enumerate(ends)}
        await self.notes.until(lambda: self.ends() == wanted)
        assert self.spout.caught_up() is all(ends)


@asynccontextmanager
async def observing(config: KafkaSpoutConfig, play: Play | None = None) -> AsyncIterator[Play]:
    play = play or Play()
    builder = TopologyBuilder("play")
    builder.set_spout("kafka", lambda: Observed(config, play))
    builder.set_bolt("notes", lambda: Noting(play.notes)).global_grouping("kafka")
    async with engine.run(builder.build(), Config(enable_message_timeouts=False)) as play.run:
        yield play
        await play.run.stop()


# Which partitions


async def test_silent_and_empty_partitions_are_caught_up(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=3)
    await produce(kafka, topic, range(10))
    async with observing(settings(kafka, topic)) as play:
        await play.until_ends(topic, True, True, True)
        assert play.notes.got == list(range(10))
        await produce(kafka, topic, [10], partition=2)
        await play.notes.until(lambda: len(play.notes.got) == 11)
        await play.until_ends(topic, True, True, True)
        assert play.stamped[-1] == (10, PartitionId(topic, 2))
        assert play.spout.caught_up(PartitionId(topic, 3)) is False, "this partition is not assigned"


async def test_a_rebalance_moves_partitions_and_holds_the_watermark_meanwhile(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    await produce(kafka, topic, [0])
    config = settings(kafka, topic, revoke_drain_ms=8000.0, rebalance_timeout_ms=20_000, heartbeat_interval_ms=100)
    first, second, third = Play(), Play(), Play()
    first.notes.hold = lambda value: True
    everything = {PartitionId(topic, 0), PartitionId(topic, 1)}
    async with observing(config, first):
        await first.until_ends(topic, True, True)
        async with observing(config, second):
            await first.notes.until(lambda: first.spout.partitions() == everything | UNKNOWN)  # it waits for the ack
            assert second.spout.partitions() == UNKNOWN
            assert [first.spout.caught_up(one) for one in (*everything, None)] == [False] * 3
            first.notes.release()
            await first.notes.until(lambda: [len(first.ends()), len(second.ends())] == [1, 1])
            await first.notes.until(lambda: first.spout.caught_up() and second.spout.caught_up())
            assert first.ends().keys() | second.ends().keys() == everything
            async with observing(config, third):  # of which two have one partition each, and one has none
                plays = [first, second, third]
                await first.notes.until(lambda: sorted(len(set(one.spout.partitions()) - UNKNOWN) for one in plays) == [0, 1, 1])
                await first.notes.until(lambda: all(one.spout.caught_up() for one in plays))
                assert set().union(*(one.ends() for one in plays)) == everything
                assert {len(one.ends()) for one in plays} == {0, 1}


async def test_a_partition_leaves_at_the_end_of_stop_at_end(kafka: str, new_topic: NewTopic) -> None:
    """Given a record in flight at the end, when it fails, then its partition is back until the record is emitted again."""
    topic = await new_topic(partitions=2)
    await produce(kafka, topic, range(5))
    config = settings(kafka, topic, stop_at_end=True, retry_initial_ms=500.0)
    play = Play()
    play.notes.hold = lambda value: value == 3
    async with observing(config, play):
        await play.notes.until(lambda: len(play.notes.got) == 5 and play.spout.partitions() == frozenset())
        assert play.spout.caught_up() is True
        collector, tup = play.notes.held.pop(3)
        collector.fail(tup)
        await play.until_ends(topic, False)
        await play.notes.until(lambda: play.notes.got[5:] == [3] and play.spout.partitions() == frozenset())


# What is not caught up


async def test_a_full_partition_is_not_caught_up(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    await produce(kafka, topic, range(100))
    config = settings(kafka, topic, max_uncommitted_offsets=20, max_poll_records=10, offset_commit_period_ms=100.0)
    play = Play()
    play.notes.hold = lambda value: True
    async with observing(config, play):
        await play.notes.until(lambda: gauges(play.run, "kafka_paused").get("0") == 1)
        await play.until_ends(topic, False, True)
        play.notes.hold = lambda value: False
        play.notes.release()
        await play.until_ends(topic, True, True)
        assert play.notes.got == list(range(100))


async def test_fetched_records_of_a_paused_spout_are_not_emitted(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    async with observing(settings(kafka, topic)) as play:
        await play.until_ends(topic, True, True)
        await play.run.deactivate()
        await produce(kafka, topic, [1], partition=1)
        await play.until_ends(topic, True, False)
        await play.run.activate()
        await play.until_ends(topic, True, True)
        assert play.notes.got == [1]


@pytest.mark.parametrize("on_failure", ["go_on", "stop_partition"])
async def test_a_record_that_waits_for_its_retry_is_not_caught_up(kafka: str, new_topic: NewTopic, on_failure: str) -> None:
    topic = await new_topic(partitions=2)
    await produce(kafka, topic, range(5), partition=1)
    play = Play()
    play.notes.fail_times = {2: 1}
    async with observing(settings(kafka, topic, retry_initial_ms=1500.0, on_failure=on_failure), play):
        await play.notes.until(lambda: play.notes.fail_times == {2: 0})
        await play.until_ends(topic, True, False)
        await play.until_ends(topic, True, True)
        assert play.notes.got.count(2) == 2


async def test_nothing_is_known_without_a_broker(own_broker: KafkaBroker) -> None:
    topic = await create_topic(own_broker.bootstrap, "silent", partitions=1)
    async with observing(settings(own_broker.bootstrap, topic)) as play:
        await play.until_ends(topic, True)
        own_broker.freeze()
        await play.until_ends(topic, False)  # when the answer is overdue
        own_broker.thaw()
        await play.until_ends(topic, True)
        await asyncio.to_thread(own_broker.kill)
        await play.until_ends(topic, False)


# Transactions


@pytest.mark.parametrize("ends", ["commit", "abort"])
async def test_an_open_transaction_is_behind_the_end(kafka: str, new_topic: NewTopic, ends: Literal["commit", "abort"]) -> None:
    """Given a transaction at the end that is open, and ends later, then the partition is caught up before, and behind its marker."""
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, [0])
    async with observing(settings(kafka, topic, isolation_level="read_committed")) as play:
        async with AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=topic) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"1", partition=0)
            await play.notes.until(lambda: gauges(play.run, "kafka_lag").get("0") == 1)
            await play.until_ends(topic, True)
            assert play.notes.got == [0]
            await (producer.commit_transaction() if ends == "commit" else producer.abort_transaction())
        got = [0, 1] if ends == "commit" else [0]
        await play.notes.until(lambda: play.notes.got == got and gauges(play.run, "kafka_position").get("0") == 3)
        await play.until_ends(topic, True)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
async def test_a_log_that_ends_with_an_aborted_transaction_is_caught_up(kafka: str, new_topic: NewTopic, isolation: str) -> None:
    topic = await new_topic(partitions=1)
    async with AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=topic) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"0", partition=0)
        await producer.abort_transaction()
    async with observing(settings(kafka, topic, isolation_level=isolation)) as play:
        await play.until_ends(topic, True)
        assert play.notes.got == ([] if isolation == "read_committed" else [0])


def fetched(ends: LogEnds, *rows: tuple[int, int, int, int, bytes], code: int = 0) -> None:
    """Note an answer, now. Rows: partition, fetched offset, high watermark, last stable offset, records."""
    request = SimpleNamespace(topics=[("t", [(number, offset, 1024) for number, offset, *_ in rows])])
    answer = FetchResponse_v4(0, [("t", [(number, code, high, stable, [], records) for number, _, high, stable, records in rows])])
    ends.note(request, answer, asyncio.get_running_loop().time())


async def test_the_end_of_a_log_without_its_last_records_is_where_nothing_comes() -> None:
    """Given a log whose last records compaction has removed, when an answer has no records at all, then nothing is left to read."""
    positions: dict[PartitionId, int] = {PartitionId("t", 0): 7, PartitionId("t", 1): 3}
    ends = LogEnds(positions.get, 0.5, read_committed=False)
    fetched(ends, (0, 7, 10, 10, b""), (1, 3, 8, 8, b"records"))
    assert [ends.newest(one) for one in positions] == [10, 8], "the broker may have had no room for the first partition"
    fetched(ends, (0, 7, 10, 10, b""), (1, 3, 3, 3, b""))
    assert [ends.newest(one) for one in positions] == [7, 3]


async def test_an_end_is_forgotten_with_the_position_and_with_an_error() -> None:
    at = PartitionId("t", 0)
    positions: dict[PartitionId, int] = {at: 5}
    ends = LogEnds(positions.get, 0.5, read_committed=True)
    fetched(ends, (0, 5, 9, 6, b"records"))
    assert ends.newest(at) == 6
    fetched(ends, (0, 4, 5, 5, b""))  # of a fetch from before a seek
    assert ends.newest(at) is None
    fetched(ends, (0, 5, 5, 5, b""))
    ends.forget([at])
    assert ends.newest(at) is None
    fetched(ends, (0, 5, 5, 5, b""))
    fetched(ends, (0, 5, -1, -1, b""), code=6)
    assert ends.newest(at) is None


# The partition of a row


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once", "no_guarantee"])
async def test_each_row_has_its_partition(kafka: str, new_topic: NewTopic, guarantee: str) -> None:
    topic = await new_topic(partitions=3)
    for partition in range(3):
        await produce(kafka, topic, range(partition * 1000, partition * 1000 + 500), partition=partition)
    play = Play()
    tries = 2 if guarantee == "at_least_once" else 1
    play.notes.fail_times = dict.fromkeys([7, 1007, 2400], tries - 1)
    async with observing(settings(kafka, topic, guarantee=guarantee), play):
        await play.notes.until(lambda: len(play.stamped) == 1500 + 3 * (tries - 1))
    assert all(partition == PartitionId(topic, value // 1000) for value, partition in play.stamped)
    assert all(str(partition) == f"{topic}-{value // 1000}" for value, partition in play.stamped)
    assert len({value for value, _ in play.stamped}) == 1500


@pytest.mark.guarantee("KS-16")
async def test_an_exact_spout_tells_the_same(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    """Given a row that fails in a bolt, one that the translator cannot read at first, and a state, then each row has its partition."""
    topic = await new_topic(partitions=3)
    for partition in range(3):
        await produce(kafka, topic, range(partition * 1000, partition * 1000 + 300), partition=partition)
    refused: list[int] = []

    def translate(record: Any) -> tuple[int]:
        value = int(record.value)
        if value == 1100 and not refused:
            refused.append(value)
            raise ValueError("not yet")
        return (value,)

    play, told = Play(), Told(lambda value, call: value == 2100 and call == 1)
    config = dataclasses.replace(settings(kafka, topic), translator=translate)
    builder = TopologyBuilder("exact")
    builder.set_spout("kafka", lambda: Observed(config, play))
    builder.set_bolt("count", told.create).global_grouping("kafka")
    engine_config = Config(state_provider=f"sqlite:///{tmp_path}/state.db", state_checkpoint_interval_ms=50)
    async with engine.run(builder.build(), engine_config) as run:
        await play.notes.until(lambda: len(told.counts) == 900)
        await play.until_ends(topic, True, True, True)
        await run.stop()
    assert set(told.counts.values()) == {1}
    assert refused == [1100]
    assert {value for value, _ in play.stamped} == set(told.counts)
    assert all(partition == PartitionId(topic, value // 1000) for value, partition in play.stamped)
    place = (topic, 1, 17)
    assert play.spout.partition_of(place) == PartitionId(topic, 1), "the engine emits rows again by their message ids"
    assert str(play.spout.partition_of((topic, 99, 17))) == f"{topic}-99"
    assert {str(PartitionId(topic, number)) for number in range(3)} == play.spout.position().keys()
