"""`python -m bench.kafka.engine_source JOB`: KafkaSpout -> null bolt, every record tracked to its ack, commits every 2 s."""

import asyncio

import engine
from bench.kafka.job import COMMIT_SECS, Job, Tally, finish, own_job
from bench.loops import new_event_loop
from engine import Bolt, Config, Fields, TopologyBuilder, Tuple
from engine.kafka import KafkaSpout, KafkaSpoutConfig


class Count(Bolt):
    """Counts and acks; tells when it has all."""

    def __init__(self, tally: Tally, done: asyncio.Event) -> None:
        self.tally, self.done = tally, done

    def execute(self, tup: Tuple) -> None:
        if self.tally.add():
            self.done.set()
        self.collector.ack(tup)


def spout_config(job: Job) -> KafkaSpoutConfig:
    """The defaults, but for what all contenders share: the value alone, and how often is committed."""
    return KafkaSpoutConfig(
        brokers=job.address,
        topics=job.topic,
        group=job.group,
        translator=lambda record: (record.value,),
        fields=Fields("value"),
        offset_commit_period_ms=COMMIT_SECS * 1000,
    )


async def read(job: Job, tally: Tally) -> None:
    """Read all; stopping commits."""
    done = asyncio.Event()
    builder = TopologyBuilder("kafka-source")
    builder.set_spout("records", lambda: KafkaSpout(spout_config(job)))
    builder.set_bolt("null", lambda: Count(tally, done)).shuffle_grouping("records")
    async with engine.run(builder.build(), Config()) as run:
        await done.wait()
        await run.stop()


def main() -> None:
    """Print one line of JSON."""
    job = own_job()
    tally = Tally(job.records)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(read(job, tally))
    finish(job, tally)


if __name__ == "__main__":
    main()
