"""Format of dead letters, and their delivery to a real broker (KS-4, KS-10)."""

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Failure, UsageError
from engine.kafka.client.admin_client import ClusterConfig
from engine.kafka.dead_letters.dead_letter import (
    MARK,
    PREFIX,
    DeadLetter,
    dead_letter_of,
    is_dead_letter,
    original_headers,
    read_dead_letter,
)
from engine.kafka.dead_letters.replay import DeadLetterSender
from tests.kafka.sink_play import FAILURE, Record, burying, written
from tests.servers.kafka_fixtures import NewTopic
from tests.tiers import cases


def a_letter(record: Any = None, failure: Failure = FAILURE, attempts: int = 4) -> DeadLetter:
    """Return a letter as a spout makes it."""
    return dead_letter_of(record or Record(), failure, attempts, topology="counting", failed_at_ms=1_700_000_001_000)


def as_record(letter: DeadLetter) -> Record:
    """Return the letter that is read back from its record."""
    return Record("dead", 0, 0, 5, letter.key, letter.value, tuple(letter.wire_headers()))


texts = st.text(max_size=20)
reasons = st.sampled_from(["failed", "error", "timeout", "forgotten", "rollback", "task_died"])
failures = st.builds(Failure, reasons, st.none() | texts, st.none() | st.integers(0, 99), st.none() | texts)
contents = st.none() | st.binary(max_size=20)
headers = st.lists(st.tuples(texts | st.just(MARK + "s"), st.binary(max_size=9)), max_size=4).map(tuple)
records = st.builds(Record, st.just("words"), st.integers(0, 9), st.integers(0), st.integers(0), contents, contents, headers)


@pytest.mark.guarantee("KS-4")
@settings(max_examples=cases(50))
@given(records, failures, st.integers(0, 9))
def test_a_letter_is_read_back(record: Record, failure: Failure, attempts: int) -> None:
    letter = a_letter(record, failure, attempts)
    read = read_dead_letter(as_record(letter))
    assert read == letter
    assert read.is_whole
    assert original_headers(as_record(letter).headers) == record.headers


@settings(max_examples=cases(50))
@given(records, failures)
def test_a_letter_that_fails_again_keeps_its_first_failure(record: Record, failure: Failure) -> None:
    first = as_record(a_letter(record))
    second = as_record(a_letter(first, failure))
    assert read_dead_letter(second).failure == failure
    assert read_dead_letter(second).topic == "dead"
    assert original_headers(second.headers) == first.headers


def test_a_cut_letter_keeps_the_beginning_of_its_value() -> None:
    cut = a_letter(Record(key=b"k" * 2000, value=b"v" * 5000, headers=(("h", b"x" * 3000),))).cut()
    assert (cut.key, cut.value, cut.headers) == (b"k" * 1024, b"v" * 1024, ())
    read = read_dead_letter(as_record(cut))
    assert read == cut
    assert (read.is_whole, read.cut_from_bytes) == (False, 2000 + 5000 + 3001)
    nothing = a_letter(Record(key=None, value=None)).cut()
    assert (nothing.key, nothing.value, nothing.headers) == (None, None, (("trace", b"17"),))


def test_a_record_that_is_not_a_letter_is_recognized() -> None:
    assert not is_dead_letter(Record())
    assert original_headers(Record().headers) == Record().headers
    with pytest.raises(UsageError, match=r"words\[3\] offset 17 is no dead letter"):
        read_dead_letter(Record())


def test_a_damaged_letter_is_read_as_far_as_it_goes() -> None:
    damaged = Record(headers=((MARK, b"2"), (PREFIX + "partition", b"many"), (PREFIX + "reason", b"bored"), (PREFIX + "error", b"\xff")))
    letter = read_dead_letter(damaged)
    assert (letter.topic, letter.partition, letter.attempts) == ("", None, 0)
    assert letter.failure == Failure("error", None, None, "bored: \ufffd")


# On a real broker


@pytest.mark.guarantee("KS-4")
async def test_letters_are_done_only_after_they_are_written(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    async with burying(kafka, topic) as (letters, reported):
        contents = [(b"k", b"v"), (None, b"v"), (b"k", None), (None, None)]
        await asyncio.gather(
            *(letters.send_failed_record(Record(key=key, value=value, offset=at), FAILURE, 2) for at, (key, value) in enumerate(contents))
        )
        found = sorted(map(read_dead_letter, await written(kafka, topic)), key=lambda letter: letter.offset or 0)
        assert [(letter.key, letter.value) for letter in found] == contents
        assert found[0] == replace(a_letter(Record(offset=0), attempts=2), failed_at_ms=found[0].failed_at_ms)
        assert reported == []


async def test_only_letters_above_the_limit_are_cut(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1, settings={"max.message.bytes": "3000"})
    async with burying(kafka, topic) as (letters, _):
        sizes = [random.Random(size).choice((10, 500, 4000)) for size in range(40)] + [2_000_000]
        await asyncio.gather(
            *(letters.send_failed_record(Record(value=b"v" * size, offset=at), FAILURE, 1) for at, size in enumerate(sizes))
        )
    found = {letter.offset: letter for letter in map(read_dead_letter, await written(kafka, topic))}
    assert set(found) == set(range(41))
    assert [at for at in range(41) if not found[at].is_whole] == [at for at in range(41) if sizes[at] > 500]


@pytest.mark.parametrize(("partition", "place"), [(1, 1), (5, 0)])
async def test_a_letter_of_a_partition_that_no_longer_exists_goes_to_another_one(partition: int, place: int) -> None:
    class Link:
        async def partitions_of(self, topic: str, timeout_secs: float) -> list[int]:
            return [0, 1]

    sender = DeadLetterSender(ClusterConfig(brokers="127.0.0.1:1"), lambda error: None)
    sender._link = Link()  # type: ignore[assignment]
    letter = replace(a_letter(), key=None, partition=partition)
    assert await sender._partition("words", letter, to_own_partition=True) == place
