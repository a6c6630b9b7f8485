"""Bare aiokafka, with a `getmany` loop that reads, and a producer that appends. The engine uses the same client."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from bench.kafka.job import COMMIT_SECS, Job, Tally, filling_job, finish, reading_job
from bench.kafka.topics import PARTITIONS, VALUE, appended_figures, lines_topic, new_topic
from bench.measuring import new_event_loop

TURN = 140
"""Records of one partition before the next partition's turn, about one batch."""


def read(records: int, words: int = 0) -> dict[str, float]:
    """Read a topic of plain records, or of lines of so many words, on uvloop."""
    job, tally = reading_job(records, lines_topic(records, words) if words else ""), Tally(records)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_read(job, tally))
    return finish(job, tally)


def read_on_asyncio(records: int, words: int = 0) -> dict[str, float]:
    """Read a topic of plain records, or of lines of so many words, on asyncio's own loop."""
    job, tally = reading_job(records, lines_topic(records, words) if words else ""), Tally(records)
    asyncio.run(_read(job, tally))
    return finish(job, tally)


async def _read(job: Job, tally: Tally) -> None:
    """Count records by the length of their lists, so that only the cost of aiokafka is measured."""
    await read_until(job, lambda records: tally.count_records(len(records)))


async def read_until(job: Job, take: Callable[[list[Any]], bool]) -> None:
    """Read lists of records until `take` returns True. Commit every 2 s."""
    consumer = AIOKafkaConsumer(
        job.topic, bootstrap_servers=job.address, group_id=job.group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    async with consumer:
        done, commit_at = False, time.monotonic() + COMMIT_SECS
        while not done:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                done = take(records)
            if time.monotonic() >= commit_at:
                await consumer.commit()
                commit_at = time.monotonic() + COMMIT_SECS
        await consumer.commit()


async def append(records: int, partition_turns: bool) -> dict[str, float]:
    """Append records by `send` without a wait for each, then `flush`. Idempotent, acks=all, like the engine's sink.

    The client draws a partition for each record, or the caller names the same partition for about one batch of records. Lingering 1, 5 or
    20 ms, or batches of 64 or 256 KiB, do not make it faster than the defaults.
    """
    job, tally = filling_job(records), Tally(records)
    async with new_topic(job), AIOKafkaProducer(bootstrap_servers=job.address, enable_idempotence=True, acks="all") as producer:
        await producer.partitions_for(job.topic)
        tally.start_clock()
        for number in range(records):
            await producer.send(job.topic, VALUE, partition=number // TURN % PARTITIONS if partition_turns else None)
        await producer.flush()
        tally.count_records(records)
        return await appended_figures(job, tally)
