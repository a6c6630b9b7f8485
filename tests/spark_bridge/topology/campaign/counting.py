"""The topology of the campaign: counts words of files, with kill points in its bolts, into one of five stores."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from engine import BasicBolt, Burst, Topology, Tuple
from engine.transactional import BatchBolt, BurstBolt, FileCommitter, FileTransactionalSpout, TransactionalTopologyBuilder
from engine.transactional.values import ReduceInto, values_at
from tests.spark_bridge.topology.campaign.places import Life, Places
from tests.spark_bridge.topology.campaign.striking import strike_at


class Split(BasicBolt):
    """Splits lines into words."""

    output_fields = "word"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        strike_at(self.folder, "split: prepare")

    def execute(self, tup: Tuple) -> list[tuple[str]]:
        strike_at(self.folder, "split: execute")
        return [(word,) for word in tup["line"].split()]


class Count(BatchBolt):
    """Counts the words of a batch."""

    output_fields = ("word", "count")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts: Counter[str] = Counter()

    def execute(self, tup: Tuple) -> None:
        strike_at(self.folder, "count: execute")
        self.counts[tup["word"]] += 1

    def finish_batch(self) -> None:
        self.collector.emit_many(list(self.counts.items()))
        strike_at(self.folder, "count: finish")

    def cleanup(self) -> None:
        strike_at(self.folder, "count: cleanup")


class CountMany(BurstBolt, Count):  # type: ignore[misc]
    """Does the same in bursts."""

    def execute_many(self, burst: Burst) -> None:
        strike_at(self.folder, "count: execute")
        self.counts.update(burst["word"])


def topology_of(life: Life) -> Topology:
    """Return the topology of a process."""
    places = life.places
    folder, processes = places.path(""), "processes" in places.bolts
    spout = FileTransactionalSpout(places.path("lines"), stop_at_end=True, batch_lines=life.batch)
    builder = TransactionalTopologyBuilder(places.name, "lines", spout, 2, max_spout_pending=life.pending)
    builder.set_bolt("split", partial(Split, folder), 2, processes=processes).shuffle_grouping("lines")
    count = partial(CountMany if "bursts" in places.bolts else Count, folder)
    builder.set_bolt("count", count, 2, processes=processes).fields_grouping("split", "word")
    builder.set_committer("words", committer_of(places), 2, processes=processes).fields_grouping("count", "word")
    return builder.build()


def committer_of(places: Places) -> Any:
    """Return the committer of a round."""
    match places.store:
        case "files":
            return FileCommitter(places.path("counts"))
        case "kafka":
            from engine.kafka.transactional import KafkaCommitter, KafkaCommitterConfig  # with a client

            config = KafkaCommitterConfig(brokers=places.url, topic=places.name, keyed_by="word", key=_word, value=_count)
            return partial(KafkaCommitter, config)
        case _:
            return ReduceInto(values_at(places.url, f"words_{places.name}"), key="word", value="count")


def _word(tup: Tuple) -> str:
    return str(tup["word"])


def _count(tup: Tuple) -> str:
    return str(tup["count"])
