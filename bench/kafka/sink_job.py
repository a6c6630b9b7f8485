"""A topic that one run of a sink fills, and that is gone after it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.kafka.job import Job, Tally, print_tally
from bench.kafka.topics import PARTITIONS, delete, held_records, ready


@asynccontextmanager
async def fresh_topic(job: Job) -> AsyncIterator[None]:
    """Make the topic of a job, and delete it at the end."""
    await ready(job.address, job.topic)
    try:
        yield
    finally:
        await delete(job.address, job.topic)


async def print_appended(job: Job, tally: Tally) -> None:
    """Print the line of JSON; refuse a run that lost or repeated a record."""
    held = await held_records(job.address, job.topic) - PARTITIONS
    if held != job.records:
        raise SystemExit(f"{held:,} records are in the topic, {job.records:,} were appended")
    print_tally(job, tally)
