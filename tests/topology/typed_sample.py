"""User code as a type checker sees it: `mypy --strict` finds no fault here, and the tests build it."""

from collections.abc import AsyncIterator, Iterator, Sequence

from engine.api import BasicBolt, Bolt, FailTuple, Fields, Inlet, Spout, SpoutExhausted, TaskContext, Tuple, Values, bolt, spout
from engine.errors import Failure
from engine.topology import Topology, TopologyBuilder


class Lines(Spout):
    output_fields = {"default": Fields("line"), "late": Fields("line")}
    max_spout_pending = 1000

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = list(lines)

    def open(self) -> None:
        self._sent = self.context.counter("sent")
        self._left = {half: self.context.gauge("left", half=half) for half in ("first", "second")}
        self.context.drop_metric("left", half="first")
        self._next = 0

    async def next_tuple(self) -> None:
        if self._next == len(self._lines):
            raise SpoutExhausted
        self.collector.emit((self._lines[self._next],), message_id=self._next)
        self._sent.add()
        self._next += 1

    def fail(self, message_id: object) -> None:
        failure: Failure | None = self.context.failure
        self.collector.report_error(RuntimeError(f"{message_id}: {failure}"))


class Count(Bolt):
    output_fields = Fields("word", "count")
    tick_tuple_freq_secs = 1.5

    def prepare(self) -> None:
        self._counts: dict[str, int] = {}

    def execute(self, tup: Tuple) -> None:
        if tup.is_tick:
            return
        word: str = tup["word"]
        self._counts[word] = self._counts.get(word, 0) + 1
        self.collector.emit((word, self._counts[word]), anchors=tup)
        self.collector.emit([word, 0], anchors=[tup, tup])
        self.collector.ack(tup)


class Look(Bolt):
    concurrency = 16
    on_error = "fail"

    async def execute(self, tup: Tuple) -> None:
        await self.collector.ready()
        self.collector.fail(tup)


class Upper(BasicBolt):
    output_fields = "word"
    threads = 2

    def execute(self, tup: Tuple) -> Iterator[tuple[str]]:
        if len(tup) == 0:
            raise FailTuple("empty", report=True)
        yield (tup[0].upper(),)


class Shout(BasicBolt):
    output_fields = Fields("word")

    async def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup["word"],), stream="default")


class ByLength:
    def prepare(self, context: TaskContext, stream: str, targets: Sequence[int]) -> None:
        self._targets = targets

    def choose_tasks(self, source_task: int, values: Values) -> Sequence[int]:
        return [self._targets[len(str(values[0])) % len(self._targets)]]


def dead_letter(values: tuple[object, ...], failure: Failure) -> None:
    print(values, failure.describe())


@spout("line", max_retries=5, on_give_up=dead_letter)
def read_lines(path: str, *, encoding: str = "utf-8") -> Iterator[tuple[str]]:
    with open(path, encoding=encoding) as file:
        for line in file:
            yield (line,)


@spout("number", max_retries=None, restartable=True)
async def numbers() -> AsyncIterator[tuple[int]]:
    for number in range(3):
        yield (number,)


@bolt("word")
def split(tup: Tuple) -> Iterator[tuple[str]]:
    for word in tup["line"].split():
        yield (word,)


@bolt("word", concurrency=8)
async def lower(tup: Tuple) -> tuple[str]:
    return (tup["word"].lower(),)


@bolt(on_error="restart", tick_tuple_freq_secs=10)
def sink(tup: Tuple) -> None:
    print(*tup)


@bolt(Fields("word", "length"))
async def measured(tup: Tuple) -> AsyncIterator[tuple[str, int]]:
    yield (tup["word"], len(tup["word"]))


def build() -> Topology:
    builder = TopologyBuilder("typed")
    builder.set_spout("lines", lambda: Lines(["to be", "or not"]), parallelism=2)
    builder.set_spout("book", read_lines("book.txt"), max_spout_pending=100)
    builder.set_spout("more", lambda: read_lines("more.txt", encoding="latin-1"))
    builder.set_spout("numbers", numbers)
    builder.set_spout("in", lambda: Inlet("line", max_waiting=100))
    builder.set_bolt("split", split, parallelism=2).shuffle_grouping("lines").shuffle_grouping("book").shuffle_grouping("in")
    builder.set_bolt("count", Count).fields_grouping("split", "word")
    builder.set_bolt("look", Look, concurrency=32).custom_grouping("count", ByLength).custom_grouping("numbers", ByLength())
    builder.set_bolt("upper", Upper).partial_key_grouping("split", "word")
    builder.set_bolt("lower", lower).all_grouping("upper")
    builder.set_bolt("shout", lambda: Shout()).load_aware_grouping("lower")
    builder.set_bolt("measured", measured).global_grouping("shout")
    builder.set_bolt("sink", sink).none_grouping("measured").shuffle_grouping("more", stream="default")
    return builder.build()
