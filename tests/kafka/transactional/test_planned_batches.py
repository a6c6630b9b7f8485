"""Planned batches of `KafkaTransactionalSpout` on a real broker: bounds first, records later, perhaps in another process (CL-1, TX-7)."""

import itertools
from typing import Any

import pytest

from engine.errors import FatalError
from engine.kafka.transactional import KafkaTransactionalSpout
from engine.kafka.transactional.batch_reader import UNKNOWN_RECORDS, partition_of, range_of
from engine.transactional import TransactionAttempt
from tests.kafka.play import produce
from tests.kafka.transactional.hand import emitting, forget_before, settings, transact
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("CL-1", "TX-7")


def spout(kafka: str, topics: Any, **changes: Any) -> KafkaTransactionalSpout:
    return KafkaTransactionalSpout(settings(kafka, topics, **changes))


async def test_a_plan_asks_once_for_the_bounds_of_all_partitions(kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await new_topic(partitions=3)
    for partition in range(3):
        await produce(kafka, topic, range(4 + partition), partition=partition)
    async with emitting(spout(kafka, topic, batch_records=5), task_index=0) as hand:
        link, asked = hand.emitter._reader.link, []
        bounds = link.bounds

        async def counted(partitions: Any, end: Any) -> Any:
            asked.append((end, len(partitions)))
            return await bounds(partitions, end)

        monkeypatch.setattr(link, "bounds", counted)
        for txid, ends in ((1, [4, 5, 5]), (2, [4, 5, 6])):
            names = [f"{topic}-{partition}" for partition in range(3)]
            starts = [0, 0, 0] if txid == 1 else [4, 5, 5]
            planned = [
                await hand.emitter.plan_partition_batch(TransactionAttempt(txid, txid), name, [0, start, 0])
                for name, start in zip(names, starts, strict=True)
            ]
            assert [end for _, end, *_ in planned] == ends
    assert asked == [("earliest", 3), ("latest", 3)] * 2


async def test_planned_partitions_are_fetched_together_and_not_beyond_their_ends(
    kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, partitions = await new_topic(partitions=8), range(8)
    for partition in partitions:
        await produce(kafka, topic, range(partition, partition + 20), partition=partition)
    planned = {f"{topic}-{partition}": [0, 5, UNKNOWN_RECORDS] for partition in partitions}
    async with emitting(spout(kafka, topic), task_index=0) as hand:
        link, asked = hand.emitter._reader.link, []
        fetch = link._fetch

        async def noted(assignment: Any, node_id: int, request: Any) -> Any:
            asked.append({number for _, its in request.topics for number, _, _ in its})
            return await fetch(assignment, node_id, request)

        monkeypatch.setattr(link, "_fetch", noted)
        hand.emitter.expect_partition_batches(TransactionAttempt(1, 1), planned)
        hand.metadata = {(1, name): metadata for name, metadata in planned.items()}
        for partition in partitions:
            assert await hand.again(1, f"{topic}-{partition}") == list(range(partition, partition + 5))
            assert partition in asked[0]
        assert all(link._state(partition_of(name)).paused for name in planned)
        await produce(kafka, topic, [99], partition=3)
        assert await hand.again(1, f"{topic}-3") == [3, 4, 5, 6, 7]
        hand.metadata[2, f"{topic}-3"] = [5, 21, UNKNOWN_RECORDS]
        assert await hand.again(2, f"{topic}-3") == [*range(8, 23), 99]


async def test_a_planned_batch_has_the_records_between_its_bounds(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await transact(kafka, topic, range(5))
    await transact(kafka, topic, range(100, 105), commit=False)
    await transact(kafka, topic, range(5, 10))
    name = f"{topic}-0"
    async with emitting(spout(kafka, topic, batch_records=7)) as planner, emitting(spout(kafka, topic)) as executor:
        previous, came = None, []
        for txid in range(1, 5):
            attempt = TransactionAttempt(txid, txid)
            planned = await planner.emitter.plan_partition_batch(attempt, name, previous)
            assert await planner.emitter.plan_partition_batch(attempt, name, previous) == planned, "nothing was read"
            executor.metadata[txid, name] = previous = planned
            came += await executor.again(txid, name)
        assert range_of(planned) == (18, 18, -1)
        assert came == list(range(10))


async def test_a_planned_batch_with_deleted_records_ends_the_run(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(20))
    name = f"{topic}-0"
    async with emitting(spout(kafka, topic, batch_records=10)) as planner, emitting(spout(kafka, topic)) as executor:
        planned = await planner.emitter.plan_partition_batch(TransactionAttempt(1, 1), name, None)
        assert range_of(planned) == (0, 10, -1)
        await forget_before(kafka, topic, 5)
        executor.metadata[1, name] = planned
        with pytest.raises(FatalError, match="needs offset 0, which does not exist"):
            await executor.again(1, name)
        with pytest.raises(FatalError, match="needs offset 2, which does not exist"):
            await planner.emitter.plan_partition_batch(TransactionAttempt(2, 2), name, [0, 2, -1])


async def test_a_plan_for_a_topic_that_was_created_again_ends_the_run(kafka: str, new_topic: NewTopic) -> None:
    """Given a topic with fewer records than were read, then its first records are not skipped silently."""
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(3))
    async with emitting(spout(kafka, topic, replay_timeout_ms=30_000.0)) as planner:
        now, txids = 0.0, itertools.count(2)
        planner.emitter._reader._now = lambda: now

        async def plan(start: int) -> Any:
            txid = next(txids)
            return await planner.emitter.plan_partition_batch(TransactionAttempt(txid, txid), f"{topic}-0", [0, start, -1])

        assert await plan(20) == [20, 20, -1], "a broker that has just restarted may report a lower end"
        now = 31.0
        assert range_of(await plan(3)) == (3, 3, -1)
        assert await plan(20) == [20, 20, -1], "its time begins again"
        now = 62.0
        with pytest.raises(
            FatalError, match=r"needs offset 20, which does not exist: the broker has offsets 0 to 2 \(was the topic created again\?\)"
        ):
            await plan(20)


async def test_a_planned_batch_beyond_the_end_of_its_partition_ends_the_run(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(3))
    async with emitting(spout(kafka, topic, replay_timeout_ms=2_000.0)) as executor:
        executor.metadata[1, f"{topic}-0"] = [0, 20, -1]
        with pytest.raises(
            FatalError, match=r"the replay of offsets 0 to 20 needs offset 3, which does not exist: the broker has offsets 0 to 2"
        ):
            await executor.again(1, f"{topic}-0")


async def test_new_batches_continue_after_planned_ones_in_one_process(kafka: str, new_topic: NewTopic) -> None:
    """Given planned batches that are open when a run moves from Spark to one process, and back."""
    topic = await new_topic(partitions=3)
    names = [f"{topic}-{partition}" for partition in range(3)]
    for partition in range(3):
        await produce(kafka, topic, range(100 * partition, 100 * partition + 30), partition=partition)
    async with emitting(spout(kafka, topic, batch_records=5), task_index=0) as hand:
        came: list[int] = []
        for txid, start, end in ((1, 0, 5), (2, 5, 12), (4, 17, 20)):
            if txid == 4:
                came += [value for name in names for value in await hand.new(3, name)]
            planned = {name: [start, end, UNKNOWN_RECORDS] for name in names}
            hand.metadata.update({(txid, name): metadata for name, metadata in planned.items()})
            for attempt in range(2):  # the first one fails after two partitions
                hand.emitter.expect_partition_batches(TransactionAttempt(txid, txid), planned)
                replayed = [value for name in names[: 2 + attempt] for value in await hand.again(txid, name)]
            came += replayed
        for name in names:
            came += await hand.until(5, name, 10)
    assert sorted(came) == [100 * partition + number for partition in range(3) for number in range(30)]
