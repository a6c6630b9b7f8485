"""The topology that is killed: words counted by key, all together, and copied behind the first committer, in two databases.

lines → split → partial → words → mirror
                        → total
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from engine import BasicBolt, Burst, Topology, Tuple
from engine.transactional import BatchBolt, BurstBolt, FileOpaqueSpout, FileTransactionalSpout, TransactionalTopologyBuilder
from engine.transactional.values import ReduceInto, ValueMap, values_at

LINES: Final = "lines"
PARTITIONS: Final = 4


@dataclass(frozen=True, kw_only=True)
class Places:
    """Names and URLs of one round."""

    name: str
    """Name of the topology, and part of the names of its maps."""
    spout: str
    source: str
    """Folder of the files, or `brokers/topic`."""
    state: str
    words: str
    others: str
    """URLs of the coordinator's state and of the two databases."""
    spark: str = ""
    """Spark's master for the processing phase, `levels` for its levels without a JVM. Empty: the engine runs all."""
    bursts: bool = False
    """Whether `partial` takes bursts."""

    def maps(self) -> dict[str, ValueMap]:
        """Return the map of each committer."""
        urls = {"words": self.words, "total": self.others, "mirror": self.others}
        return {component: values_at(url, f"{component}_{self.name}") for component, url in urls.items()}


class Split(BasicBolt):
    """Splits lines into words."""

    output_fields = "word"

    def execute(self, tup: Tuple) -> list[tuple[str]]:  # type: ignore[override]
        return [(word,) for word in tup["line"].split()]


class Partial(BatchBolt):
    """Counts the words of a batch in this task."""

    output_fields = ("word", "count")

    def prepare(self) -> None:
        self.counts: Counter[str] = Counter()

    def execute(self, tup: Tuple) -> None:
        self.counts[tup["word"]] += 1

    def finish_batch(self) -> None:
        self.collector.emit_many(list(self.counts.items()))


class PartialMany(BurstBolt):
    """Does the same in bursts. It calls `Partial`, so that it dies at the same steps."""

    output_fields = ("word", "count")
    counts: Counter[str]

    def prepare(self) -> None:
        Partial.prepare(self)  # type: ignore[arg-type]

    def execute_many(self, burst: Burst) -> None:
        for tup in burst:
            Partial.execute(self, tup)  # type: ignore[arg-type]

    def finish_batch(self) -> None:
        Partial.finish_batch(self)  # type: ignore[arg-type]


def counting_topology(places: Places, spout: Any, *, pending: int, processes: bool = False) -> Topology:
    """Build a topology with two emitters and three committers, one of them behind another."""
    maps = places.maps()
    builder = TransactionalTopologyBuilder(places.name, LINES, spout, 2, max_spout_pending=pending)
    builder.set_bolt("split", Split, 2, processes=processes).shuffle_grouping(LINES)
    builder.set_bolt("partial", PartialMany if places.bursts else Partial, 2, processes=processes).shuffle_grouping("split")
    words = ReduceInto(maps["words"], key="word", value="count", output_fields=("word", "count"))
    builder.set_bolt("words", words, 2, processes=processes).fields_grouping("partial", "word")
    builder.set_bolt("total", ReduceInto(maps["total"], value="count"), processes=processes).global_grouping("partial")
    mirror = ReduceInto(maps["mirror"], key="word", value="count", reduce=newer)
    builder.set_bolt("mirror", mirror, 1, processes=processes).fields_grouping("words", "word")
    return builder.build()


def newer(_: int, count: int) -> int:
    """Return the new count instead of the stored one."""
    return count


def spout_of(places: Places, *, batch: int) -> Any:
    """Return the spout of a round. `batch`: lines of each partition in a batch."""
    if places.spout.endswith("kafka"):
        return _kafka_spout(places, batch)
    kind = FileOpaqueSpout if places.spout.startswith("opaque") else FileTransactionalSpout
    return kind(places.source, stop_at_end=True, batch_lines=batch)


def _kafka_spout(places: Places, batch: int) -> Any:
    from engine.kafka.transactional import KafkaBatchSpoutConfig, KafkaOpaqueSpout, KafkaTransactionalSpout  # with a client

    brokers, _, topic = places.source.partition("/")
    config = KafkaBatchSpoutConfig(
        brokers=brokers,
        topics=topic,
        translator=_line_of,
        fields="line",
        batch_records=batch,
        batch_wait_ms=5,
        group=places.name,
        stop_at_end=True,
    )
    return KafkaOpaqueSpout(config) if places.spout.startswith("opaque") else KafkaTransactionalSpout(config)


def _line_of(record: Any) -> tuple[str]:
    return (record.value.decode(),)
