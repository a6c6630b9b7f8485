"""Records that cannot be made or written: each fails its own tuple, or ends the run with one clear error."""

import json
from collections import Counter
from typing import Any

import pytest

from engine import Config, TopologyBuilder
from engine.errors import ComponentError
from engine.kafka import KafkaSink, KafkaSpout
from engine.kafka.dead_letters.dead_letter import read_dead_letter
from engine.testing import Feeder, Finished, run_topology_async
from tests.kafka.play import commit, produce, settings
from tests.kafka.sink_play import fed, sink_config, values, write, written
from tests.servers.kafka_admin import fresh_name
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("KS-10")
SMALL = {"max.message.bytes": "2000"}


def told(finished: Finished) -> str:
    """Return the reports as one text."""
    return "\n".join(report.text for report in finished.errors)


def failed(feeder: Feeder) -> list[object]:
    """Return the message ids of failed tuples."""
    return [message_id for message_id, _ in feeder.failed]


def why(feeder: Feeder) -> str:
    """Return the error that the source of the one failed tuple got."""
    [(_, failure)] = feeder.failed
    assert (failure.reason, failure.component_id) == ("failed", "sink")
    return failure.error or ""


# Functions and fields


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"value": lambda tup: 17}, "value: 17 (int) is neither bytes nor text"),
        ({"value": lambda tup: json.loads("{")}, "JSONDecodeError"),
        ({"key": lambda tup: ["k"]}, "key: ['k'] (list) is neither"),
        ({"headers": lambda tup: [("name", "text")]}, "headers: ('name', 'text') is not a pair of a name and bytes"),
        ({"headers": lambda tup: [("\ud800", b"")]}, "cannot be written as UTF-8"),
        ({"value": lambda tup: "\ud800"}, "cannot be written as UTF-8"),
        ({"headers": lambda tup: 3}, "headers: the function returned 3"),
        ({"timestamp_ms": lambda tup: "noon"}, "timestamp_ms: the function returned 'noon'"),
        ({"timestamp_ms": lambda tup: -5}, "timestamp_ms: -5 is not a time"),
        ({"partition": lambda tup: 99}, "has no partition 99 (it has 4)"),
        ({"partitioner": lambda key, partitions, available: "first"}, "has no partition 'first'"),
        ({"topic": lambda tup: "no topic!"}, "topic: the function returned 'no topic!'"),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
async def test_a_wrong_result_of_a_function_fails_only_its_tuple(
    kafka: str, new_topic: NewTopic, changes: dict[str, Any], text: str
) -> None:
    topic = await new_topic()
    [(name, wrong)] = changes.items()
    right = {"value": lambda tup: tup["value"], "partitioner": lambda key, partitions, available: 0, "topic": lambda tup: topic}
    usual = right.get(name, lambda tup: None)

    def sometimes(*args: Any) -> Any:
        value = args[0].decode() if name == "partitioner" else args[0]["value"]
        return (wrong if value == "wrong" else usual)(*args)

    changes = {"key": lambda tup: tup["value"], name: sometimes}
    feeder = fed(["a", "wrong", "b"])
    finished = await write(sink_config(kafka, changes.pop("topic", topic), **changes), feeder)
    assert sorted(feeder.acked) == [1, 3]
    assert failed(feeder) == [2]
    assert text in told(finished)
    assert text in (feeder.failed[0][1].error or "")
    assert Counter(await values(kafka, topic)) == Counter([b"a", b"b"])


async def test_an_input_without_the_default_field_ends_the_run(kafka: str, new_topic: NewTopic) -> None:
    with pytest.raises(ComponentError, match=r"stream 'default' of 'fed' has no field 'value' \(it has: word, count\)") as raised:
        await write(sink_config(kafka, await new_topic()), fed([("cow", 3)], "word", "count"))
    assert "value=lambda tup" in str(raised.value)


# Too large


@pytest.mark.guarantee("KS-4", "ACK-16")
async def test_the_dead_letter_of_the_source_says_why_the_sink_failed_it(kafka: str, new_topic: NewTopic) -> None:
    source, dead = await new_topic(partitions=1), await new_topic(partitions=1)
    topic = await new_topic(partitions=1, settings=SMALL)
    await produce(kafka, source, ["small", "x" * 3000])
    reading = settings(kafka, source, translator=lambda record: (record.value,), max_retries=0, dead_letter_topic=dead, stop_at_end=True)
    builder = TopologyBuilder("copying")
    builder.set_spout("lines", lambda: KafkaSpout(reading))
    builder.set_bolt("sink", lambda: KafkaSink(sink_config(kafka, topic))).shuffle_grouping("lines")
    await run_topology_async(builder.build(), Config(), limit_secs=60)
    [letter] = map(read_dead_letter, await written(kafka, dead))
    assert (letter.offset, letter.failure.component_id, letter.failure.reason) == (1, "sink", "failed")
    assert f"a record for topic {topic!r} was refused: " in (letter.failure.error or "")
    assert "MessageSizeTooLargeError" in (letter.failure.error or "")


async def test_only_the_record_above_the_clients_limit_fails(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic()
    feeder = fed(["a", "x" * 5000, "b"])
    finished = await write(sink_config(kafka, topic, max_record_bytes=3000, batch_bytes=3000), feeder)
    assert (sorted(feeder.acked), failed(feeder)) == ([1, 3], [2])
    assert "more than max_record_bytes=3000" in told(finished)
    assert "more than max_record_bytes=3000" in why(feeder)
    assert Counter(await values(kafka, topic)) == Counter([b"a", b"b"])


async def test_only_the_record_above_the_topics_limit_fails(kafka: str, new_topic: NewTopic) -> None:
    """The broker refuses the whole batch. The sender finds the record by halving, and leaves no gap in the sequence numbers."""
    topic = await new_topic(partitions=1, settings=SMALL)
    feeder = fed([*map(str, range(300)), "x" * 3000, *map(str, range(300, 600))])
    finished = await write(sink_config(kafka, topic), feeder)
    assert failed(feeder) == [301]
    assert len(feeder.acked) == 600
    assert "MessageSizeTooLargeError" in told(finished)
    assert "dead_letter_topic=" in told(finished)
    assert "MessageSizeTooLargeError" in why(feeder)
    assert await values(kafka, topic) == [str(number).encode() for number in range(600)]


async def test_batches_above_the_topics_limit_are_split(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1, settings=SMALL)
    feeder = fed(f"{number:100}" for number in range(2000))
    finished = await write(sink_config(kafka, topic), feeder)
    assert finished.errors == ()
    assert len(feeder.acked) == 2000
    assert [int(value) for value in await values(kafka, topic)] == list(range(2000))


async def test_a_record_above_the_limit_becomes_a_dead_letter(kafka: str, new_topic: NewTopic) -> None:
    """The dead letter has key, headers, the error, and the beginning of the value."""
    topic, dead = await new_topic(partitions=1, settings=SMALL), await new_topic(partitions=1, settings=SMALL)
    config = sink_config(kafka, topic, dead_letter_topic=dead, headers=lambda tup: [("trace", b"17")])
    feeder = fed([("a", "small"), ("b", "x" * 3000), ("c", "small")], "key", "value")
    await write(config, feeder)
    assert sorted(feeder.acked) == [1, 2, 3]
    assert [record.key for record in await written(kafka, topic)] == [b"a", b"c"]
    [letter] = map(read_dead_letter, await written(kafka, dead))
    assert (letter.topic, letter.partition, letter.offset) == (topic, 0, None)
    assert (letter.key, letter.value, letter.headers) == (b"b", b"x" * 1024, (("trace", b"17"),))
    assert (letter.is_whole, letter.cut_from_bytes) == (False, 1 + 3000 + 7)
    assert (letter.topology, letter.failure.component_id, letter.failure.reason) == ("writing", "sink", "error")
    assert "MessageSizeTooLargeError" in (letter.failure.error or "")


async def test_a_dead_letter_within_the_topics_limit_is_not_cut(kafka: str, new_topic: NewTopic) -> None:
    topic, dead = await new_topic(partitions=1, settings=SMALL), await new_topic()
    await write(sink_config(kafka, topic, dead_letter_topic=dead), fed(["x" * 3000]))
    [letter] = map(read_dead_letter, await written(kafka, dead))
    assert letter.is_whole
    assert letter.value == b"x" * 3000


async def test_a_record_above_the_limit_can_be_dropped(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1, settings=SMALL)
    feeder = fed(["a", "x" * 3000, "b"])
    finished = await write(sink_config(kafka, topic, on_refused="drop"), feeder)
    assert sorted(feeder.acked) == [1, 2, 3]
    assert "The record is dropped" in told(finished)
    assert await values(kafka, topic) == [b"a", b"b"]


# Invalid


async def test_a_compacted_topic_refuses_records_without_a_key(kafka: str, new_topic: NewTopic) -> None:
    topic, dead = await new_topic(partitions=1, settings={"cleanup.policy": "compact"}), await new_topic()
    feeder = fed([("a", "1"), (None, "2"), ("c", "3")], "key", "value")
    await write(sink_config(kafka, topic, dead_letter_topic=dead), feeder)
    assert sorted(feeder.acked) == [1, 2, 3]
    assert await values(kafka, topic) == [b"1", b"3"]
    [letter] = map(read_dead_letter, await written(kafka, dead))
    assert letter.value == b"2"
    assert "probably because the topic is compacted" in (letter.failure.error or "")


async def test_only_the_record_with_a_refused_timestamp_fails(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1, settings={"message.timestamp.before.max.ms": "3600000"})
    config = sink_config(kafka, topic, timestamp_ms=lambda tup: 1_000 if tup["value"] == "old" else None)
    feeder = fed(["a", "old", "b"])
    finished = await write(config, feeder)
    assert failed(feeder) == [2]
    assert "InvalidTimestampError" in told(finished)
    assert "InvalidTimestampError" in why(feeder)
    assert await values(kafka, topic) == [b"a", b"b"]


async def test_a_function_that_names_an_internal_topic_fails_only_these_tuples(kafka: str, new_topic: NewTopic) -> None:
    """A topic name may come from the data, so it must not end the run."""
    topic, group = await new_topic(partitions=1), fresh_name("group")
    await commit(kafka, group, topic, 0)  # from now on, if not before, the topic of the commits is there
    feeder = fed([topic, "__consumer_offsets", topic])
    finished = await write(sink_config(kafka, lambda tup: tup["value"]), feeder)
    assert (feeder.acked, failed(feeder)) == ([1, 3], [2])
    assert "topic '__consumer_offsets' is internal to the brokers" in why(feeder)
    assert "topic '__consumer_offsets' is internal to the brokers" in told(finished)


async def test_a_sink_for_an_internal_topic_ends_the_run(kafka: str, new_topic: NewTopic) -> None:
    await commit(kafka, fresh_name("group"), await new_topic(partitions=1), 0)
    with pytest.raises(ComponentError, match="topic '__consumer_offsets' is internal to the brokers") as raised:
        await write(sink_config(kafka, "__consumer_offsets"), fed(["a"]))
    assert "Choose a topic that is not internal" in str(raised.value)
