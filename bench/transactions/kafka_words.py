"""Words of a topic counted exactly once in PostgreSQL or Redis.

Each word is a tuple. A batch is up to 5,000 lines of each partition, 2 batches at once. The clock runs from the commit that completes the
first tenth to the end of the run. All counts are then stored, and must include all words.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import engine
from bench.kafka.job import Job, Tally, reading_job
from bench.kafka.topics import WORDS_PER_LINE, lines_topic
from bench.servers import store_url
from engine import BasicBolt, Config, Fields, Topology, Tuple
from engine.kafka.transactional import KafkaBatchSpoutConfig, KafkaTransactionalSpout
from engine.transactional import TransactionalTopologyBuilder
from engine.transactional.values import PostgresValues, RedisValues, ReducingCommitter, ValueMap

VALUES: dict[str, Any] = {"postgres": PostgresValues, "redis": RedisValues}
OPEN_BATCHES = 2


class Split(BasicBolt):
    """Emits each word."""

    output_fields = Fields("word")

    def execute(self, tup: Tuple) -> Iterator[tuple[str]]:
        for word in tup["line"].split():
            yield (word,)


class WordCounts(ReducingCommitter[str, int, int]):
    """Adds words to the counts."""

    keyed_by = ("word",)

    def __init__(self, values: ValueMap, tally: Tally) -> None:
        self.values, self.tally = values, tally

    def execute(self, tup: Tuple) -> None:
        word = tup["word"]
        self.partials[word] = self.partials.get(word, 0) + 1

    def combine(self, stored: int | None, partial: int) -> int:
        return (stored or 0) + partial


class BatchedWordCounts(WordCounts):
    """Tallies the words of each batch."""

    async def finish_batch(self) -> None:
        await super().finish_batch()
        self.tally.count_records(sum(self.partials.values()))


async def measure(records: int, store: str) -> dict[str, float]:
    """Count the words of `records` lines. The coordinator's state is in Redis with the counts, or in SQLite."""
    job, tally = reading_job(records, lines_topic(records)), Tally(records * WORDS_PER_LINE)
    with TemporaryDirectory(prefix="stormcell-bench-") as folder, store_url(store) as url:
        values: ValueMap = VALUES[store](url, f"words_{job.group[-12:]}")
        state_url = url if store == "redis" else f"sqlite:///{Path(folder) / 'ledger.db'}"
        async with engine.run(_topology(job, values, tally), Config(state_provider=state_url)) as run:
            await run.completed()
            ended_at = time.monotonic()
        async with values.reader() as reader:
            counted = sum([number async for _, number in reader.items()])
    if counted != tally.expected:
        raise SystemExit(f"{counted:,} words of {tally.expected:,} are stored")
    return tally.figures(job, ended_at)


def _topology(job: Job, values: ValueMap, tally: Tally) -> Topology:
    source = KafkaBatchSpoutConfig(
        brokers=job.address,
        topics=job.topic,
        translator=lambda record: (record.value.decode(),),
        fields=Fields("line"),
        stop_at_end=True,
    )
    builder = TransactionalTopologyBuilder(job.group, "lines", KafkaTransactionalSpout(source), max_spout_pending=OPEN_BATCHES)
    builder.set_bolt("split", Split).shuffle_grouping("lines")
    builder.set_committer("count", lambda: BatchedWordCounts(values, tally)).fields_grouping("split", "word")
    return builder.build()
