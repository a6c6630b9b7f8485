# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""The works on Bytewax with one worker and no tracking. Also its own Kafka source with its recovery store.

The null bolt is a filter that keeps no item, called per item. The source returns whole lists without a call per item. Word count has three
forms, because Bytewax offers several, and they differ by a factor of three or more:

- `running`: `stateful_map`, its usual way to keep a value per key. Each word is sent to its key, and the new count is emitted.
- `logic`: `stateful` with an own logic class, the layer below. Each word is sent to its key, and nothing is emitted.
- `final`: `count_final`, which adds up the words of each batch in a dict first. A key sees one number per batch, not words.
"""

import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import run_main

from bench.kafka.job import COMMIT_SECS, LIBRDKAFKA, Tally, finish, reading_job
from bench.measuring import rate_figures
from bench.texts import SENTENCE, units_of


class ConstPartition(StatelessSourcePartition[str]):
    """Yields the same item in lists of `batch`. Notes the time of the first call."""

    started = 0.0

    def __init__(self, item: str, items: int, batch: int) -> None:
        self.item, self.left, self.batch = item, items, batch

    def next_batch(self) -> list[str]:
        if not ConstPartition.started:
            ConstPartition.started = time.perf_counter()
        if not self.left:
            raise StopIteration
        taken = min(self.batch, self.left)
        self.left -= taken
        return [self.item] * taken


class ConstSource(DynamicSource[str]):
    """Builds the single partition."""

    def __init__(self, item: str, items: int, batch: int) -> None:
        self.arguments = (item, items, batch)

    def build(self, step_id: str, worker_index: int, worker_count: int) -> ConstPartition:
        return ConstPartition(*self.arguments)


class LastCounts(StatelessSinkPartition[Any]):
    """Keeps the last count of each word."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts

    def write_batch(self, items: list[Any]) -> None:
        self.counts.update(items)


class CountsSink(DynamicSink[Any]):
    """Builds the single partition. A flow must end in an output, even if no item arrives."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def build(self, step_id: str, worker_index: int, worker_count: int) -> LastCounts:
        return LastCounts(self.counts)


class NullBolt:
    """Counts items and keeps none."""

    def __init__(self) -> None:
        self.executed = 0

    def execute(self, item: str) -> bool:
        self.executed += 1
        return False


class KeyCount(op.StatefulLogic[int, int, int]):
    """Count of one word, emitted at the end."""

    def __init__(self) -> None:
        self.count = 0

    def on_item(self, value: int) -> tuple[Iterable[int], bool]:
        self.count += value
        return (), op.StatefulLogic.RETAIN

    def on_eof(self) -> tuple[Iterable[int], bool]:
        return (self.count,), op.StatefulLogic.DISCARD

    def snapshot(self) -> int:
        return self.count


def running_count(state: int | None, value: int) -> tuple[int, int]:
    """Return the new state, and the count to emit."""
    count = (state or 0) + value
    return count, count


def run_work(work: str, tuples: int, batch: int, count_by: str) -> dict[str, float]:
    """Run a work in batches of `batch` items."""
    null, sink, dataflow = NullBolt(), CountsSink(), Dataflow("peer")
    stream = op.input("spout", dataflow, ConstSource(SENTENCE if work == "word-count" else "hello", tuples, batch))
    if work == "word-count":
        stream = _counted(op.flat_map("split", stream, str.split), count_by)
    else:
        if work == "const-id-null":
            stream = op.map("id", stream, lambda value: value)
        stream = op.filter("null", stream, null.execute)
    op.output("out", stream, sink)
    run_main(dataflow)
    secs = time.perf_counter() - ConstPartition.started
    units = units_of(work, tuples)
    done = sum(sink.counts.values()) if work == "word-count" else null.executed
    if done != units:
        raise SystemExit(f"{done} units came out of {units}")
    return rate_figures(units, secs)


def _counted(words: Any, count_by: str) -> Any:
    if count_by == "final":
        return op.count_final("count", words, lambda word: word)
    pairs = op.map("pair", words, lambda word: (word, 1))
    if count_by == "logic":
        return op.stateful("count", pairs, lambda resumed: KeyCount())
    return op.stateful_map("count", pairs, running_count)


def read(records: int) -> dict[str, float]:
    """Read a topic. Bytewax commits its offsets to its own SQLite files instead of Kafka, every 2 s here.

    A filter counts and keeps no item, like in the other works. Batches have 1,000 items, the default.
    """
    from bytewax.connectors.kafka import KafkaSource

    job, tally = reading_job(records), Tally(records)

    def count(record: Any) -> bool:
        tally.count_records()
        return False

    dataflow = Dataflow("peer")
    stream = op.input("records", dataflow, KafkaSource([job.address], [job.topic], tail=False, add_config=LIBRDKAFKA))
    op.output("out", op.filter("null", stream, count), CountsSink())
    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        init_db_dir(Path(folder), 1)
        run_main(dataflow, epoch_interval=timedelta(seconds=COMMIT_SECS), recovery_config=RecoveryConfig(folder))
    return finish(job, tally, committed=False)
