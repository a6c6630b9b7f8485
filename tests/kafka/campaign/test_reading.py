"""What Java's producers write is read as Java's consumer reads it: compaction, transactions of each end, and nulls (KS-8)."""

import asyncio
import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.kafka.campaign.java_client import NULLS, JavaClient, Row, java_client
from tests.kafka.campaign.reading import SPOUTS, WAYS, Isolation, read_by
from tests.kafka.transactional.test_compacted_topics import COMPACTED
from tests.patience import PATIENCE_SECS
from tests.servers.kafka_admin import create_topic
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_fixtures import NewBroker, NewTopic

pytestmark = [pytest.mark.guarantee("KS-8"), pytest.mark.guarantee("TX-10"), pytest.mark.deep]
QUICK_CLEANER = {"log.cleaner.backoff.ms": 50, "log.initial.task.delay.ms": 50}
ROLL_SECS = 0.12
"""A little more than segment.ms, so that the next record begins a new segment, and compaction may take the one before."""


async def test_null_keys_values_and_headers_are_read_as_by_java(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = await new_topic(partitions=1)
    async with java_client(kafka) as java:
        for key, value, headers in NULLS:
            await java.put(topic, key, value, headers)
        rows = await java.read(topic)
    assert [row[2:] for row in rows] == [(key, value, tuple(headers)) for key, value, headers in NULLS]
    for way in WAYS:
        assert await read_by(way, kafka, topic, tmp_path) == rows


@pytest.mark.parametrize("seed", range(3))
async def test_a_compacted_topic_with_transactions_is_read_as_by_java(new_broker: NewBroker, tmp_path: Path, seed: int) -> None:
    """Given transactions that were committed, aborted, crashed and left open, and a marker that compaction has emptied.

    Then each spout reads the same records as Java's consumer, with both isolation levels.
    """
    isolation: Isolation
    draws = Random(seed)
    broker = await asyncio.to_thread(new_broker, settings=QUICK_CLEANER)
    kafka = broker.bootstrap
    topic = await create_topic(kafka, "changelog", partitions=1, settings=COMPACTED)
    async with java_client(kafka) as crashing:
        await crashing.put(topic, b"first", b"1")
        await crashing.begin("crashing")
        await crashing.put(topic, b"crashed", b"1")
        await crashing.crash()
    async with java_client(kafka) as java:
        await java.begin("crashing")  # aborts what the crashed process has left open
        await java.put(topic, b"again", b"2", [("null", None)])
        await java.commit()
        for number in range(12):
            await write_something(java, topic, draws, number)
        await until_marker_is_emptied(java, topic, broker)
        for number in range(12, 18):
            await write_something(java, topic, draws, number)
        await java.begin("open")
        await java.put(topic, b"open", b"3")
        await java.leave()
        await java.put(topic, b"behind", b"4")
        for isolation in ("read_committed", "read_uncommitted"):
            rows = await settled(java, topic, isolation)
            assert (b"behind" in [row.key for row in rows]) == (isolation == "read_uncommitted")
            for way in WAYS if isolation == "read_committed" else [way for way in WAYS if way not in SPOUTS]:
                assert await read_by(way, kafka, topic, tmp_path, isolation) == rows, (seed, way, isolation)
            assert await java.read(topic, isolation) == rows


async def write_something(java: JavaClient, topic: str, draws: Random, number: int) -> None:
    """Write a record, or a transaction with some records that is committed or aborted."""
    end: Any = draws.choice([java.commit, java.commit, java.abort, None])
    if end is not None:
        await java.begin(draws.choice(["one", "two"]))
    for _ in range(draws.randrange(1, 4) if end is not None else 1):
        value = draws.choice([None, b"", str(number).encode()])
        await java.put(topic, draws.choice([b"a", b"b", b""]), value, draws.choice([(), [("n", None)], [("n", b"x")]]))
    if end is not None:
        await end()


async def until_marker_is_emptied(java: JavaClient, topic: str, broker: KafkaBroker) -> None:
    """Write records of one key until compaction has left a control batch without its marker."""
    async with asyncio.timeout(PATIENCE_SECS):
        while not emptied_markers(broker.folder, topic):
            await java.put(topic, b"other", b"5")
            await asyncio.sleep(ROLL_SECS)


def emptied_markers(folder: Path, topic: str) -> list[int]:
    """Return the offsets of the control batches of a log that have no record."""
    found = []
    for path in sorted((folder / "records" / f"{topic}-0").glob("*.log")):
        data, at = path.read_bytes(), 0
        while at + 61 <= len(data):
            offset, length = struct.unpack_from(">qi", data, at)
            if length <= 0:
                break
            is_control = struct.unpack_from(">h", data, at + 21)[0] & 0x20
            if is_control and struct.unpack_from(">i", data, at + 57)[0] == 0:
                found.append(offset)
            at += 12 + length
    return found


async def settled(java: JavaClient, topic: str, isolation: str) -> list[Row]:
    """Return what Java's consumer reads, once compaction changes it no more."""
    async with asyncio.timeout(PATIENCE_SECS):
        rows = await java.read(topic, isolation)
        while True:
            await asyncio.sleep(5 * ROLL_SECS)
            before, rows = rows, await java.read(topic, isolation)
            if before == rows:
                return rows
