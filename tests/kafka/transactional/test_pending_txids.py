"""A committer decides after no earlier transaction can change its stored txid (TX-8)."""

import asyncio

import pytest

from engine.kafka.transactional.stored_txids import TxidOwner
from engine.transactional import FailedBatch
from tests.kafka.pending_offsets import StableReads, end_transaction, pending_offset
from tests.kafka.transactional.committer_task import committer_config, committing, seen, until_stored
from tests.servers.kafka_admin import fresh_name
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("TX-8")


@pytest.mark.parametrize("outcome", ["commit", "abort"])
async def test_a_successor_waits_for_the_txid_of_its_predecessor(
    kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    """The transaction of another producer stands for one that has ended, but is not applied yet to the offsets."""
    topic, name = await new_topic(partitions=1), fresh_name("words")
    owner = TxidOwner(name, "counts", 0, 1)
    async with committing(committer_config(kafka, topic), name=name) as task:
        await task.commit(1, "a")
    async with (
        committing(committer_config(kafka, topic), name=name) as successor,
        pending_offset(kafka, owner.group, topic, 2, owner.metadata) as predecessor,
    ):
        await predecessor.send(topic, b"b", partition=0)
        reads = StableReads(monkeypatch)
        writing = asyncio.ensure_future(successor.commit(2, "b"))
        await reads.until_refused_twice(writing)
        await end_transaction(predecessor, outcome)
        await writing
        assert successor.context.counts["kafka_records_written"] == (0 if outcome == "commit" else 1)
        await successor.commit(3, "c")
    assert await seen(kafka, topic) == ["a", "b", "c"]
    await until_stored(kafka, topic, name, (3, 1))


async def test_a_transaction_that_does_not_end_fails_the_batch_and_is_named(kafka: str, new_topic: NewTopic) -> None:
    topic, name = await new_topic(partitions=1), fresh_name("words")
    owner = TxidOwner(name, "counts", 0, 1)
    config = committer_config(kafka, topic, transaction_timeout_ms=2_000)
    async with committing(config, name=name) as task, pending_offset(kafka, owner.group, topic, 1, owner.metadata) as another:
        with pytest.raises(FailedBatch) as raised:
            await task.commit(1, "a")
        text = f"topic {topic!r}, partition 0, in group {owner.group!r} belongs to a transaction that has not ended"
        assert text in str(raised.value)
        assert raised.value.report
        await another.abort_transaction()
        await task.commit(1, "a")
    assert await seen(kafka, topic) == ["a"]


async def test_a_transaction_of_another_parallelism_is_fenced_without_a_wait_for_its_timeout(kafka: str, new_topic: NewTopic) -> None:
    """Given task 0 of 2 that died in transaction 2, when one task starts, then it ends this transaction."""
    topic, name = await new_topic(partitions=1), fresh_name("words")
    first, second = (TxidOwner(name, "counts", task, 2) for task in (0, 1))
    config = committer_config(kafka, topic, keyed_by="key", transaction_timeout_ms=20_000)
    for owner in (first, second):
        async with committing(config, name=name, task=owner.task, tasks=2) as task:
            await task.commit(1, owner.task)
    async with (
        pending_offset(kafka, first.group, topic, 2, first.metadata, transactional_id=first.transactional_id),
        committing(config, name=name) as alone,
    ):
        await alone.commit(2, "b")
    assert await seen(kafka, topic) == ["0", "1", "b"]


async def test_open_transactions_of_other_tasks_are_not_waited_for(
    kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, name = await new_topic(partitions=1), fresh_name("words")
    other, reads = TxidOwner(name, "counts", 1, 2), StableReads(monkeypatch)
    async with (
        pending_offset(kafka, other.group, topic, 1, other.metadata),
        committing(committer_config(kafka, topic, keyed_by="key"), name=name, task=0, tasks=2) as task,
    ):
        await task.commit(1, "a")
    assert reads.requests == 1
    assert await seen(kafka, topic) == ["a"]
