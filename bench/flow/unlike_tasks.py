"""One source with 12 unlike tasks. Measures the used share of their capacity, and the latency of records.

Each record takes a time drawn from a heavy tail (Pareto, shape 2.1), the same in every run. Task 3 takes ten times as long. Task 7 begins
no record in the last 5 s of every 30 s. A run is measured from second 10 to second 40, which has one stall. The clock is the loop's, real
or virtual. With a `rate` the source makes this number of records per second, each when it is due. Without a `rate` the source always has
more records. The capacity of a task is its time without its stall, divided by the average time of its own records.
"""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import engine
from bench.macro.latency import percentiles_ms
from bench.measuring import new_event_loop
from engine import BasicBolt, Config, FlowControlBolt, FlowControlSpout, FlowProducer, FlowSettings, Spout, Topology, TopologyBuilder, Tuple
from engine.testing import run_virtual

TASKS = 12
SLOW, SLOWER = 3, 10
STALLING, STALL_EVERY, STALL_SECS = 7, 30.0, 5.0
FROM, UNTIL = 10.0, 40.0
SHAPE = 2.1
MEAN_SECS = 0.005
CHOICES: dict[str, Literal["least_wait", "round_robin"]] = {"flow": "least_wait", "round-robin": "round_robin"}


@dataclass
class Notes:
    """Times of records at the tasks."""

    began: float = 0.0
    done: list[int] = field(default_factory=lambda: [0] * TASKS)
    busy: list[float] = field(default_factory=lambda: [0.0] * TASKS)
    latencies: list[float] = field(default_factory=list)
    after_stall: list[tuple[float, float]] = field(default_factory=list)
    """Begin and end of the stalling task's records after its stall."""

    def note_record(self, task: int, made: float, began: float, ended: float) -> None:
        """Note a record that is done."""
        since, until = began - self.began, ended - self.began
        if FROM <= until < UNTIL:
            self.done[task] += 1
            self.busy[task] += ended - began
            self.latencies.append(ended - made)
        if task == STALLING and since >= STALL_EVERY:
            self.after_stall.append((since - STALL_EVERY, until - STALL_EVERY))

    def figures(self) -> dict[str, float]:
        """Return the figures of one run."""
        span = UNTIL - FROM
        capacity = sum(
            done / busy * (span - (STALL_SECS if task == STALLING else 0)) if busy else 0.0
            for task, (done, busy) in enumerate(zip(self.done, self.busy, strict=True))
        )
        return {
            "per_second": sum(self.done) / span,
            "of_ideal": sum(self.done) / capacity,
            **percentiles_ms(self.latencies),
            "recovery_secs": self.recovery_secs(),
        }

    def recovery_secs(self) -> float:
        """Return the seconds from the end of the stall until the task is busy for 95 % of a second."""
        for start in [0.0, *(ended for _, ended in self.after_stall)]:
            busy = sum(
                min(ended, start + 1) - max(began, start) for began, ended in self.after_stall if ended > start and began < start + 1
            )
            if busy >= 0.95:
                return start
        return float("inf")


async def work(notes: Notes, task: int, number: int, made: float) -> None:
    """Work on one record. Its draw depends on its number alone."""
    now = asyncio.get_running_loop().time
    if task == STALLING and (phase := (now() - notes.began) % STALL_EVERY) > STALL_EVERY - STALL_SECS:
        await asyncio.sleep(STALL_EVERY - phase)
    began = now()
    drawn = random.Random(number).paretovariate(SHAPE)
    await asyncio.sleep(MEAN_SECS * drawn * (SHAPE - 1) / SHAPE * (SLOWER if task == SLOW else 1))
    notes.note_record(task, made, began, now())


def due_times(rate: float) -> Iterator[float | None]:
    """Yield the time at which each next record was made. None: no record is due yet."""
    now = asyncio.get_running_loop().time
    if not rate:
        while True:
            yield now()
    due = now()
    while True:
        due += 1 / rate
        while now() < due:
            yield None
        yield due


async def wake_often(context: Any) -> None:
    """Wake a spout every millisecond, like a notified source. Otherwise the pauses of an idle spout would be measured."""
    while True:
        await asyncio.sleep(0.001)
        context.wake()


class Records(FlowProducer):
    """Numbers, each with the time at which it was made."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def records(self, after: Any) -> Iterator[Any]:
        number = 0
        for made in due_times(self.rate):
            if made is None:
                yield None
            else:
                number += 1
                yield number, (number, made)


class WokenFlow(FlowControlSpout):
    """A flow that is polled every millisecond, like the plain source."""

    async def open(self) -> None:
        await super().open()
        self.context.create_task(wake_often(self.context))


class FlowWork(FlowControlBolt):
    """Works on the records of packs."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    async def process(self, record: tuple[int, float]) -> None:
        await work(self.notes, self.context.task_index, *record)


class PlainRecords(Spout):
    """Emits the same numbers, one tuple for each."""

    output_fields = ("number", "made")

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def open(self) -> None:
        self.number, self.made = 0, due_times(self.rate)
        self.context.create_task(wake_often(self.context))

    def next_tuple(self) -> None:
        made = next(self.made)
        if made is not None:
            self.number += 1
            self.collector.emit((self.number, made), self.number)


class PlainWork(BasicBolt):
    """Works on single records."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    async def execute(self, tup: Tuple) -> None:
        await work(self.notes, self.context.task_index, tup[0], tup[1])


def measure(way: str, pending: int, rate: float, virtual: bool) -> dict[str, float]:
    """Run one configuration. `pending` bounds the open trees of a grouping, 0 for no bound. `rate` 0: the source always has more."""
    run = partial(_play, way, pending, rate)
    if virtual:
        return run_virtual(run, real_limit_secs=600.0)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(run())


async def _play(way: str, pending: int, rate: float) -> dict[str, float]:
    notes = Notes(began=asyncio.get_running_loop().time())
    async with engine.run(_topology(way, notes, pending, rate), Config(seed=1)):
        await asyncio.sleep(UNTIL + 2)
    return notes.figures()


def _topology(way: str, notes: Notes, pending: int, rate: float) -> Topology:
    builder = TopologyBuilder(way)
    if way in CHOICES:
        settings = FlowSettings(choice=CHOICES[way])
        builder.set_spout("records", lambda: WokenFlow(Records(rate), settings))
        builder.set_bolt("work", lambda: FlowWork(notes), TASKS).direct_grouping("records")
        return builder.build()
    builder.set_spout("records", lambda: PlainRecords(rate), max_spout_pending=pending or None)
    declared = builder.set_bolt("work", lambda: PlainWork(notes), TASKS)
    if way == "hash":
        declared.fields_grouping("records", "number")
    elif way == "shuffle":
        declared.shuffle_grouping("records")
    else:
        declared.load_aware_grouping("records")
    return builder.build()
