"""Words of a topic counted exactly once in PostgreSQL by a plain topology, whose committer publishes at each checkpoint.

The topology does the same as that of `bench.transactions.kafka_words`. The clock runs from the commit that completes the first tenth to the
end of the run. All counts are then stored, and must include all words.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import engine
from bench.kafka.job import Job, Tally, reading_job
from bench.kafka.topics import WORDS_PER_LINE, lines_topic
from bench.servers import store_url
from bench.transactions.kafka_words import Split
from engine import Config, Fields, Topology, TopologyBuilder, Tuple
from engine.kafka import KafkaSpout, KafkaSpoutConfig
from engine.transactional.values import PostgresValues, ReducingCommitter, ValueMap


class WordCounts(ReducingCommitter[str, int, int]):
    """Adds the words of an interval to the counts."""

    keyed_by = ("word",)

    def __init__(self, values: ValueMap, tally: Tally) -> None:
        self.values, self.tally = values, tally

    def execute(self, tup: Tuple) -> None:
        word = tup["word"]
        self.partials[word] = self.partials.get(word, 0) + 1

    def combine(self, stored: int | None, partial: int) -> int:
        return (stored or 0) + partial

    async def publish(self, pieces: Any) -> None:
        await super().publish(pieces)
        self.tally.count_records(sum(number for piece in pieces for _, number in piece))


async def measure(records: int) -> dict[str, float]:
    """Count the words of `records` lines. The checkpoints are in SQLite."""
    job, tally = reading_job(records, lines_topic(records)), Tally(records * WORDS_PER_LINE)
    with TemporaryDirectory(prefix="stormcell-bench-") as folder, store_url("postgres") as url:
        values = PostgresValues(url, f"words_{job.group[-12:]}")
        config = Config(state_provider=f"sqlite:///{Path(folder) / 'ledger.db'}", max_spout_pending="auto")
        async with engine.run(topology(job, values, tally), config) as run:
            await run.completed()
            ended_at = time.monotonic()
        async with values.reader() as reader:
            counted = sum([number async for _, number in reader.items()])
    if counted != tally.expected:
        raise SystemExit(f"{counted:,} words of {tally.expected:,} are stored")
    return tally.figures(job, ended_at)


def topology(job: Job, values: ValueMap, tally: Tally) -> Topology:
    """Return the topology: records -> split -> count."""
    source = KafkaSpoutConfig(
        brokers=job.address,
        topics=job.topic,
        group=job.group,
        translator=lambda record: (record.value.decode(),),
        fields=Fields("line"),
        stop_at_end=True,
    )
    builder = TopologyBuilder(job.group)
    builder.set_spout("lines", lambda: KafkaSpout(source))
    builder.set_bolt("split", Split).shuffle_grouping("lines")
    builder.set_committer("count", lambda: WordCounts(values, tally)).fields_grouping("split", "word")
    return builder.build()
