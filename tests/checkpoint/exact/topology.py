"""The killed topology: source → pass → first → second. Both states count how often each number comes."""

import gzip
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from engine import (
    Burst,
    Fields,
    FileSpout,
    FlowControlBolt,
    FlowControlSpout,
    FlowProducer,
    FlowSettings,
    Spout,
    SpoutExhausted,
    StatefulBurstBolt,
    Topology,
    TopologyBuilder,
    Tuple,
    spout,
)
from engine.api import SpoutFactory
from tests.checkpoint.exact.faults import Failing
from tests.checkpoint.exact.outputs import Target, declare
from tests.checkpoint.killed_bolts import CountManyNumbers, CountNumbers, Death, PassOn, PassOnMany

TOPOLOGY: Final = "exact"
SOURCES: Final = ("class", "generator", "burst generator", "repeatable", "files", "flow")
SOURCE_TASKS: Final[Mapping[str, int]] = {"class": 2, "generator": 1, "burst generator": 1, "repeatable": 1, "flow": 2}
"""Tasks of the sources whose positions belong to tasks. Those of files can be divided anew."""
FILES: Final = 5
NEVER: Final = Death(None, 1)


@dataclass(frozen=True, kw_only=True)
class Places:
    """Files, size and store of one topology, shared by all its processes."""

    folder: str
    rows: int
    source: str
    state: str
    """URL of the store."""
    bolts: str = "plain"
    """Form of the bolts, of `tests.kills.bolt_forms`."""
    output: str = ""
    """Kind of the committer behind the states, of `outputs`. Empty: there is none."""
    server: str = ""
    """Server of its target."""
    name: str = "output"
    """Name of its map or topic."""

    @property
    def target(self) -> Target:
        """The target of the committer."""
        return Target(kind=self.output, folder=self.folder, server=self.server, name=self.name)

    @property
    def told(self) -> Path:
        """File with the positions that `committed` was told: task and position."""
        return Path(self.folder, "told")


# Input


def number_at(index: int) -> int:
    """Return the number of a row. One of ten comes twice."""
    return index - (index % 10 == 9)


def file_of(places: Places, number: int) -> Path:
    """Return one of the input files. Two of them are compressed."""
    return Path(places.folder, f"input-{number}.jsonl{'.gz' if number % 2 else ''}")


def write_files(places: Places) -> None:
    """Write the input of the FileSpout."""
    for number in range(FILES):
        text = "".join(json.dumps({"number": number_at(index)}) + "\n" for index in range(number, places.rows, FILES))
        file = file_of(places, number)
        file.write_bytes(gzip.compress(text.encode()) if file.suffix == ".gz" else text.encode())


def counted(indexes: Iterable[int]) -> Counter[int]:
    """Count the numbers of rows in the plain way."""
    return Counter(map(number_at, indexes))


def rows_before(places: Places, positions: Mapping[int, Any]) -> Iterator[int]:
    """Yield the index of each row that lies before the positions of the tasks. A task without a position has emitted nothing."""
    if places.source != "files":
        tasks = SOURCE_TASKS[places.source]
        for task, position in positions.items():
            yield from range(task, (position[0] if places.source == "repeatable" else position) if position else 0, tasks)
        return
    for key, place in (positions[0] or {}).items():
        number = int(Path(key).name.removeprefix("input-").partition(".")[0])
        yield from range(number, number + FILES * place[3], FILES)


# Sources


class Numbers(Spout):
    """Emits the rows of its task, one by one or several at once, and writes down what it is told."""

    output_fields = Fields("number")

    def __init__(self, places: Places) -> None:
        self.places = places

    def seek(self, position: int | None) -> None:
        self.index = self.context.task_index if position is None else position

    def position(self) -> int:
        return self.index

    def committed(self, position: int) -> None:
        with self.places.told.open("a") as told:
            told.write(f"{self.context.task_index} {position}\n")

    def next_tuple(self) -> None:
        if self.index >= self.places.rows:
            raise SpoutExhausted
        count = 1 if self.index % 7 else 40
        indexes = range(self.index, self.places.rows, self.context.tasks)[:count]
        self.index = indexes[-1] + self.context.tasks
        if count == 1:
            self.collector.emit((number_at(indexes[0]),), indexes[0] if self.context.task_index else None)
        else:
            self.collector.emit_many([(number_at(index),) for index in indexes])


def single_rows(rows: int, after: int | None) -> Iterator[tuple[int, tuple[int]]]:
    """Yield each row behind a position."""
    for index in range(after or 0, rows):
        yield index + 1, (number_at(index),)


def lists_of_rows(rows: int, after: int | None) -> Iterator[list[tuple[int, tuple[int]]]]:
    """Yield lists of rows behind a position. They begin elsewhere after each start."""
    for begin in range(after or 0, rows, 37):
        yield [(index + 1, (number_at(index),)) for index in range(begin, min(begin + 37, rows))]


def repeated_rows(rows: int) -> Iterator[tuple[int] | None]:
    """Yield all rows, at each call."""
    for index in range(rows):
        if index % 97 == 0:
            yield None
        yield (number_at(index),)


class Records(FlowProducer):
    """Yields the rows of its task as records. A position is the index of the next row."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def records(self, after: int | None) -> Iterator[tuple[int, int]]:
        for index in range(self.context.task_index if after is None else after, self.rows, self.context.tasks):
            yield index + self.context.tasks, number_at(index)


def source_of(places: Places) -> SpoutFactory:
    """Return the factory of the source."""
    match places.source:
        case "class":
            return partial(Numbers, places)
        case "generator":
            return spout("number", positions=True)(partial(single_rows, places.rows))
        case "burst generator":
            return spout("number", positions=True, burst=True)(partial(lists_of_rows, places.rows))
        case "flow":
            return lambda: FlowControlSpout(Records(places.rows), FlowSettings(pack_records=10))
        case "repeatable":
            return spout("number", repeatable=True)(partial(repeated_rows, places.rows))
        case _:
            return partial(FileSpout, f"{places.folder}/input-*", "jsonl", fields="number")


# Bolts


class PacedPassOn(PassOn):
    """Passes on a row slowly, and fails a few."""

    def __init__(self, failing: Failing, pace_secs: float) -> None:
        self.failing, self.pace_secs = failing, pace_secs

    def execute(self, tup: Tuple) -> tuple[Any, ...]:
        time.sleep(self.pace_secs)
        self.failing.may_fail(in_pass=True)
        return super().execute(tup)


class PacedPassOnRecords(FlowControlBolt):
    """Does the same with the records of a pack."""

    output_fields = Fields("number")

    def __init__(self, failing: Failing, pace_secs: float) -> None:
        self.failing, self.pace_secs = failing, pace_secs

    def process(self, record: int) -> tuple[int]:
        time.sleep(self.pace_secs)
        self.failing.may_fail(in_pass=True)
        return (record,)


class PacedPassOnMany(PassOnMany):
    """Does the same in bursts."""

    def __init__(self, failing: Failing, pace_secs: float) -> None:
        self.failing, self.pace_secs = failing, pace_secs

    def execute_many(self, burst: Burst) -> None:
        time.sleep(self.pace_secs * len(burst))
        super().execute_many(burst)
        self.failing.may_fail(len(burst), in_pass=True)


class FailingCount(CountNumbers):
    """Counts a row, and then fails a few."""

    def __init__(self, failing: Failing) -> None:
        super().__init__(NEVER)
        self.failing = failing

    def execute(self, tup: Tuple) -> tuple[Any, ...]:
        values = super().execute(tup)
        self.failing.may_fail()
        return values


class FailingCountAndTell(FailingCount):
    """Does the same, and emits the count, too."""

    output_fields = Fields("number", "count")

    def execute(self, tup: Tuple) -> tuple[Any, ...]:
        (number,) = super().execute(tup)
        return number, self.state.get(number)


class FailingCountMany(CountManyNumbers):
    """Does the same in bursts."""

    def __init__(self, failing: Failing) -> None:
        super().__init__(NEVER)
        self.failing = failing

    def execute_many(self, burst: Burst) -> None:
        super().execute_many(burst)
        self.failing.may_fail(len(burst))


class FailingCountAndTellMany(StatefulBurstBolt):
    """Does the same, and emits the count, too."""

    output_fields = Fields("number", "count")

    def __init__(self, failing: Failing) -> None:
        self.failing = failing

    def execute_many(self, burst: Burst) -> None:
        for tup, number in burst.items("number"):
            count = self.state.get(number, 0) + 1
            self.state.put(number, count)
            self.collector.emit((number, count), anchors=tup)
        self.failing.may_fail(len(burst))


IN_PROCESSES: Final[Mapping[str, str]] = {"processes": "pass first", "bursts in processes": "second"}
"""Bolts that are in processes, by form."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the topology that may differ from process to process."""

    tasks: int
    """Tasks of the bolt `first`."""
    file_tasks: int
    """Tasks of a source of files."""
    pace_secs: float
    """Time that `pass` takes for a row."""
    output_tasks: int = 1
    """Tasks of the committer."""


def counting_topology(places: Places, settings: Settings, failing: Failing) -> Topology:
    """Build the topology."""
    builder, bursts = TopologyBuilder(TOPOLOGY), places.bolts.startswith("bursts")
    in_processes = IN_PROCESSES.get(places.bolts, "").split()
    passes: Any = PacedPassOnRecords if places.source == "flow" else PacedPassOnMany if bursts else PacedPassOn
    counts: Any = FailingCountMany if bursts else FailingCount
    tells: Any = FailingCountAndTellMany if bursts else FailingCountAndTell
    source_tasks = SOURCE_TASKS.get(places.source, settings.file_tasks)
    builder.set_spout("numbers", source_of(places), source_tasks, max_spout_pending=100)
    passing = builder.set_bolt("pass", partial(passes, failing, settings.pace_secs), 2, processes="pass" in in_processes)
    passing.direct_grouping("numbers") if places.source == "flow" else passing.shuffle_grouping("numbers")
    first: Any = partial(counts, failing)
    builder.set_bolt("first", first, settings.tasks, processes="first" in in_processes).fields_grouping("pass", "number")
    builder.set_bolt("second", partial(tells, failing), 2, processes="second" in in_processes).fields_grouping("first", "number")
    if places.output:
        declare(builder, places.target, settings.output_tasks, failing)
    return builder.build()
