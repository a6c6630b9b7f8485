# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""`python -m bench.kafka.aiokafka_sink CHOICE JOB`: what aiokafka's producer alone does: `send` without waiting for each, then `flush`.

Idempotent, acks=all, as the sink has it. Lingering 1, 5 or 20 ms, or batches of 64 or 256 KiB, make it no faster than the defaults. CHOICE
is `free`, where the client draws a partition for each record, or `turns`, where it is told one for about a batch of records, then the next.
"""

import asyncio
import sys

from aiokafka import AIOKafkaProducer

from bench.kafka.job import Job, Tally, job_of
from bench.kafka.sink_job import fresh_topic, print_appended
from bench.kafka.topics import PARTITIONS, VALUE
from bench.loops import new_event_loop

TURN = 140
"""Records of one partition before the next one's turn: a batch."""


async def append(choice: str, job: Job, tally: Tally) -> None:
    """Append all, and wait until the broker has them."""
    async with fresh_topic(job), AIOKafkaProducer(bootstrap_servers=job.address, enable_idempotence=True, acks="all") as producer:
        await producer.partitions_for(job.topic)
        tally.begin()
        for number in range(job.records):
            await producer.send(job.topic, VALUE, partition=number // TURN % PARTITIONS if choice == "turns" else None)
        await producer.flush()
        tally.add(job.records)
        await print_appended(job, tally)


def main() -> None:
    """Print one line of JSON."""
    choice, job = sys.argv[1], job_of(sys.argv[2:])
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(append(choice, job, Tally(job.records)))


if __name__ == "__main__":
    main()
