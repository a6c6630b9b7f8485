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
from bench.transactions.kafka_words import Split, WordCounts
from engine import Config, Fields, Topology, TopologyBuilder
from engine.kafka import KafkaSpout, KafkaSpoutConfig
from engine.transactional.values import PostgresValues, ValueMap


class PublishedWordCounts(WordCounts):
    """Tallies the words of each interval. An override of `finish_batch` would get the words themselves, and not their counts."""

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
    if tally.warm in (0, tally.expected):
        raise SystemExit(f"{records:,} lines are too few: the clock starts with the first checkpoint that completes a tenth of the words")
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
    builder.set_committer("count", lambda: PublishedWordCounts(values, tally)).fields_grouping("split", "word")
    return builder.build()
