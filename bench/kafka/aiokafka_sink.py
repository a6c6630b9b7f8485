# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""`python -m bench.kafka.aiokafka_sink JOB`: what aiokafka's producer alone does: `send` without waiting for each, then `flush`.

Idempotent, acks=all, as the sink has it. Lingering 1, 5 or 20 ms, or batches of 64 or 256 KiB, make it no faster than the defaults.
"""

import asyncio

from aiokafka import AIOKafkaProducer

from bench.kafka.job import Job, Tally, own_job
from bench.kafka.sink_job import fresh_topic, print_appended
from bench.kafka.topics import VALUE
from bench.loops import new_event_loop


async def append(job: Job, tally: Tally) -> None:
    """Append all, and wait until the broker has them."""
    async with fresh_topic(job), AIOKafkaProducer(bootstrap_servers=job.address, enable_idempotence=True, acks="all") as producer:
        await producer.partitions_for(job.topic)
        tally.begin()
        for _ in range(job.records):
            await producer.send(job.topic, VALUE)
        await producer.flush()
        tally.add(job.records)
        await print_appended(job, tally)


def main() -> None:
    """Print one line of JSON."""
    job = own_job()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(append(job, Tally(job.records)))


if __name__ == "__main__":
    main()
