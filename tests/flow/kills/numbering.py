"""The killed topology: numbered records, and bolts that are slow, fail, or stall.

numbers → work → keep

A record is (task of the spout, number). It is done when `keep` has noted it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from engine import BasicBolt, FailTuple, FlowControlBolt, FlowControlSpout, FlowProducer, FlowSettings, Topology, TopologyBuilder, Tuple
from tests.flow.kills.journal import Journal

NUMBERS: Final = "numbers"
NAME: Final = "numbering"
FILE_LINES: Final = (1, 7, 120, 2, 400, 33)
"""Lengths of the files of a task, repeated in this order."""
WORKERS: Final = 4
SLOW, FAILING, STALLING = 1, 2, 3
"""Tasks of `work`. The first is neither slow nor faulty."""
SERVICE_SECS: Final = 0.0005
SLOW_SECS: Final = 0.003
STALL_SECS: Final = 0.25
TIMEOUT_SECS: Final = 0.1

Record: TypeAlias = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Places:
    """Paths and variant of one round."""

    folder: str
    state: str
    """The URL of the state provider."""
    positions: str
    producer: str
    tasks: int
    count: int
    """Records of each task of the spout."""
    processes: bool = False
    """Whether the tasks of `work` are in processes."""

    @property
    def journal(self) -> Path:
        """Path of the journal."""
        return Path(self.folder) / "journal"

    def file(self, task: int, index: int) -> Path:
        """Return the path of a file that a task of the spout reads."""
        return Path(self.folder) / f"lines-{task}-{index:05d}"

    def position_of(self, number: int) -> Any:
        """Return the position of a record."""
        if self.positions == "offset":
            return number
        return str(number) if self.positions == "text" else _line_of(number)

    def number_of(self, position: Any) -> int:
        """Return the number of the record at a position, 0 for None. Raises ValueError if the position was changed."""
        if position is None:
            return 0
        number = _number_of(*position) if self.positions == "line" else int(position)
        if self.position_of(number) != position or type(position) is not type(self.position_of(number)):
            raise ValueError(f"{position!r} is no position of the kind {self.positions!r}")
        return number


def _line_of(number: int) -> tuple[str, int]:
    index = 0
    while number > (lines := FILE_LINES[index % len(FILE_LINES)]):
        number -= lines
        index += 1
    return f"{index:05d}", number


def _number_of(file: str, line: int) -> int:
    return sum(FILE_LINES[index % len(FILE_LINES)] for index in range(int(file))) + line


def write_files(places: Places) -> None:
    """Write the files for producers whose positions are lines."""
    for task in range(places.tasks):
        lines = iter(range(1, places.count + 1))
        index = 0
        while part := list(islice(lines, FILE_LINES[index % len(FILE_LINES)])):
            places.file(task, index).write_text("".join(f"{task} {number}\n" for number in part))
            index += 1


class Numbers(FlowProducer):
    """Yields the records of one task, and None at every 61st."""

    def __init__(self, places: Places, journal: Journal) -> None:
        self.places, self.journal = places, journal

    def records(self, after: Any) -> Iterator[tuple[Any, Record] | None]:
        for number, record in self.behind(after):
            if number % 61 == 0:
                yield None
            yield self.places.position_of(number), record

    def behind(self, after: Any) -> Iterator[tuple[int, Record]]:
        """Yield the records behind a position, with their numbers."""
        number = self.places.number_of(after)
        self.journal.note("opened", self.context.task_index, number)
        for record in self.read(number):
            number += 1
            yield number, record

    def read(self, number: int) -> Iterator[Record]:
        """Yield the records behind a number."""
        task = self.context.task_index
        if self.places.positions != "line":
            yield from ((task, each) for each in range(number + 1, self.places.count + 1))
            return
        name, line = _line_of(number) if number else ("0", 0)
        index = int(name)
        while (path := self.places.file(task, index)).exists():
            for text in islice(path.read_text().splitlines(), line, None):
                yield int(text.split()[0]), int(text.split()[1])
            index, line = index + 1, 0


class AsyncNumbers(Numbers):
    """Yields the same from an async generator that waits."""

    async def records(self, after: Any) -> AsyncIterator[tuple[Any, Record] | None]:  # type: ignore[override]
        for number, record in self.behind(after):
            if number % 61 == 0:
                await asyncio.sleep(0.001)
            yield self.places.position_of(number), record


class NotingSpout(FlowControlSpout):
    """Notes the last record that it has sent."""

    def __init__(self, producer: Numbers, settings: FlowSettings) -> None:
        super().__init__(producer, settings)
        self.journal = producer.journal
        self.sent = 0

    def next_tuple(self) -> None:
        super().next_tuple()
        assert self._controller is not None
        assert self._keeper is not None
        if self._controller.sent_records > self.sent:
            self.sent = self._controller.sent_records
            self.journal.note("sent", self.context.task_index, self._keeper._done_before + self.sent)


class Work(FlowControlBolt):
    """Emits records: one task is slow, one fails, one stalls."""

    output_fields = ("task", "number")

    def prepare(self) -> None:
        self.seen = 0

    async def process(self, record: Record) -> Record:
        self.seen += 1
        index = self.context.task_index
        await asyncio.sleep(SLOW_SECS if index == SLOW else SERVICE_SECS)
        if index == FAILING and self.seen % 7 == 3:
            raise FailTuple("it fails now and then")
        if index == STALLING and self.seen % 500 == 2:
            await asyncio.sleep(STALL_SECS)
        return self.passed(record)

    def passed(self, record: Record) -> Record:
        """Return the record; a kill step of its own."""
        return record


class Keep(BasicBolt):
    """Notes the done records. The tree of a pack ends here."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def execute(self, tup: Tuple) -> None:
        self.journal.note("done", *tup.values)


def numbering_topology(places: Places, journal: Journal, settings: FlowSettings) -> Topology:
    """Return the topology: one or two spout tasks, four tasks of `work`, two of `keep`."""
    producer = AsyncNumbers if places.producer == "async" else Numbers
    builder = TopologyBuilder(NAME)
    builder.set_spout(NUMBERS, lambda: NotingSpout(producer(places, journal), settings), parallelism=places.tasks)
    builder.set_bolt("work", Work, parallelism=WORKERS, processes=places.processes).direct_grouping(NUMBERS)
    builder.set_bolt("keep", lambda: Keep(journal), parallelism=2).shuffle_grouping("work")
    return builder.build()
