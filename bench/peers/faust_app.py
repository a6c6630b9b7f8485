# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,untyped-decorator,unused-ignore"
"""Faust (faust-streaming) with one worker, one agent, raw values, and a commit every 2 s."""

import asyncio
from collections.abc import AsyncIterable
from tempfile import TemporaryDirectory

import faust

from bench.kafka.job import COMMIT_SECS, Job, Tally, finish, reading_job
from bench.measuring import new_event_loop


def read(records: int) -> dict[str, float]:
    """Read a topic. Faust uses the current loop when its parts are created."""
    job, tally = reading_job(records), Tally(records)
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        loop.run_until_complete(_read(job, tally, folder))
    return finish(job, tally)


async def _read(job: Job, tally: Tally, folder: str) -> None:
    """Read all records. `stop` commits their offsets."""
    app = faust.App(
        job.group,
        broker=f"kafka://{job.address}",
        broker_commit_interval=COMMIT_SECS,
        consumer_auto_offset_reset="earliest",
        topic_disable_leader=True,
        web_enabled=False,
        datadir=folder,
    )
    records = app.topic(job.topic, value_type=bytes, value_serializer="raw", key_serializer="raw")
    all_seen = asyncio.Event()

    @app.agent(records)
    async def count(stream: AsyncIterable[bytes]) -> None:
        async for _ in stream:
            if tally.count_records():
                all_seen.set()

    await app.start()
    await all_seen.wait()
    await app.stop()
