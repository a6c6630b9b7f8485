"""Word count from Kafka to Kafka. The counts are right at the end, even if the process is killed and restarted many times.

Start a broker in one terminal with `make kafka`, which also creates the topics "lines" and "counts". In another terminal:

    python examples/kafka_word_count.py fill README.md       # writes a record for each line into topic "lines"
    python -m engine run examples/kafka_word_count.py        # counts them until Ctrl-C; try kill -9 too
    python examples/kafka_word_count.py show                 # compares topic "counts" with a plain count of "lines"

You can fill the topic again during the run. Each count in the state is exact, because the checkpoints have the positions of the spout, too.
The topic of the counts is at least once. After a kill some records are written again, but the newest count of a word is always its last
record. The environment variables KAFKA_BROKERS, LINES_TOPIC, COUNTS_TOPIC, KAFKA_GROUP and STATE change the names. To start from zero, use
new names, or delete state and topics together. A topic that was created again has other lines, so the run then ends with an error.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engine
from engine import Config, Fields, FileSpout, StatefulBasicBolt, Topology, TopologyBuilder, Tuple, bolt
from engine.kafka import KafkaRecord, KafkaSink, KafkaSinkConfig, KafkaSpout, KafkaSpoutConfig

BROKERS = os.environ.get("KAFKA_BROKERS", "127.0.0.1:9092")
LINES = os.environ.get("LINES_TOPIC", "lines")
COUNTS = os.environ.get("COUNTS_TOPIC", "counts")
GROUP = os.environ.get("KAFKA_GROUP", "kafka-word-count")
STATE = os.environ.get("STATE", "sqlite:///kafka-word-count.db")


def line_of(record: KafkaRecord) -> tuple[str]:
    """Translate a record to the text of the line, with any bytes."""
    return ((record.value or b"").decode(errors="replace"),)


READING = KafkaSpoutConfig(brokers=BROKERS, topics=LINES, group=GROUP, translator=line_of, fields="line")

WRITING = KafkaSinkConfig(brokers=BROKERS, topic=COUNTS, key=lambda tup: tup["word"], value=lambda tup: str(tup["count"]))


def topology() -> Topology:
    """Return the topology for `python -m engine run`."""
    builder = TopologyBuilder("kafka-word-count", Config(state_provider=STATE, processing_guarantee="exactly_once"))
    builder.set_spout("lines", lambda: KafkaSpout(READING))
    builder.set_bolt("split", split, parallelism=2).shuffle_grouping("lines")
    builder.set_bolt("count", Count, parallelism=4).fields_grouping("split", "word")
    builder.set_bolt("counts", lambda: KafkaSink(WRITING)).global_grouping("count")
    return builder.build()


@bolt("word")
def split(tup: Tuple) -> Iterator[tuple[str]]:
    """Split a line into words."""
    for word in tup["line"].split():
        yield (word,)


class Count(StatefulBasicBolt):
    """Counts the words of its task in the state, and emits each new count."""

    output_fields = Fields("word", "count")

    def execute(self, tup: Tuple) -> tuple[str, int]:
        word = tup["word"]
        count: int = self.state.get(word, 0) + 1
        self.state.put(word, count)
        return word, count


# fill and show are topologies too. They end at the end of the file, and of the topics.


def filling(path: Path) -> Topology:
    """Write each line of a file to topic LINES."""
    builder = TopologyBuilder("fill")
    builder.set_spout("lines", lambda: FileSpout(path, fields="value", errors="replace"))
    builder.set_bolt("write", lambda: KafkaSink(KafkaSinkConfig(brokers=BROKERS, topic=LINES))).global_grouping("lines")
    return builder.build()


def showing(plain: Counter[str], told: dict[str, int]) -> Topology:
    """Read both topics from start to end, into a plain count and the last count of each word."""

    @bolt()
    def count_words(tup: Tuple) -> None:
        plain.update(tup["line"].split())

    @bolt()
    def take(tup: Tuple) -> None:
        told[tup["key"].decode()] = int(tup["value"])

    whole: dict[str, Any] = {"brokers": BROKERS, "membership": "assign", "stop_at_end": True}
    lines = KafkaSpoutConfig(topics=LINES, translator=line_of, fields="line", **whole)
    counts = KafkaSpoutConfig(topics=COUNTS, **whole)
    builder = TopologyBuilder("show")
    builder.set_spout("lines", lambda: KafkaSpout(lines))
    builder.set_spout("counts", lambda: KafkaSpout(counts))
    builder.set_bolt("count_words", count_words).global_grouping("lines")
    builder.set_bolt("take", take).global_grouping("counts")
    return builder.build()


async def play(topology: Topology) -> engine.Snapshot:
    async with engine.run(topology) as run:
        await run.completed()
    return run.snapshot()


def fill(path: Path) -> int:
    written = asyncio.run(play(filling(path))).components["lines"].acked
    print(f"{written:,} lines are in topic {LINES!r}.")
    return 0


def show() -> int:
    plain: Counter[str] = Counter()
    told: dict[str, int] = {}
    asyncio.run(play(showing(plain, told)))
    for word, count in Counter(told).most_common(20):
        print(f"{count:>9,}  {word}")
    if told == plain:
        print("The result equals a plain count of the same text.")
        return 0
    wrong = sum((plain - Counter(told)).values()) + sum((Counter(told) - plain).values())
    print(f"The result differs from a plain count of the same text, by {wrong:,} words. The count is not finished, or its run has failed.")
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Fill a topic with lines, and show what was counted.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fill", help="write the lines of a file").add_argument("path", type=Path)
    commands.add_parser("show", help="the counts, beside a plain count")
    arguments = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # the spouts and sinks report the same, and say what to do
    if arguments.command == "show":
        return show()
    if not arguments.path.is_file():
        parser.error(f"{arguments.path} is no file")
    return fill(arguments.path)


if __name__ == "__main__":
    sys.exit(main())
