"""Const spout -> KafkaSink. Every record is tracked, from the first emit to the last ack."""

import engine
from bench.kafka.job import Tally, filling_job
from bench.kafka.topics import VALUE, appended_figures, new_topic
from bench.macro.components import FiniteSpout
from engine import Config, TopologyBuilder
from engine.kafka import KafkaSink, KafkaSinkConfig


class Records(FiniteSpout):
    """Emits a number of records. The clock starts with the first one."""

    def __init__(self, tally: Tally) -> None:
        super().__init__((VALUE,), tally.expected)
        self.tally = tally

    def next_tuple(self) -> None:
        if not self.emitted:
            self.tally.start_clock()
        super().next_tuple()

    def ack(self, message_id: object) -> None:
        self.tally.count_records()


async def measure(records: int) -> dict[str, float]:
    """Append `records` records, and wait until the broker has acknowledged them."""
    job, tally = filling_job(records), Tally(records)
    builder = TopologyBuilder("kafka-sink")
    builder.set_spout("records", lambda: Records(tally))
    builder.set_bolt("sink", lambda: KafkaSink(KafkaSinkConfig(brokers=job.address, topic=job.topic))).shuffle_grouping("records")
    async with new_topic(job):
        async with engine.run(builder.build(), Config()) as run:
            await run.completed()
        return await appended_figures(job, tally)
