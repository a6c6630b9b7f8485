"""`python -m bench.flow.unlike_tasks WAY`: one source and 12 unlike tasks, as JSON: what of what they can do is done, and how late.

Each record takes a time drawn from a heavy tail (Pareto, shape 2.1), the same for every way; task 3 takes ten times as long, task 7 begins
nothing in the last 5 s of every 30. Measured from second 10 to second 40, which has one stall, by the clock of the loop: virtual with
`--virtual`. With `--rate` the source has so many records a second, evenly, and a record is made when it is due; else as many as are
taken. What a task can do is the time it had, without its stall, over the time that its own records took it.
"""

import argparse
import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import engine
from bench.loops import new_event_loop
from engine import BasicBolt, Config, FlowControlBolt, FlowControlSpout, FlowProducer, FlowSettings, Spout, Topology, TopologyBuilder, Tuple
from engine.testing import run_virtual

TASKS = 12
SLOW, SLOWER = 3, 10
STALLING, STALL_EVERY, STALL_SECS = 7, 30.0, 5.0
FROM, UNTIL = 10.0, 40.0
SHAPE = 2.1
MEAN_MS = 5.0
WAYS = ("flow", "round-robin", "hash", "shuffle", "load-aware")


@dataclass
class Measured:
    """What the tasks note."""

    began: float = 0.0
    done: list[int] = field(default_factory=lambda: [0] * TASKS)
    busy: list[float] = field(default_factory=lambda: [0.0] * TASKS)
    latencies: list[float] = field(default_factory=list)
    after_stall: list[tuple[float, float]] = field(default_factory=list)
    """When the stalling task began and ended records after its stall."""

    def note(self, task: int, made: float, began: float, ended: float) -> None:
        """A record is done."""
        since, until = began - self.began, ended - self.began
        if FROM <= until < UNTIL:
            self.done[task] += 1
            self.busy[task] += ended - began
            self.latencies.append(ended - made)
        if task == STALLING and since >= STALL_EVERY:
            self.after_stall.append((since - STALL_EVERY, until - STALL_EVERY))

    def result(self) -> dict[str, float]:
        """The figures of one run."""
        span = UNTIL - FROM
        can = sum(
            done / busy * (span - (STALL_SECS if task == STALLING else 0)) if busy else 0.0
            for task, (done, busy) in enumerate(zip(self.done, self.busy, strict=True))
        )
        latencies = sorted(self.latencies)
        return {
            "per_second": sum(self.done) / span,
            "of_ideal": sum(self.done) / can,
            "p50_ms": latencies[len(latencies) // 2] * 1000,
            "p99_ms": latencies[len(latencies) * 99 // 100] * 1000,
            "recovery_secs": self.recovery(),
        }

    def recovery(self) -> float:
        """From the end of the stall until the task is busy for 95 % of a second."""
        starts = [0.0, *(ended for _, ended in self.after_stall)]
        for start in starts:
            busy = sum(
                min(ended, start + 1) - max(began, start) for began, ended in self.after_stall if ended > start and began < start + 1
            )
            if busy >= 0.95:
                return start
        return float("inf")


def secs_of(number: int, task: int, mean_ms: float) -> float:
    """How long a record takes; its draw is its own."""
    drawn = random.Random(number).paretovariate(SHAPE)
    return mean_ms / 1000 * drawn * (SHAPE - 1) / SHAPE * (SLOWER if task == SLOW else 1)


async def work(measured: Measured, task: int, record: tuple[int, float], mean_ms: float) -> None:
    """One record at one task."""
    now = asyncio.get_running_loop().time
    if task == STALLING and (phase := (now() - measured.began) % STALL_EVERY) > STALL_EVERY - STALL_SECS:
        await asyncio.sleep(STALL_EVERY - phase)
    began = now()
    await asyncio.sleep(secs_of(record[0], task, mean_ms))
    measured.note(task, record[1], began, now())


def due_times(rate: float | None) -> Iterator[float | None]:
    """When the next record was made; None: none is due yet."""
    now = asyncio.get_running_loop().time
    if rate is None:
        while True:
            yield now()
    due = now()
    while True:
        due += 1 / rate
        while now() < due:
            yield None
        yield due


class Records(FlowProducer):
    """Numbers, with the time at which each was made."""

    def __init__(self, rate: float | None) -> None:
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
    """Polled every millisecond, as the plain source is."""

    async def open(self) -> None:
        await super().open()
        self.context.create_task(self.wake_up())

    async def wake_up(self) -> None:
        """The same as of the plain source."""
        while True:
            await asyncio.sleep(0.001)
            self.context.wake()


class FlowWork(FlowControlBolt):
    """Works on the records of packs."""

    def __init__(self, measured: Measured, mean_ms: float) -> None:
        self.measured, self.mean_ms = measured, mean_ms

    async def process(self, record: tuple[int, float]) -> None:
        await work(self.measured, self.context.task_index, record, self.mean_ms)


class PlainRecords(Spout):
    """The same numbers, a tuple for each."""

    output_fields = ("number", "made")

    def __init__(self, rate: float | None) -> None:
        self.rate = rate

    def open(self) -> None:
        self.number, self.made = 0, due_times(self.rate)
        self.context.create_task(self.wake_up())

    async def wake_up(self) -> None:
        """As a source that hears of each record would; else the pauses of an idle spout were measured."""
        while True:
            await asyncio.sleep(0.001)
            self.context.wake()

    def next_tuple(self) -> None:
        made = next(self.made)
        if made is not None:
            self.number += 1
            self.collector.emit((self.number, made), self.number)


class PlainWork(BasicBolt):
    """Works on single records."""

    def __init__(self, measured: Measured, mean_ms: float) -> None:
        self.measured, self.mean_ms = measured, mean_ms

    async def execute(self, tup: Tuple) -> None:
        await work(self.measured, self.context.task_index, (tup[0], tup[1]), self.mean_ms)


def topology(way: str, measured: Measured, mean_ms: float, rate: float | None, pending: int | None, settings: dict[str, Any]) -> Topology:
    """The way, from the source to the 12 tasks."""
    builder = TopologyBuilder(way)
    if way in ("flow", "round-robin"):
        chosen: dict[str, Any] = {"choice": "round_robin"} if way == "round-robin" else {}
        builder.set_spout("records", lambda: WokenFlow(Records(rate), FlowSettings(**chosen, **settings)))
        builder.set_bolt("work", lambda: FlowWork(measured, mean_ms), TASKS).direct_grouping("records")
        return builder.build()
    builder.set_spout("records", lambda: PlainRecords(rate), max_spout_pending=pending)
    declared = builder.set_bolt("work", lambda: PlainWork(measured, mean_ms), TASKS)
    if way == "hash":
        declared.fields_grouping("records", "number")
    elif way == "shuffle":
        declared.shuffle_grouping("records")
    else:
        declared.load_aware_grouping("records")
    return builder.build()


async def play(way: str, mean_ms: float, rate: float | None, pending: int | None, settings: dict[str, Any]) -> dict[str, float]:
    """Run it for so long; return its figures."""
    measured = Measured(began=asyncio.get_running_loop().time())
    async with engine.run(topology(way, measured, mean_ms, rate, pending, settings), Config(seed=1)):
        await asyncio.sleep(UNTIL + 2)
    return measured.result()


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--pending", type=int, help="max_spout_pending of the ways without windows")
    parser.add_argument("--mean-ms", type=float, default=MEAN_MS, help="of the fast tasks' service time")
    parser.add_argument("--rate", type=float, help="records a second that the source has; as many as are taken where it is left out")
    parser.add_argument("--virtual", action="store_true", help="in virtual time")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=NUMBER", help="of FlowSettings")
    arguments = parser.parse_args()
    settings = {
        name: float(value) if "." in value else int(value) for name, _, value in (each.partition("=") for each in arguments.setting)
    }
    run = partial(play, arguments.way, arguments.mean_ms, arguments.rate, arguments.pending, settings)
    if arguments.virtual:
        print(json.dumps(run_virtual(run, real_limit_secs=600.0)))
    else:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            print(json.dumps(runner.run(run())))


if __name__ == "__main__":
    main()
