# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,untyped-decorator,unused-ignore"
"""`python -m bench.kafka.faust_app JOB`: Faust (faust-streaming), one worker, one agent, raw values, commits every 2 s."""

import asyncio
from collections.abc import AsyncIterable
from tempfile import TemporaryDirectory

import faust

from bench.kafka.job import COMMIT_SECS, Job, Tally, finish, own_job
from bench.loops import new_event_loop


async def read(job: Job, tally: Tally, folder: str) -> None:
    """Read all; stopping commits."""
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
            if tally.add():
                all_seen.set()

    await app.start()
    await all_seen.wait()
    await app.stop()


def main() -> None:
    """Print one line of JSON."""
    job = own_job()
    tally = Tally(job.records)
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        loop.run_until_complete(read(job, tally, folder))
    finish(job, tally)


if __name__ == "__main__":
    main()
