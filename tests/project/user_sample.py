"""A user's own code with type hints: it must pass mypy --strict against the installed package."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import assert_type

import engine
from engine import (
    BasicBolt,
    Bolt,
    CheckpointEntry,
    CheckpointSnapshot,
    ComponentError,
    Config,
    EngineError,
    FailTuple,
    Failure,
    Fields,
    FlowEntry,
    FlowSnapshot,
    Inlet,
    Spout,
    SpoutExhausted,
    TopologyBuilder,
    TransactionalTopologyBuilder,
    Tuple,
    TupleFailed,
    bolt,
    spout,
    stateful_bolt,
)
from engine.transactional import MemoryTransactionalSpout

SENTENCES = ("the quick brown fox", "jumps over the lazy dog", "the end")
SOURCE = MemoryTransactionalSpout([(line,) for line in SENTENCES], "line", take=1)


class Lines(Spout):
    """Emits the sentences, and each that failed once more."""

    output_fields = Fields("line")

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.waiting: list[int] = []
        self.last_failure: Failure | None = None

    def open(self) -> None:
        self.waiting = list(range(len(self.lines)))
        self.context.gauge("lines").set(len(self.lines))

    def next_tuple(self) -> None:
        if not self.waiting:
            raise SpoutExhausted
        number = self.waiting.pop(0)
        self.collector.emit((self.lines[number],), message_id=number)

    def ack(self, message_id: object) -> None:
        self.context.counter("done").add()

    def fail(self, message_id: int) -> None:
        self.last_failure = self.context.failure
        self.waiting.append(message_id)


@spout("line", max_retries=3)
def few_lines() -> Iterator[tuple[str]]:
    """A source from a generator."""
    for line in SENTENCES:
        yield (line,)


@spout("line", burst=True)
def lists_of_lines() -> Iterator[list[tuple[str]] | None]:
    """A source from a generator of lists."""
    yield None
    yield [(line,) for line in SENTENCES]


@spout("line")
async def slow_lines() -> AsyncIterator[tuple[str]]:
    """A source from an async generator."""
    for line in SENTENCES:
        await asyncio.sleep(0)
        yield (line,)


@bolt("word")
def split(tup: Tuple) -> Iterator[tuple[str]]:
    """A bolt from a function; each yield is an anchored emit."""
    line: str = tup["line"]
    for word in line.split():
        yield (word,)


class Upper(BasicBolt):
    """Emits by its collector, on two streams."""

    output_fields = {"default": Fields("word"), "late": Fields("word")}

    async def execute(self, tup: Tuple) -> None:
        if not tup["word"]:
            raise FailTuple("an empty word")
        await asyncio.sleep(0)
        self.collector.emit((tup[0].upper(),))


class Count(Bolt):
    """Anchors and acks by hand."""

    output_fields = Fields("word", "count")

    def prepare(self) -> None:
        self.counts: dict[str, int] = {}
        self.seen = self.context.histogram("word_length")

    def execute(self, tup: Tuple) -> None:
        word: str = tup["word"]
        self.seen.record(len(word))
        self.counts[word] = self.counts.get(word, 0) + 1
        self.collector.emit((word, self.counts[word]), anchors=tup)
        self.collector.ack(tup)


@bolt()
def show(tup: Tuple) -> None:
    """Prints what comes to it."""
    print(tup["word"], tup["count"], tup.source_component, flush=True)


def build() -> TopologyBuilder:
    """The topology that runs from the command line."""
    builder = TopologyBuilder("sample")
    builder.set_spout("lines", lambda: Lines(SENTENCES), max_spout_pending=100)
    builder.set_spout("few", few_lines)
    builder.set_spout("slow", slow_lines)
    builder.set_bolt("split", split, parallelism=2).shuffle_grouping("lines").shuffle_grouping("few").shuffle_grouping("slow")
    builder.set_bolt("upper", Upper, concurrency=4).local_or_shuffle_grouping("split")
    builder.set_bolt("count", Count, parallelism=4).fields_grouping("upper", "word")
    builder.set_bolt("show", show).global_grouping("count")
    return builder


def misspelt(batches: TransactionalTopologyBuilder) -> None:
    """Never called. A type checker must report each of these settings: mypy reports an ignore that nothing needs."""
    builder = TopologyBuilder("misspelt")
    builder.set_spout("lines", few_lines, max_spout_pendign=100)  # type: ignore[call-arg]
    builder.set_spout("lines", few_lines, concurrency=2)  # type: ignore[call-arg]
    builder.set_bolt("split", split, paralelism=2)  # type: ignore[call-arg]
    builder.set_bolt("upper", Upper, concurrency="4")  # type: ignore[arg-type]
    builder.set_bolt("upper", Upper, on_error="retry")  # type: ignore[arg-type]
    batches.set_bolt("split", split, thread=2)  # type: ignore[call-arg]
    batches.set_committer("count", Count, on_eror="stop")  # type: ignore[call-arg]
    TransactionalTopologyBuilder("misspelt", "lines", SOURCE, max_pending=8)  # type: ignore[call-arg]
    bolt("word", concurency=4)  # type: ignore[call-overload]
    spout("line", retries=3)  # type: ignore[call-overload]
    stateful_bolt("word", on_error="retry")  # type: ignore[arg-type]


sample = build().build()


async def serve() -> int:
    """Embed a run, and feed it."""
    builder = TopologyBuilder("service")
    builder.set_spout("in", lambda: Inlet("line"))
    builder.set_bolt("split", split).shuffle_grouping("in")
    config = Config(message_timeout_secs=5, acker_executors=2)
    async with engine.run(builder.build(), config) as run:
        inlet = run.inlet("in")
        try:
            await inlet.send(("a line",))
        except TupleFailed as failed:
            print(failed.failure.reason)
        await run.deactivate()
        await run.activate()
        print(snapshot := run.snapshot())
        assert_type(snapshot.entry(CheckpointEntry).value, CheckpointSnapshot | None)
        assert_type(snapshot.entry(FlowEntry).value, tuple[FlowSnapshot, ...])
        text: str = run.metrics_text()
        inlet.close()
        await run.completed()
    async with engine.run(build().build()) as run:
        await run.drain()
        await run.stop()
    return len(text)


def test_a_function_without_a_topology() -> None:
    """A mapping takes the place of the input, and the type of the result is known."""
    assert_type(split.function({"line": "to be"}), Iterator[tuple[str]])
    assert list(split.function({"line": "to be"})) == [("to",), ("be",)]


if __name__ == "__main__":
    test_a_function_without_a_topology()
    try:
        print(asyncio.run(serve()))
    except ComponentError as error:
        print(error.component_id)
        sys.exit(1)
    except EngineError as error:
        print(error.hint)
        sys.exit(2)
