"""`python -m bench.transactions.kafka_words STORE URL JOB`: words of a topic counted in PostgreSQL or Redis, exactly once, as JSON.

Each word is a tuple; a batch is up to 5,000 lines of each partition, 2 batches at once. The clock runs from the commit with which a tenth
is done to the end of the run: then all is stored, and the counts must be those of all words.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import engine
from bench.compare.work import print_result
from bench.kafka.job import Job, Tally, job_of
from bench.loops import new_event_loop
from bench.transactions.catalog import WORDS_PER_LINE
from engine import BasicBolt, Config, Fields, Topology, Tuple
from engine.kafka.transactional import KafkaBatchSpoutConfig, KafkaTransactionalSpout
from engine.transactional import TransactionalTopologyBuilder
from engine.transactional.values import PostgresValues, RedisValues, ReducingCommitter, ValueMap

VALUES = {"postgres": PostgresValues, "redis": RedisValues}
OPEN_BATCHES = 2


class Split(BasicBolt):
    """Emits each word."""

    output_fields = Fields("word")

    def execute(self, tup: Tuple) -> Iterator[tuple[str]]:
        for word in tup["line"].split():
            yield (word,)


class WordCounts(ReducingCommitter[str, int, int]):
    """Adds the words of a batch to the counts."""

    keyed_by = ("word",)

    def __init__(self, values: ValueMap, tally: Tally) -> None:
        self.values, self.tally = values, tally

    def execute(self, tup: Tuple) -> None:
        word = tup["word"]
        self.partials[word] = self.partials.get(word, 0) + 1

    def combine(self, stored: int | None, partial: int) -> int:
        return (stored or 0) + partial

    async def finish_batch(self) -> None:
        await super().finish_batch()
        self.tally.add(sum(self.partials.values()))


def word_count(job: Job, values: ValueMap, tally: Tally) -> Topology:
    """The topology: lines, words, counts."""
    source = KafkaBatchSpoutConfig(
        brokers=job.address,
        topics=job.topic,
        translator=lambda record: (record.value.decode(),),
        fields=Fields("line"),
        stop_at_end=True,
    )
    builder = TransactionalTopologyBuilder(job.group, "lines", KafkaTransactionalSpout(source), max_spout_pending=OPEN_BATCHES)
    builder.set_bolt("split", Split).shuffle_grouping("lines")
    builder.set_committer("count", lambda: WordCounts(values, tally)).fields_grouping("split", "word")
    return builder.build()


async def count(job: Job, values: ValueMap, config: Config) -> None:
    """Count all, look whether the counts are right, and print the line of JSON."""
    tally = Tally(job.records * WORDS_PER_LINE)
    async with engine.run(word_count(job, values, tally), config) as run:
        await run.completed()
        ended_at = time.monotonic()
    async with values.reader() as reader:
        counted = sum([number async for _, number in reader.items()])
    if counted != tally.expected:
        raise SystemExit(f"{counted:,} words of {tally.expected:,} are stored")
    times = {"start_secs": tally.first_at - job.started, "whole_secs": ended_at - job.started}
    print_result(tally.expected - tally.warm, ended_at - tally.from_at, **times)


def main() -> None:
    """Print one line of JSON."""
    store, url, job = sys.argv[1], sys.argv[2], job_of(sys.argv[3:])
    make: Any = VALUES[store]
    values = make(url, f"words_{job.group[-12:]}")
    with TemporaryDirectory(prefix="stormcell-bench-") as folder, asyncio.Runner(loop_factory=new_event_loop) as runner:
        ledger = url if store == "redis" else f"sqlite:///{Path(folder) / 'ledger.db'}"
        runner.run(count(job, values, Config(state_provider=ledger)))


if __name__ == "__main__":
    main()
