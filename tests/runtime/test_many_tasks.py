"""The work and the memory of a run's start and end grow with its components and tasks, not with their squares (RUN-1)."""

import asyncio
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import engine
from engine import BasicBolt, Bolt, Config, Fields, Inlet, Topology, TopologyBuilder, Tuple
from tests.runtime.stage import Numbers, Sink, play, running

pytestmark = pytest.mark.guarantee("RUN-1")

FEW = 60


class Passes(BasicBolt):
    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup[0],)


class Ends(BasicBolt):
    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> None: ...


def row_of(components: int) -> Topology:
    """Bolts in a row, declared from the last to the first."""
    builder = TopologyBuilder("row")
    for number in reversed(range(components)):
        builder.set_bolt(f"b{number}", Passes).shuffle_grouping(f"b{number - 1}" if number else "source")
    builder.set_spout("source", lambda: Numbers(1))
    return builder.build()


def star_of(components: int) -> Topology:
    """Bolts between one spout and one bolt."""
    builder = TopologyBuilder("star")
    builder.set_spout("source", lambda: Numbers(1))
    last = builder.set_bolt("last", Sink)
    for number in range(components):
        builder.set_bolt(f"b{number}", Passes).shuffle_grouping("source")
        last.shuffle_grouping(f"b{number}")
    return builder.build()


def cycles_of(components: int) -> Topology:
    """Bolts in a row, each of which also reads its own stream, and as many spouts that feed them."""
    builder = TopologyBuilder("cycles")
    for number in range(components):
        builder.set_spout(f"s{number}", lambda: Numbers(1), max_spout_pending=1)
        row = builder.set_bolt(f"b{number}", Ends).shuffle_grouping(f"b{number}").shuffle_grouping(f"s{number}")
        if number:
            row.shuffle_grouping(f"b{number - 1}")
    return builder.build()


def wide_of(tasks: int, *, grouping: str = "shuffle_grouping") -> Topology:
    """Spout, bolt and bolt with many tasks each, so that every task sends to every task of the next bolt."""
    builder = TopologyBuilder("wide")
    builder.set_spout("source", lambda: Numbers(1), parallelism=tasks)
    builder.set_bolt("middle", Passes, parallelism=tasks).shuffle_grouping("source")
    names = [["number"]] if grouping == "fields_grouping" else []
    getattr(builder.set_bolt("last", Sink, parallelism=tasks), grouping)("middle", *names)
    return builder.build()


def steps_of(work: Callable[[], object], *, packages: tuple[str, ...] = ("engine.",)) -> int:
    """Return the lines of these packages that `work` executes."""
    steps = 0

    def count(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal steps
        if event == "call" and not frame.f_globals.get("__name__", "").startswith(packages):
            return None
        steps += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


def run_through(topology: Topology) -> None:
    async def main() -> None:
        async with running(topology) as run:
            run.snapshot()
            await run.completed()

    play(main)


@pytest.mark.parametrize("topology_of", [row_of, star_of, cycles_of, wide_of])
def test_twice_the_components_take_twice_the_steps(topology_of: Callable[[int], Topology]) -> None:
    """Given a topology of 2 n components or tasks, then its start, run and end take about twice the steps of n."""
    run_through(topology_of(2))  # imports
    few, many = (steps_of(lambda: run_through(topology_of(count))) for count in (FEW, 2 * FEW))  # noqa: B023 - called at once
    assert many < 2.4 * few


@pytest.mark.parametrize("grouping", ["shuffle_grouping", "fields_grouping", "all_grouping"])
def test_twice_the_tasks_take_twice_the_memory(grouping: str) -> None:
    """Given an edge with 2 n tasks on both sides, then the run does not keep 4 n² entries for it."""

    def memory_of(tasks: int) -> int:
        topology, taken = wide_of(tasks, grouping=grouping), 0

        async def main() -> None:
            nonlocal taken
            tracemalloc.start()
            try:
                async with engine.run(topology, Config(key_groups=4 * FEW)):
                    taken, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()

        play(main)
        return taken

    memory_of(2)
    assert memory_of(4 * FEW) < 2.4 * memory_of(2 * FEW)


@pytest.mark.guarantee("SV-7")
def test_twice_the_calls_that_time_out_together_take_twice_the_steps() -> None:
    """Given 2 n calls behind a call that hangs, half of them before the inlet and half in its queue, when all time out at once, then this
    takes about twice the steps of n."""

    class Hangs(Bolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(100)
            self.collector.ack(tup)

    def time_out(calls: int) -> None:
        async def main() -> None:
            builder = TopologyBuilder("hangs")
            builder.set_spout("in", lambda: Inlet("number", max_waiting=calls // 2), max_spout_pending=1)
            builder.set_bolt("reply", Hangs).shuffle_grouping("in")
            async with running(builder.build()) as run:
                inlet = run.inlet("in")
                waiting = [asyncio.create_task(inlet.send((number,))) for number in range(calls)]
                await asyncio.sleep(1)
                for task in waiting:
                    task.cancel()
                await asyncio.wait(waiting)
                assert inlet.waiting == 1  # its tuple is with the bolt

        play(main)

    few, many = (steps_of(lambda: time_out(4 * count), packages=("engine.", "asyncio.")) for count in (FEW, 2 * FEW))  # noqa: B023
    assert many < 2.4 * few
