"""`KafkaCommitter` on a real broker: the output of each batch is in the topic exactly once (TX-8, TX-10)."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.errors import FatalError, UsageError
from engine.kafka.transactional import KafkaCommitter, KafkaCommitterConfig
from engine.transactional import FailedBatch
from tests.kafka.play import commit
from tests.kafka.sink_play import written
from tests.kafka.transactional.committer_task import committer_config, committing, seen, stored, until_stored
from tests.servers.kafka_admin import create_topic, delete_topic, fresh_name, topic_exists
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_fixtures import NewTopic

pytestmark = [pytest.mark.guarantee("TX-8"), pytest.mark.guarantee("TX-10")]


async def test_batches_are_written_with_txids_and_replays_are_recognized(kafka: str, new_topic: NewTopic) -> None:
    topic, name = await new_topic(partitions=1), fresh_name("words")
    async with committing(committer_config(kafka, topic), name=name) as task:
        await task.commit(1, "a", "b")
        await task.commit(1, "a", "b")
        await task.commit(2)
        await until_stored(kafka, topic, name, (2, 1))
        await task.commit(2)
        await task.commit(3, "c")
    async with committing(committer_config(kafka, topic), name=name) as another:
        await another.commit(3, "c")
        await another.commit(4, "d")
    assert await seen(kafka, topic) == ["a", "b", "c", "d"]
    await until_stored(kafka, topic, name, (4, 1))


async def test_records_have_their_keys_partitions_and_headers(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=3)
    config = committer_config(
        kafka, topic, partition=lambda tup: int(tup[1]) % 3, headers=lambda tup: [("k", b"1"), ("null", None)], timestamp_ms=lambda tup: 7
    )
    async with committing(config, name=fresh_name("words")) as task:
        bolt = await task.instance(1, [(str(number), str(number)) for number in range(9)])
        await bolt.finish_batch()
    assert await seen(kafka, topic) == ["0", "3", "6", "1", "4", "7", "2", "5", "8"]
    assert {record.headers for record in await written(kafka, topic)} == {(("k", b"1"), ("null", None))}


async def test_a_large_batch_is_sent_in_parts_and_bounded(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    config = committer_config(kafka, topic, batch_bytes=2_000, max_record_bytes=3_000, max_output_bytes=100_000)
    async with committing(config, name=fresh_name("words")) as task:
        await task.commit(1, *range(2_000))
        assert task.context.counts["kafka_records_written"] == 2_000
        with pytest.raises(FatalError, match=r"batch 2 \(attempt 0.2\) writes more than max_output_bytes=100000 at one task"):
            await task.commit(2, *range(20_000))
    assert sorted(map(int, await seen(kafka, topic))) == list(range(2_000))


@pytest.mark.parametrize("on_refused", ["stop", "drop"])
async def test_a_record_above_the_limit_ends_the_run_or_is_dropped(kafka: str, new_topic: NewTopic, on_refused: str) -> None:
    topic = await new_topic(partitions=1, settings={"max.message.bytes": "1000"})
    name = fresh_name("words")
    async with committing(committer_config(kafka, topic, on_refused=on_refused), name=name) as task:
        if on_refused == "stop":
            with pytest.raises(FatalError, match=r"was refused: .*MessageSizeTooLarge"):
                await task.commit(1, "a", "x" * 2_000, "b")
            assert (await seen(kafka, topic), await stored(kafka, topic, name)) == ([], None)
        else:
            bolt = await task.commit(1, "a", "x" * 2_000, "b")
            assert "The record is dropped" in bolt.collector.reported[0]  # type: ignore[attr-defined]
            assert await seen(kafka, topic) == ["a", "b"]
            await until_stored(kafka, topic, name, (1, 1))


@pytest.mark.parametrize(
    "changes",
    [
        {"value": lambda tup: 17},
        {"value": lambda tup: "\ud800"},
        {"headers": lambda tup: [("n", 17)]},
        {"timestamp_ms": lambda tup: -1},
        {"partition": lambda tup: 99},
    ],
    ids=lambda each: next(iter(each)),
)
async def test_a_tuple_that_makes_no_record_ends_the_run_or_is_dropped(kafka: str, new_topic: NewTopic, changes: dict[str, Any]) -> None:
    """Given a result of a function that is no part of a record, then the batch is not replayed, because it would fail for ever."""
    topic = await new_topic(partitions=1)
    [(part, wrong)] = changes.items()
    right = {"value": lambda tup: tup[2]}.get(part, lambda tup: None)
    mixed = {part: lambda tup: wrong(tup) if tup[2] == "b" else right(tup)}
    async with committing(committer_config(kafka, topic, **mixed), name=fresh_name("words")) as task:
        with pytest.raises(FatalError, match=rf"no record for topic '{topic}' can be made of a tuple: .*{part}"):
            await task.commit(1, "a", "b", "c")
    async with committing(committer_config(kafka, topic, on_refused="drop", **mixed), name=fresh_name("words")) as task:
        bolt: Any = await task.commit(1, "a", "b", "c")
        assert [text for text in bolt.collector.reported if "The record is dropped" in text]
        assert task.context.counts["kafka_records_refused"] == 1
    assert await seen(kafka, topic) == ["a", "c"]


async def test_one_producer_serves_all_attempts_though_each_has_its_own_config(kafka: str, new_topic: NewTopic) -> None:
    """Given three concurrent batches, each with its own config and functions, when they commit, then none fences another."""
    topic = await new_topic(partitions=1)

    def fresh() -> KafkaCommitterConfig:
        return committer_config(kafka, topic, value=lambda tup: str(tup[2]), client={"metadata_max_age_ms": 60_000})

    assert fresh() != fresh()
    async with committing(fresh, name=fresh_name("words")) as task:
        pending = [await task.instance(txid, [(None, value)]) for txid, value in ((1, "a"), (2, "b"), (3, "c"))]
        for bolt in pending:
            await bolt.finish_batch()
        await task.commit(4, "d")
        assert task.writer.link.producers == 1
    assert await seen(kafka, topic) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("changes", [{"topic": "elsewhere"}, {"brokers": "127.0.0.2:9092"}], ids=lambda changes: next(iter(changes)))
async def test_a_factory_that_changes_brokers_or_topic_ends_the_run(kafka: str, new_topic: NewTopic, changes: dict[str, Any]) -> None:
    """The txids are stored with the topic, so a committer of another topic would not find them."""
    topic = await new_topic(partitions=1)
    config = committer_config(kafka, topic)
    configs = iter([config, replace(config, **changes)])
    async with committing(lambda: next(configs), name=fresh_name("words")) as task:
        await task.commit(1, "a")
        [name] = changes
        with pytest.raises(FatalError, match=rf"the factory of 'counts' has changed {name} from .* to .* since its first batch"):
            await task.commit(2, "b")
    assert await seen(kafka, topic) == ["a"]


async def test_a_zombie_is_fenced_and_ends(kafka: str, new_topic: NewTopic) -> None:
    topic, name = await new_topic(partitions=1), fresh_name("words")
    config = committer_config(kafka, topic)
    async with committing(config, name=name) as zombie:
        await zombie.commit(1, "a")
        late = await zombie.instance(2, [(None, "b")])
        async with committing(config, name=name) as successor:
            await successor.commit(2, "b")
            with pytest.raises(FatalError, match=r"another process writes as task 0 of 'counts': this one was fenced at batch 2"):
                await late.finish_batch()
            await successor.commit(3, "c")
    assert await seen(kafka, topic) == ["a", "b", "c"]


async def test_a_late_request_of_a_dead_task_fences_no_run(kafka: str, new_topic: NewTopic) -> None:
    """Given a start of a producer that the broker handles after that of its successor, the successor starts once more."""
    topic, name = await new_topic(partitions=1), fresh_name("words")
    config = committer_config(kafka, topic)
    async with committing(config, name=name) as task:
        bolt = await task.instance(1, [(None, "a")])
        await fence(config, name)
        with pytest.raises(FailedBatch, match="perhaps by a late request"):
            await bolt.finish_batch()
        await task.commit(1, "a")
    assert await seen(kafka, topic) == ["a"]


async def fence(config: KafkaCommitterConfig, name: str) -> None:
    """Start a producer of the same task, which writes nothing."""
    async with committing(config, name=name) as other:
        await other.instance(1, [])


async def test_a_process_that_is_fenced_twice_before_it_has_written_ends(kafka: str, new_topic: NewTopic) -> None:
    topic, name = await new_topic(partitions=1), fresh_name("words")
    config = committer_config(kafka, topic)
    async with committing(config, name=name) as task:
        for error in (FailedBatch, FatalError):
            bolt = await task.instance(1, [(None, "a")])
            await task.writer.link.start()
            await fence(config, name)
            with pytest.raises(error, match="fenced"):
                await bolt.finish_batch()
    assert await seen(kafka, topic) == []


async def test_a_cancelled_attempt_writes_nothing(kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await new_topic(partitions=1)
    async with committing(committer_config(kafka, topic), name=fresh_name("words")) as task:
        bolt = await task.instance(1, [(None, "a")])
        reached, store = asyncio.Event(), task.writer.link.store_offset

        async def waits(*arguments: Any) -> None:
            reached.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(task.writer.link, "store_offset", waits)
        finishing = asyncio.ensure_future(bolt.finish_batch())
        await reached.wait()
        finishing.cancel()
        await asyncio.wait([finishing])
        monkeypatch.setattr(task.writer.link, "store_offset", store)
        await task.commit(1, "a")
    assert await seen(kafka, topic) == ["a"]


async def test_a_txid_older_than_the_stored_one_is_refused(kafka: str, new_topic: NewTopic) -> None:
    topic, name = await new_topic(partitions=1), fresh_name("words")
    async with committing(committer_config(kafka, topic, when_unknown="write"), name=name) as task:
        await task.commit(7, "a")
    async with committing(committer_config(kafka, topic), name=name) as later:
        with pytest.raises(FatalError, match="got transaction 1, but has stored transaction 7 already"):
            await later.commit(1, "b")
    assert await seen(kafka, topic) == ["a"]


async def test_without_a_stored_txid_only_the_first_transaction_is_written(kafka: str, new_topic: NewTopic) -> None:
    topic, name = await new_topic(partitions=1), fresh_name("words")
    async with committing(committer_config(kafka, topic), name=name) as task:
        with pytest.raises(FatalError, match=r"has stored no txid in group .*, and transaction 5 is not the first"):
            await task.commit(5, "a")
        await task.commit(1, "b")
    assert await seen(kafka, topic) == ["b"]


async def test_a_topic_created_again_has_lost_its_txids_and_ends_the_run(kafka: str, new_topic: NewTopic) -> None:
    topic, name = await new_topic(partitions=1), fresh_name("words")
    async with committing(committer_config(kafka, topic), name=name) as task:
        await task.commit(1, "a")
    await delete_topic(kafka, topic)
    async with asyncio.timeout(20):
        while await topic_exists(kafka, topic):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await create_topic(kafka, topic, partitions=1)
    async with committing(committer_config(kafka, topic), name=name) as task:
        with pytest.raises(FatalError, match="has stored no txid") as raised:
            await task.commit(2, "b")
    assert "because the topic was deleted or created again" in str(raised.value)


async def test_offsets_of_another_program_are_refused(kafka: str, new_topic: NewTopic) -> None:
    topic, name = await new_topic(partitions=1), fresh_name("words")
    await commit(kafka, f"stormcell-tx:{name}:counts:0", topic, 3, "mine")
    async with committing(committer_config(kafka, topic), name=name) as task:
        with pytest.raises(FatalError, match="has offset 3 with metadata 'mine', which no committer wrote"):
            await task.commit(4, "a")


async def test_a_txid_can_be_stored_again(kafka: str, new_topic: NewTopic) -> None:
    topic, name = await new_topic(partitions=1), fresh_name("words")
    async with committing(committer_config(kafka, topic), name=name) as task:
        await task.commit(1, "a")
        await task.writer.refresh_txid()
        await task.commit(2, "b")
    assert await seen(kafka, topic) == ["a", "b"]
    await until_stored(kafka, topic, name, (2, 1))


async def test_another_parallelism_is_refused_while_a_txid_is_in_doubt(kafka: str, new_topic: NewTopic) -> None:
    topic, name = await new_topic(partitions=1), fresh_name("words")
    config = committer_config(kafka, topic, keyed_by="key")
    async with committing(config, name=name, task=0, tasks=2) as first, committing(config, name=name, task=1, tasks=2) as second:
        await first.commit(1, "a")
        await second.commit(1, "b")
        await first.commit(2, "c")
    async with committing(config, name=name) as alone:
        with pytest.raises(
            FatalError,
            match=r"has 1 tasks, but had 2 when it wrote transaction 2. The output of task 1 of this transaction was not written",
        ):
            await alone.commit(2, "c", "d")
    async with committing(config, name=name, task=0, tasks=2) as first, committing(config, name=name, task=1, tasks=2) as second:
        await first.commit(2, "c")
        await second.commit(2, "d")
    async with committing(config, name=name) as alone:
        await alone.commit(2, "c", "d")
        await alone.commit(3, "e")
    assert sorted(await seen(kafka, topic)) == ["a", "b", "c", "d", "e"]
    async with committing(config, name=name, task=1, tasks=3) as third:
        await third.commit(4, "f")
    await until_stored(kafka, topic, name, (4, 3), task=1)
    await until_stored(kafka, topic, name, (3, 1))


async def test_a_zombie_of_another_parallelism_is_fenced(kafka: str, new_topic: NewTopic) -> None:
    topic, name = await new_topic(partitions=1), fresh_name("words")
    config = committer_config(kafka, topic)
    async with committing(config, name=name, task=0, tasks=2) as first, committing(config, name=name, task=1, tasks=2) as zombie:
        await first.commit(1, "a")
        await zombie.commit(1, "b")
        late = await zombie.instance(2, [(None, "d")])
        async with committing(config, name=name) as alone:
            await alone.commit(2, "c", "d")
            with pytest.raises(FatalError, match="fenced at batch 2"):
                await late.finish_batch()
    assert sorted(await seen(kafka, topic)) == ["a", "b", "c", "d"]


def harm_at(link: Any, step: str, harm: Callable[[], None]) -> None:
    """Call a function just before a step, once."""
    original = getattr(link, step)

    async def harmed(*arguments: Any) -> None:
        delattr(link, step)
        harm()
        await original(*arguments)

    setattr(link, step, harmed)


@pytest.mark.deep
async def test_a_broker_that_hangs_or_dies_in_a_transaction_fails_the_batch_without_duplicates(own_broker: KafkaBroker) -> None:
    kafka = await create_topic(own_broker.bootstrap, "out", partitions=1) and own_broker.bootstrap
    frozen, dead = (own_broker.freeze, own_broker.thaw), (own_broker.kill, own_broker.start)
    harms = [(*frozen, "store_offset"), (*frozen, "commit_transaction"), (*dead, "commit_transaction")]
    async with committing(committer_config(kafka, "out", transaction_timeout_ms=1_500, request_timeout_ms=1_000), name="words") as task:

        async def commit_at_last(txid: int) -> None:
            """Retry until the txid is stored. The first transactions of a broker may take longer than the timeout."""
            while await stored(kafka, "out", "words") != (txid, 1):
                with contextlib.suppress(FailedBatch):
                    await task.commit(txid, txid)

        await commit_at_last(1)
        for txid, (harm, mend, step) in enumerate(harms, 2):
            bolt = await task.instance(txid, [(None, str(txid))])
            harm_at(task.writer.link, step, harm)
            with pytest.raises(FailedBatch):
                await bolt.finish_batch()
            await asyncio.to_thread(mend)
            await commit_at_last(txid)
        assert await seen(kafka, "out") == list("1234")


@pytest.mark.parametrize("wrong", [None, {"topic": "x"}])
def test_a_committer_accepts_only_its_config(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"Write KafkaCommitter\(KafkaCommitterConfig\("):
        KafkaCommitter(wrong)
