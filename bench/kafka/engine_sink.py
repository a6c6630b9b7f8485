"""`python -m bench.kafka.engine_sink JOB`: const spout -> KafkaSink, every record tracked; from the first emit to the last ack."""

import asyncio

import engine
from bench.kafka.job import Job, Tally, own_job
from bench.kafka.sink_job import fresh_topic, print_appended
from bench.kafka.topics import VALUE
from bench.loops import new_event_loop
from bench.macro.components import ConstSpout
from engine import Config, SpoutExhausted, TopologyBuilder
from engine.kafka import KafkaSink, KafkaSinkConfig


class Records(ConstSpout):
    """Emits so many; the clock starts with the first."""

    def __init__(self, tally: Tally) -> None:
        super().__init__((VALUE,))
        self.tally = tally

    def next_tuple(self) -> None:
        if not self.emitted:
            self.tally.begin()
        elif self.emitted == self.tally.expected:
            raise SpoutExhausted
        super().next_tuple()

    def ack(self, message_id: object) -> None:
        self.tally.add()


async def append(job: Job, tally: Tally) -> None:
    """Append all, and wait until the broker has them."""
    builder = TopologyBuilder("kafka-sink")
    builder.set_spout("records", lambda: Records(tally))
    builder.set_bolt("sink", lambda: KafkaSink(KafkaSinkConfig(brokers=job.address, topic=job.topic))).shuffle_grouping("records")
    async with fresh_topic(job):
        async with engine.run(builder.build(), Config()) as run:
            await run.completed()
        await print_appended(job, tally)


def main() -> None:
    """Print one line of JSON."""
    job = own_job()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(append(job, Tally(job.records)))


if __name__ == "__main__":
    main()
