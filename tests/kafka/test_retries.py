"""Failed records, and records that cannot be read (KS-4, KS-8)."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
import uvloop

from engine.kafka import ToStream
from engine.kafka.dead_letters.dead_letter_writer import DeadLetterWriter
from tests.kafka.play import Notes, all_of, committed, number, playing, produce, settings
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("KS-4")


async def test_a_failed_record_is_retried_and_does_not_block_others(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(100))
    config, notes = settings(kafka, topic, retry_initial_ms=1500.0, retry_max_ms=1500.0), Notes()
    notes.fail_times = {3: 2}
    got = await all_of(config, notes)
    assert got.count(3) == 3
    assert got[:100] == list(range(100))  # all others came before the first retry
    assert sorted(set(got)) == list(range(100))
    assert len(got) == 102


def test_retries_after_any_pause_happen_on_uvloop(kafka: str, new_topic: NewTopic) -> None:
    """`when` of uvloop's timers fails if less than half a millisecond is left."""

    async def play() -> list[int]:
        topic = await new_topic(partitions=1)
        await produce(kafka, topic, range(300))
        notes = Notes()
        notes.fail_times = {value: value % 7 for value in range(300)}
        return await all_of(settings(kafka, topic, retry_period_ms=0.3), notes)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        got = runner.run(play())
    assert Counter(got) == {value: 1 + value % 7 for value in range(300)}


async def test_nothing_below_a_failed_record_is_committed(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    config, notes = settings(kafka, topic, retry_initial_ms=60_000.0, retry_max_ms=60_000.0), Notes()
    notes.fail_times = {4: 1}
    async with playing(config, notes) as run:
        await notes.until(lambda: run.snapshot().components["kafka"].acked == 9)
        await run.deactivate()
        found = await committed(kafka, config.group or "", topic)
        assert found.offset == 4


async def test_a_record_is_dropped_after_its_retries(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    config, notes = settings(kafka, topic, max_retries=2, on_give_up="drop"), Notes()
    notes.fail_times = {4: 100}
    got = await all_of(config, notes)
    assert got.count(4) == 3
    found = await committed(kafka, config.group or "", topic)
    assert found.offset == 10


@pytest.mark.guarantee("KS-8")
async def test_a_translator_sees_the_whole_record(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    await produce(kafka, topic, [(b"k", b"1"), (b"", None)], partition=1)
    seen: list[Any] = []

    def translate(record: Any) -> tuple[int]:
        seen.append((record.topic, record.partition, record.offset, record.key, record.value, record.headers))
        assert record.timestamp > 1_600_000_000_000
        return (record.offset,)

    assert await all_of(settings(kafka, topic, translator=translate)) == [0, 1]
    assert seen == [(topic, 1, 0, b"k", b"1", ()), (topic, 1, 1, b"", None, ())]


@pytest.mark.guarantee("KS-8")
async def test_a_record_skipped_by_none_counts_as_done(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(1000))
    config = settings(kafka, topic, translator=lambda record: number(record) if int(record.value) % 100 == 0 else None)
    assert await all_of(config) == list(range(0, 1000, 100))
    found = await committed(kafka, config.group or "", topic)
    assert found.offset == 1000


@pytest.mark.guarantee("KS-8")
async def test_a_translator_names_the_stream(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(4))
    config = settings(
        kafka,
        topic,
        fields={"default": "value", "odd": "value"},
        translator=lambda record: ToStream("odd", number(record)) if int(record.value) % 2 else number(record),
    )
    notes = Notes()
    await all_of(config, notes, streams=("default", "odd"))
    assert sorted((tup.stream, tup[0]) for tup in notes.tuples) == [("default", 0), ("default", 2), ("odd", 1), ("odd", 3)]


NONSENSE = [lambda record: 7, lambda record: (1, 2), lambda record: ToStream("nowhere", (1,)), lambda record: int("x"), lambda record: "ab"]


@pytest.mark.guarantee("KS-8")
@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_a_wrong_result_of_a_translator_fails_only_its_record(kafka: str, new_topic: NewTopic, nonsense: Any) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(6))
    tries: list[int] = []

    def translate(record: Any) -> Any:
        if record.offset == 2:
            tries.append(record.offset)
            return nonsense(record)
        return number(record)

    config = settings(kafka, topic, translator=translate, max_retries=3, on_give_up="drop")
    assert await all_of(config) == [0, 1, 3, 4, 5]
    assert len(tries) == 4
    found = await committed(kafka, config.group or "", topic)
    assert found.offset == 6


def total(values: Any) -> int:
    """Function of the user that the translator calls."""
    return int(values["total"])


def order(record: Any) -> tuple[int]:
    """Translator that fails for most records."""
    try:
        return (total(json.loads(record.value)),)
    except KeyError as error:
        raise ValueError("no order") from error


@pytest.mark.guarantee("KS-8")
async def test_a_translator_error_is_reported_with_offset_record_and_user_frames(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, [(b"k1", '{"total": 7}'), (b"k2", "{'" + 5000 * "x"), (None, '{"sum": 7}'), (b"k4", None)])
    config, notes = settings(kafka, topic, translator=order, max_retries=0, on_give_up="drop"), Notes()
    async with playing(config, notes) as run:
        reports: list[Any] = []
        run.on_report.append(reports.append)
        await notes.until(lambda: len([report for report in reports if "could not make" in report.text]) == 3)
    first, second, third = (report for report in reports if "could not make" in report.text)
    assert f"of {topic}-0 offset 1: JSONDecodeError: Expecting property name" in first.text
    assert "Its key is b'k2', its value b\"{'xxxx" in first.text
    assert "(5,002 bytes)" in first.text
    assert len(first.text) < 800
    assert "Its key is None, its value b'{\"sum\": 7}'" in second.text
    assert "Its key is b'k4', its value None" in third.text
    for report in (first, second):
        assert f'File "{__file__}", line' in report.traceback
        assert "in order" in report.traceback
    assert "in total" in second.traceback, "the cause that the user has chained"
    assert "frames of the standard library" in first.traceback
    assert "_native" not in first.traceback


class Untellable(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.guarantee("KS-8")
async def test_a_translator_error_without_a_text_fails_only_its_record(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(4))

    def translate(record: Any) -> tuple[int]:
        if record.offset == 1:
            raise Untellable
        return number(record)

    assert await all_of(settings(kafka, topic, translator=translate, max_retries=1, on_give_up="drop")) == [0, 2, 3]


@pytest.mark.guarantee("KS-1")
async def test_at_most_once_repeats_nothing_while_a_dead_letter_is_in_flight(
    kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, dead = await new_topic(partitions=1), await new_topic(partitions=1)
    await produce(kafka, topic, ["x", *range(1, 10)])
    sent: list[Any] = []
    monkeypatch.setattr(DeadLetterWriter, "_place", lambda letters, ticket: sent.append(ticket))  # they never arrive
    config, notes = settings(kafka, topic, guarantee="at_most_once", dead_letter_topic=dead), Notes()
    async with playing(config, notes):
        await notes.until(lambda: len(notes.got) == 9 and sent)
    found = await committed(kafka, config.group or "", topic)
    assert found.offset == 10
