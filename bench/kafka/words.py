"""KafkaSpout -> split -> count, in bursts. Every line is tracked until its words are counted, with a commit every 2 s."""

import asyncio

import engine
from bench.kafka.job import Job, Tally, finish, reading_job
from bench.kafka.source import spout_config
from bench.kafka.topics import lines_topic
from bench.macro.burst_components import CountMany
from bench.measuring import new_event_loop
from engine import Burst, BurstBolt, Config, Fields, TopologyBuilder
from engine.kafka import KafkaSpout


class Split(BurstBolt):
    """Emits each word of a record, anchored."""

    output_fields = Fields("word")

    def execute_many(self, burst: Burst) -> None:
        emit = self.collector.emit_each
        for tup, line in burst.items("value"):
            emit(line.decode().split(), tup)


class CountLines(CountMany):
    """Counts words, and the lines of all its tasks. Sets an event after the last one."""

    def __init__(self, tally: Tally, done: asyncio.Event, words: list[int], words_per_line: int) -> None:
        super().__init__()
        self.tally, self.done, self.words, self.words_per_line = tally, done, words, words_per_line

    def execute_many(self, burst: Burst) -> None:
        super().execute_many(burst)
        before = self.words[0] // self.words_per_line
        self.words[0] += len(burst)
        lines = self.words[0] // self.words_per_line - before
        if lines and self.tally.count_records(lines):
            self.done.set()


def measure(records: int, words: int) -> dict[str, float]:
    """Count the words of a topic of `records` lines. words: in each line."""
    job = reading_job(records, lines_topic(records, words))
    tally = Tally(records)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_count(job, tally, words))
    return finish(job, tally)


async def _count(job: Job, tally: Tally, words_per_line: int) -> None:
    """Count all words with 2 splitters and 4 counters. `stop` commits the offsets."""
    done, words = asyncio.Event(), [0]
    builder = TopologyBuilder("kafka-word-count")
    builder.set_spout("records", lambda: KafkaSpout(spout_config(job)))
    builder.set_bolt("split", Split, 2).shuffle_grouping("records")
    builder.set_bolt("count", lambda: CountLines(tally, done, words, words_per_line), 4).fields_grouping("split", "word")
    async with engine.run(builder.build(), Config()) as run:
        await done.wait()
        await run.drain(30)
