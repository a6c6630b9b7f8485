# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""`python -m bench.compare.bytewax_flow WORK TUPLES BATCH FORM`: the same works on Bytewax, one worker, nothing tracked.

The null bolt is a filter that keeps nothing, called per item. The source hands over whole lists without a call per item.
Word count has three forms, for Bytewax offers several and they differ by a factor of three or more:

- `running`: `stateful_map`, its usual way to keep a value per key; each word goes to its key, whose new count goes on.
- `logic`: `stateful` with a logic class of one's own, the layer below; each word goes to its key, and nothing goes on.
- `final`: `count_final`; adds up the words of each batch in a dict first, so that a key sees one number per batch, not words.
"""

import sys
import time
from collections.abc import Iterable
from typing import Any, ClassVar

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

from bench.compare.work import SENTENCE, print_result, units_of


class ConstPartition(StatelessSourcePartition[str]):
    """Yields the same item in lists of `batch`; remembers when it was first asked."""

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
    """Builds the one partition."""

    def __init__(self, item: str, items: int, batch: int) -> None:
        self.arguments = (item, items, batch)

    def build(self, step_id: str, worker_index: int, worker_count: int) -> ConstPartition:
        return ConstPartition(*self.arguments)


class Seen(StatelessSinkPartition[Any]):
    """Keeps the last count of each word."""

    counts: ClassVar[dict[str, int]] = {}

    def write_batch(self, items: list[Any]) -> None:
        Seen.counts.update(items)


class SeenSink(DynamicSink[Any]):
    """Builds the one partition."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Seen:
        return Seen()


class NullBolt:
    """Counts and drops what it gets."""

    def __init__(self) -> None:
        self.executed = 0

    def execute(self, item: str) -> bool:
        self.executed += 1
        return False


class KeyCount(op.StatefulLogic[int, int, int]):
    """The count of one word; says it at the end."""

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
    """Return the new state and what goes on: the count."""
    count = (state or 0) + value
    return count, count


def counted(words: Any, form: str) -> Any:
    """Describe the counts of a stream of words."""
    if form == "final":
        return op.count_final("count", words, lambda word: word)
    pairs = op.map("pair", words, lambda word: (word, 1))
    if form == "logic":
        return op.stateful("count", pairs, lambda resumed: KeyCount())
    return op.stateful_map("count", pairs, running_count)


def flow(work: str, batch: int, form: str, tuples: int, null: NullBolt) -> Dataflow:
    """Describe the dataflow of a work."""
    dataflow = Dataflow("peer")
    item = SENTENCE if work == "word-count" else "hello"
    stream = op.input("spout", dataflow, ConstSource(item, tuples, batch))
    if work == "word-count":
        words = op.flat_map("split", stream, str.split)
        op.output("out", counted(words, form), SeenSink())
        return dataflow
    if work == "const-id-null":
        stream = op.map("id", stream, lambda value: value)
    op.output("out", op.filter("null", stream, null.execute), SeenSink())
    return dataflow


def main() -> None:
    """Print one line of JSON."""
    work, tuples, batch, form = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    null = NullBolt()
    run_main(flow(work, batch, form, tuples, null))
    secs = time.perf_counter() - ConstPartition.started
    units = units_of(work, tuples)
    done = sum(Seen.counts.values()) if work == "word-count" else null.executed
    if done != units:
        raise SystemExit(f"{done} units came out of {units}")
    print_result(units, secs)


if __name__ == "__main__":
    main()
