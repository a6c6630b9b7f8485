"""Rebalances: kept and given-up partitions (KS-6, KS-7), and their gauges (KS-9)."""

import asyncio
from typing import Any

import pytest

from engine import Config, StatefulBolt, TopologyBuilder, Tuple, run
from engine.kafka import KafkaSpout
from tests.kafka.play import PATIENCE_SECS, Notes, all_of, committed, counted, gauges, playing, produce, settings, until_committed
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("KS-6")


async def numbers_in_each(kafka: str, topic: str, partitions: int, count: int) -> list[int]:
    for partition in range(partitions):
        await produce(kafka, topic, range(partition * count, (partition + 1) * count), partition=partition)
    return list(range(partitions * count))


async def test_records_in_flight_through_a_rebalance_are_not_repeated(kafka: str, new_topic: NewTopic) -> None:
    """Given records in flight that settle within the drain, when a member joins and leaves, then each is emitted once."""
    topic = await new_topic(partitions=4)
    everything = await numbers_in_each(kafka, topic, 4, 500)
    config = settings(kafka, topic, revoke_drain_ms=8000.0, rebalance_timeout_ms=20_000, heartbeat_interval_ms=100)
    first, second = Notes(), Notes()
    first.hold = lambda value: value % 10 == 0
    async with playing(config, first) as one:
        await first.until(lambda: len(first.got) == 2000)
        async with playing(config, second) as two:
            await first.until(lambda: len(gauges(one, "kafka_position")) == 4)
            first.hold = lambda value: False
            first.release()
            await first.until(lambda: gauges(two, "kafka_position"))
            for partition in range(4):
                await until_committed(kafka, config.group or "", topic, 500, partition)
    assert sorted(first.got + second.got) == everything


async def test_a_kept_partition_keeps_its_records_in_flight(kafka: str, new_topic: NewTopic) -> None:
    """Given a record that outlives the drain, when its partition is kept, then no record is repeated."""
    topic = await new_topic(partitions=2)
    everything = await numbers_in_each(kafka, topic, 2, 100)
    config = settings(kafka, topic, revoke_drain_ms=50.0, heartbeat_interval_ms=100, commit_acked_set=False)
    first, second = Notes(), Notes()
    first.hold = lambda value: value in (10, 110)
    async with playing(config, first) as one:
        await first.until(lambda: len(first.got) == 200)
        async with playing(config, second) as two:
            await first.until(lambda: len(gauges(one, "kafka_position")) == 1 and gauges(two, "kafka_position"))
            (kept,) = gauges(one, "kafka_position")
            moved = 1 - int(kept)
            repeated = list(range(moved * 100 + 10, moved * 100 + 100))
            await second.until(lambda: len(second.got) == 90)
            first.release()  # one ack counts, the other is of a partition that went away
            await first.until(lambda: one.snapshot().components["kafka"].acked == 200)
            await one.deactivate()
            assert (await committed(kafka, config.group or "", topic, int(kept))).offset == 100
    assert sorted(second.got) == repeated
    assert sorted(first.got) == everything


@pytest.mark.guarantee("KS-7")
async def test_with_the_acked_set_only_records_in_flight_are_repeated(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    await numbers_in_each(kafka, topic, 2, 100)
    config = settings(kafka, topic, revoke_drain_ms=50.0, heartbeat_interval_ms=100)
    first, second = Notes(), Notes()
    first.hold = lambda value: value in (10, 110)
    async with playing(config, first) as one:
        await first.until(lambda: len(first.got) == 200)
        async with playing(config, second) as two:
            await first.until(lambda: len(gauges(one, "kafka_position")) == 1 and gauges(two, "kafka_position"))
            await second.until(lambda: len(second.got) == 1)
    assert set(second.got) <= {10, 110}


@pytest.mark.guarantee("KS-7")
async def test_only_the_open_half_of_many_records_is_repeated(kafka: str, new_topic: NewTopic) -> None:
    """Given every second of 20,000 records in flight, when another member resumes at the commit, then it emits only these."""
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(20_000))
    config, notes = settings(kafka, topic), Notes()
    notes.hold = lambda value: value % 2 == 0
    async with playing(config, notes) as run:
        await notes.until(lambda: run.snapshot().components["kafka"].acked == 10_000)
        await run.deactivate()
        assert counted(run, "kafka_acked_set_left_out") == 0
    assert await all_of(config) == list(range(0, 20_000, 2))


async def test_a_deactivated_spout_stays_a_member(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    await numbers_in_each(kafka, topic, 2, 10)
    config = settings(kafka, topic, session_timeout_ms=3000, heartbeat_interval_ms=100, client={"max_poll_interval_ms": 3000})
    notes = Notes()
    async with playing(config, notes) as one:
        await notes.until(lambda: len(notes.got) == 20)
        await one.deactivate()
        await produce(kafka, topic, range(100, 110))
        await asyncio.sleep(4)  # longer than the session and the longest poll interval
        assert len(gauges(one, "kafka_position")) == 2
        assert len(notes.got) == 20
        await one.activate()
        await notes.until(lambda: len(notes.got) == 30)
    assert sorted(notes.got) == [*range(20), *range(100, 110)]


async def test_a_stateful_topology_commits_its_checkpoint_at_a_revoke(kafka: str, new_topic: NewTopic) -> None:
    """Given acks that wait for a checkpoint, when a member joins, then a checkpoint begins at once."""
    topic = await new_topic(partitions=2)
    await numbers_in_each(kafka, topic, 2, 50)
    config = settings(kafka, topic, revoke_drain_ms=8000.0, rebalance_timeout_ms=20_000, heartbeat_interval_ms=100)
    counted: list[int] = []

    class Count(StatefulBolt):
        output_fields = None

        def init_state(self, state: Any) -> None:
            self.state = state

        def execute(self, tup: Tuple) -> None:
            counted.append(tup[0])
            self.state.put(str(tup[0]), self.state.get(str(tup[0]), 0) + 1)
            self.collector.ack(tup)

    builder = TopologyBuilder("play")
    builder.set_spout("kafka", lambda: KafkaSpout(config))
    builder.set_bolt("count", Count).global_grouping("kafka")
    second = Notes()
    engine_config = Config(state_checkpoint_interval_ms=60_000.0, message_timeout_secs=600.0, processing_guarantee="at_least_once")
    async with run(builder.build(), engine_config) as one:
        await second.until(lambda: len(counted) == 100)
        assert (await committed(kafka, config.group or "", topic)).offset < 50
        async with playing(config, second) as two:
            await second.until(lambda: len(gauges(two, "kafka_position")) == 1)
            assert [(await committed(kafka, config.group or "", topic, partition)).offset for partition in (0, 1)] == [50, 50]
        await one.stop()
    assert sorted(counted + second.got) == list(range(100))


@pytest.mark.guarantee("KS-9")
async def test_gauges_of_each_partition(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    await numbers_in_each(kafka, topic, 1, 100)
    config, notes = settings(kafka, topic, retry_initial_ms=600_000.0, retry_max_ms=600_000.0), Notes()
    notes.hold = lambda value: value == 40
    notes.fail_times = {30: 1}
    async with playing(config, notes) as one:
        await notes.until(lambda: gauges(one, "kafka_position").get("0") == 100)
        await notes.until(lambda: gauges(one, "kafka_retries").get("0") == 1)
        await one.deactivate()
        await notes.until(lambda: gauges(one, "kafka_committed").get("0") == 30)
        assert gauges(one, "kafka_lag")["0"] == 70
        assert gauges(one, "kafka_pending")["0"] == 1
        assert gauges(one, "kafka_paused")["0"] == 0
        assert gauges(one, "kafka_dead_letters")["0"] == 0
        assert gauges(one, "kafka_committed")["1"] == 0  # where it began, though nothing came: a start at the latest is kept so
        assert f'kafka_lag{{topology="play",component="kafka",task="1",topic="{topic}",partition="0"}} 70' in one.metrics_text()


async def test_several_tasks_and_processes_share_the_partitions(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=4)
    everything = await numbers_in_each(kafka, topic, 4, 50)
    config, first, second = settings(kafka, topic, heartbeat_interval_ms=100), Notes(), Notes()
    async with playing(config, first, tasks=3) as one, playing(config, second) as two:
        async with asyncio.timeout(PATIENCE_SECS):
            while len(gauges(two, "kafka_position")) != 1 or len(gauges(one, "kafka_position")) != 3:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await produce(kafka, topic, range(1000, 1100), partition=None)
        await first.until(lambda: len(first.got) + len(second.got) == 300)
    assert sorted(first.got + second.got) == everything + list(range(1000, 1100))
