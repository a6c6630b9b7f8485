"""KafkaSpout -> null bolt. Every record is tracked to its ack, with a commit every 2 s."""

import asyncio

import engine
from bench.kafka.job import COMMIT_SECS, Job, Tally, finish, reading_job
from bench.measuring import new_event_loop
from engine import Bolt, Config, Fields, TopologyBuilder, Tuple
from engine.kafka import KafkaSpout, KafkaSpoutConfig


class Count(Bolt):
    """Counts and acks tuples. Sets an event after the last one."""

    def __init__(self, tally: Tally, done: asyncio.Event) -> None:
        self.tally, self.done = tally, done

    def execute(self, tup: Tuple) -> None:
        if self.tally.count_records():
            self.done.set()
        self.collector.ack(tup)


def spout_config(job: Job) -> KafkaSpoutConfig:
    """Return the default settings, but with the value as the only field, and with the commit period of all contenders."""
    return KafkaSpoutConfig(
        brokers=job.address,
        topics=job.topic,
        group=job.group,
        translator=lambda record: (record.value,),
        fields=Fields("value"),
        offset_commit_period_ms=COMMIT_SECS * 1000,
    )


def measure(records: int) -> dict[str, float]:
    """Read a topic of `records` records."""
    job, tally = reading_job(records), Tally(records)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_read(job, tally))
    return finish(job, tally)


async def _read(job: Job, tally: Tally) -> None:
    """Read all records. `stop` commits their offsets."""
    done = asyncio.Event()
    builder = TopologyBuilder("kafka-source")
    builder.set_spout("records", lambda: KafkaSpout(spout_config(job)))
    builder.set_bolt("null", lambda: Count(tally, done)).shuffle_grouping("records")
    async with engine.run(builder.build(), Config()) as run:
        await done.wait()
        await run.stop()
