"""`on_failure="stop_partition"`: a failed record stops its partition, and nothing overtakes it (KS-11)."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from engine import Config, FailTuple, StatefulBasicBolt, TopologyBuilder, Tuple, run
from engine.errors import ConfigError
from engine.kafka import KafkaSpout, KafkaSpoutConfig
from engine.kafka.client.partition import PartitionId
from engine.kafka.source.acked_set import CommitNote, decode, encode
from engine.kafka.source.offset_manager import OffsetManager
from engine.kafka.source.partitions import Partitions
from engine.kernel import mark_done
from tests.kafka.play import PATIENCE_SECS, Notes, all_of, commit, committed, counted, gauges, number, playing, produce, settings
from tests.kafka.tools import records_of
from tests.model.proofs import prove
from tests.servers.kafka_fixtures import NewTopic
from tests.tiers import cases

pytestmark = pytest.mark.guarantee("KS-11")


def strict(kafka: str, topic: str, **changes: Any) -> KafkaSpoutConfig:
    """Settings in strict order."""
    return settings(kafka, topic, **({"on_failure": "stop_partition"} | changes))


def in_order(got: Sequence[int], values: Sequence[int]) -> bool:
    """Return True if the last arrivals of these values are in their order."""
    last = {value: at for at, value in enumerate(got)}
    return sorted(values, key=last.__getitem__) == list(values)


def test_strict_order_agrees_with_a_model() -> None:
    prove("strict order", cases(300))


async def test_no_record_overtakes_a_waiting_retry_while_other_partitions_continue(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    await produce(kafka, topic, range(100))
    await produce(kafka, topic, range(1000, 2000), partition=1)
    config, notes = strict(kafka, topic, retry_initial_ms=300.0, retry_max_ms=300.0), Notes()
    notes.fail_times = {3: 4}
    got = await all_of(config, notes)
    ours = [value for value in got if value < 1000]
    again = ours.index(3, ours.index(3) + 1)
    assert ours[:again] == list(range(again)), "emitted before the failure was known"
    assert ours[again:] == [3, 3, 3, *range(3, 100)], "then nothing before it is done, and all behind it, in order"
    retry = got.index(3, got.index(3) + 1)
    assert set(range(1000, 2000)) <= set(got[:retry])
    assert (await committed(kafka, config.group or "", topic)).offset == 100


async def test_with_one_pending_tree_each_record_waits_for_its_predecessor(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(50))
    notes = Notes()
    notes.fail_times = {3: 2, 4: 1, 49: 1}
    got = await all_of(strict(kafka, topic), notes, Config(max_spout_pending=1))
    assert got == [0, 1, 2, 3, 3, 3, 4, 4, *range(5, 50), 49]


async def test_the_next_record_follows_after_the_dead_letter_is_written(kafka: str, new_topic: NewTopic) -> None:
    topic, dead = await new_topic(partitions=1), await new_topic(partitions=1)
    await produce(kafka, topic, range(100))
    config, notes = strict(kafka, topic, max_retries=2, dead_letter_topic=dead), Notes()
    notes.fail_times = {3: 100, 7: 100}
    got = await all_of(config, notes)
    after = len(got) - got[::-1].index(3)
    assert (got.count(3), got[after - 2 : after]) == (3, [3, 3])
    assert got[after : after + 3] == [4, 5, 6]
    assert in_order(got, [value for value in range(100) if value not in (3, 7)])
    assert [int(record.value) for record in await records_of(kafka, dead)] == [3, 7]
    assert (await committed(kafka, config.group or "", topic)).offset == 100


async def test_without_retries_no_record_is_repeated(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(1000))
    config, notes = strict(kafka, topic, max_retries=0, on_give_up="drop"), Notes()
    notes.fail_times = dict.fromkeys(range(0, 1000, 10), 1)
    assert await all_of(config, notes) == list(range(1000))


@pytest.mark.guarantee("KS-8")
async def test_an_unreadable_record_stops_its_partition(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    tries: list[int] = []

    def translate(record: Any) -> tuple[int]:
        tries.append(record.offset)
        if record.offset == 4 and tries.count(4) < 4:
            raise ValueError("not yet")
        return number(record)

    assert await all_of(strict(kafka, topic, translator=translate)) == list(range(10))
    first = tries.index(4)
    assert tries[first : first + 4] == [4, 4, 4, 4], "it alone, until it can be read"


@pytest.mark.guarantee("KS-3")
async def test_a_stopped_partition_is_not_fetched_and_does_not_delay_others(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    await produce(kafka, topic, range(5000))
    await produce(kafka, topic, range(10_000, 13_000), partition=1)
    config = strict(kafka, topic, max_poll_records=50, retry_initial_ms=3_600_000.0, retry_max_ms=3_600_000.0)
    notes = Notes()
    notes.fail_times = {7: 1}
    async with playing(config, notes) as one:
        await notes.until(lambda: sum(value >= 10_000 for value in notes.got) == 3000)
        await notes.until(lambda: gauges(one, "kafka_stopped").get("0") == 1)
        await notes.until(lambda: gauges(one, "kafka_paused").get("0") == 1)
        assert max(value for value in notes.got if value < 10_000) < 300
        assert gauges(one, "kafka_position")["0"] < 500
        assert gauges(one, "kafka_stopped")["1"] == 0


async def test_a_stopped_partition_continues_after_its_record_is_done(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(2000))
    config, notes = strict(kafka, topic, max_poll_records=50, retry_initial_ms=300.0, max_uncommitted_offsets=400), Notes()
    notes.fail_times = dict.fromkeys(range(7, 2000, 600), 1)
    got = await all_of(config, notes)
    assert in_order(got, range(2000))


@pytest.mark.guarantee("KS-7")
async def test_acks_behind_an_open_record_are_not_committed(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    config, notes = strict(kafka, topic), Notes()
    notes.hold = lambda value: value == 5
    async with playing(config, notes) as one:
        await notes.until(lambda: one.snapshot().components["kafka"].acked == 9)
        await one.deactivate()
        note = decode((await committed(kafka, config.group or "", topic)).metadata)
        assert note is not None
        assert note == CommitNote("play", 5, (), mark=note.mark)
    assert await all_of(config) == [5, 6, 7, 8, 9]


@pytest.mark.guarantee("KS-7")
async def test_an_acked_set_of_a_run_without_strict_order_is_dropped(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    config, notes = strict(kafka, topic), Notes()
    await commit(kafka, config.group or "", topic, 5, encode("play", 5, [7, 9], 4096)[0])
    async with playing(config, notes) as one:
        await notes.until(lambda: len(notes.got) == 5)
        assert (notes.got, counted(one, "kafka_acked_set_dropped")) == ([5, 6, 7, 8, 9], 2)


class Lasts(StatefulBasicBolt):
    """Keeps the latest value by key, and fails some."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def execute(self, tup: Tuple) -> None:
        value = tup[0]
        self.notes.got.append(value)
        if self.notes.fail_times.get(value, 0) > 0:
            self.notes.fail_times[value] -= 1
            raise FailTuple("not yet")
        self.state.put(value % 10, value)


@pytest.mark.guarantee("CP-4")
async def test_order_holds_with_acks_that_wait_for_checkpoints(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(1000))
    config, notes = strict(kafka, topic, stop_at_end=True), Notes()
    notes.fail_times = {7: 2, 400: 3, 999: 1}
    builder = TopologyBuilder("lasts")
    builder.set_spout("kafka", lambda: KafkaSpout(config))
    builder.set_bolt("lasts", lambda: Lasts(notes)).global_grouping("kafka")
    engine_config = Config(state_checkpoint_interval_ms=100, processing_guarantee="at_least_once")
    async with run(builder.build(), engine_config) as running, asyncio.timeout(PATIENCE_SECS):
        await running.completed()
    assert in_order(notes.got, range(1000))
    assert (await committed(kafka, config.group or "", topic)).offset == 1000


@pytest.mark.guarantee("KS-6")
async def test_a_rebalance_of_stopped_partitions_keeps_their_order(kafka: str, new_topic: NewTopic) -> None:
    """Given stopped partitions, when a member joins and another leaves, then the last emissions of both are in order."""
    topic = await new_topic(partitions=4)
    for partition in range(4):
        await produce(kafka, topic, range(partition * 1000, partition * 1000 + 1000), partition=partition)
    config = strict(kafka, topic, retry_initial_ms=50.0, retry_max_ms=50.0, heartbeat_interval_ms=100, max_poll_records=100)
    notes, failing = Notes(), range(10, 4000, 500)
    notes.fail_times = dict.fromkeys(failing, 10**9)
    async with playing(config, notes) as one:
        await notes.until(lambda: all(notes.got.count(partition * 1000 + 10) > 2 for partition in range(4)))
        async with playing(config, notes) as two:
            await notes.until(lambda: len(gauges(one, "kafka_position")) == len(gauges(two, "kafka_position")) == 2)
            seen = len(notes.got)
            await notes.until(lambda: len(set(notes.got[seen:])) == 4)
            assert set(notes.got[seen:]) == {10, 1010, 2010, 3010}, "stopped where they were, at both"
            notes.fail_times = dict.fromkeys(failing, 1)
            await one.drain()
            await notes.until(lambda: {999, 1999, 2999, 3999} <= set(notes.got))
            await two.drain()
    assert [(await committed(kafka, config.group or "", topic, partition)).offset for partition in range(4)] == [1000] * 4
    for partition in range(4):
        assert in_order(notes.got, range(partition * 1000, partition * 1000 + 1000))


def test_strict_order_needs_verdicts() -> None:
    for guarantee in ("at_most_once", "no_guarantee"):
        with pytest.raises(ConfigError, match=rf"on_failure='stop_partition' needs guarantee='at_least_once': '{guarantee}' tracks no"):
            KafkaSpoutConfig(brokers="h:1", topics="t", group="g", guarantee=guarantee, on_failure="stop_partition")


def test_a_done_entry_behind_an_open_one_keeps_its_record() -> None:
    manager = OffsetManager(PartitionId("lines", 0), 0, limit=100, most_waiting=3)
    manager.feed([SimpleNamespace(offset=offset) for offset in range(4)])
    entries = [manager.take() for _ in range(3)]
    first, second, third = (entry for entry in entries if entry is not None)
    mark_done(second)
    assert second.record is not None
    mark_done(first)
    assert (first.record, second.record) == (None, None)
    assert manager.fail(third)
    mark_done(third)  # given up
    assert third.record is None
    assert (manager.committable, manager.waiting) == (3, 1)


def test_records_behind_a_failed_one_do_not_count_as_waiting() -> None:
    partitions = Partitions()
    ids = [PartitionId("lines", number) for number in range(2)]
    partitions.assign(ids, None)
    for one in ids:
        manager = OffsetManager(one, 0, limit=100, most_waiting=3)
        manager.feed([SimpleNamespace(offset=offset) for offset in range(5)])
        partitions.open_partition(manager)
    assert partitions.waiting == 10
    entry = partitions.take()
    assert entry is not None
    assert entry.manager.fail(entry)
    assert partitions.waiting == 5
    assert [one.partition for one in partitions.to_pause()] == [entry.manager.partition]
    assert not entry.manager.take_again(entry)
    assert partitions.waiting == 10
    assert [one.partition for one in partitions.to_resume()] == [entry.manager.partition]
