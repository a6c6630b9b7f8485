# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""`python -m bench.kafka.aiokafka_loop LOOP JOB`: what one writes without an engine: `getmany`, count, commit every 2 s.

LOOP is asyncio or uvloop. Records are counted by the length of their lists, so this is what aiokafka alone costs.
"""

import asyncio
import sys
import time

from aiokafka import AIOKafkaConsumer

from bench.kafka.job import COMMIT_SECS, Job, Tally, finish, job_of
from bench.loops import new_event_loop


async def read(job: Job, tally: Tally) -> None:
    """Read all; commit what was counted."""
    consumer = AIOKafkaConsumer(
        job.topic, bootstrap_servers=job.address, group_id=job.group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    async with consumer:
        done, commit_at = False, time.monotonic() + COMMIT_SECS
        while not done:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                done = tally.add(len(records))
            if time.monotonic() >= commit_at:
                await consumer.commit()
                commit_at = time.monotonic() + COMMIT_SECS
        await consumer.commit()


def main() -> None:
    """Print one line of JSON."""
    loop, job = sys.argv[1], job_of(sys.argv[2:])
    tally = Tally(job.records)
    with asyncio.Runner(loop_factory=new_event_loop if loop == "uvloop" else asyncio.new_event_loop) as runner:
        runner.run(read(job, tally))
    finish(job, tally)


if __name__ == "__main__":
    main()
