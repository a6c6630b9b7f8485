"""A rollback takes all bolts back, whatever waits and whatever call hangs (EO-5)."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Config, Failure, Run, StatefulBasicBolt, TopologyBuilder, Tuple
from engine.errors import ROLLBACK
from engine.testing import KillTask, run_topology
from engine.topology.task_port import BoltPortUser
from tests.checkpoint.scenarios import kit
from tests.runtime.stage import EverySecond, LogLines, Numbers, chain, play, running

pytestmark = pytest.mark.guarantee("EO-5")

FAILURE = Failure(ROLLBACK, None, None, "for a test")


async def nothing() -> None:
    """Nothing counts before the drop."""


class Port(BoltPortUser, Bolt):
    """Gives access to the port of the run."""

    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)


class Made:
    """A factory that remembers its bolts."""

    def __init__(self, kind: type[Port] = Port) -> None:
        self.kind = kind
        self.bolts: list[Any] = []

    def __call__(self) -> Port:
        self.bolts.append(self.kind())
        return self.bolts[-1]  # type: ignore[no-any-return]

    async def roll_back(self) -> None:
        """Take the run back."""
        await self.bolts[0].port.run.roll_back(FAILURE, nothing)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_taken_and_waiting_tuples_are_dropped_and_their_later_settles_are_ignored(concurrency: int) -> None:
    """Given three tuples that the bolt keeps, one or four in calls, and others in the mailbox, then all trees fail with the rollback."""

    class Takes(Port):
        def prepare(self) -> None:
            self.kept: list[Tuple] = []

        async def execute(self, tup: Tuple) -> None:
            if tup[0] < 3:
                self.kept.append(tup)
                return
            await asyncio.sleep(2)
            self.collector.ack(tup)

    Takes.concurrency = concurrency
    made, spout = Made(Takes), Numbers(20)

    async def main() -> None:
        with LogLines() as log:
            async with running(chain(lambda: spout, made)) as run:
                await asyncio.sleep(1)
                await made.roll_back()
                await asyncio.sleep(0.1)
                old, new = made.bolts
                for tup in old.kept:
                    new.collector.ack(tup)
                await run.completed()
        assert run.snapshot().components["bolt1"].settled_twice == 0
        assert not log.lines

    play(main)
    assert sorted(spout.failed) == list(range(20))
    assert set(spout.failures) == {FAILURE}
    assert not spout.acked


def test_a_fresh_instance_serves_and_the_rollback_is_neither_a_death_nor_a_restart() -> None:
    calls: list[str] = []

    class Notes(Bolt):
        def prepare(self) -> None:
            calls.append("prepare")

        def cleanup(self) -> None:
            calls.append("cleanup")

        def execute(self, tup: Tuple) -> None:
            calls.append(f"execute {tup[0]}")
            self.collector.emit((tup[0],), tup)
            self.collector.ack(tup)

    Notes.output_fields = "number"
    port, spout = Made(), EverySecond(4)

    async def main() -> Run:
        async with running(chain(lambda: spout, Notes, port)) as run:
            await asyncio.sleep(2.5)
            await port.roll_back()
            await run.completed()
        return run

    run = play(main)
    assert calls == ["prepare", "execute 0", "execute 1", "cleanup", "prepare", "execute 2", "execute 3", "cleanup"]
    assert spout.acked == [0, 1, 2, 3], "what was acked before the rollback stays acked"
    assert run.snapshot().components["bolt1"].restarts == 0


class Swallows(BasicBolt):
    """Swallows the first cancellation of each call."""

    async def execute(self, tup: Tuple) -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await asyncio.sleep(1000)


def test_a_call_that_swallows_its_cancellation_is_cancelled_again() -> None:
    port, spout = Made(), Numbers(3)

    async def main() -> float:
        builder = TopologyBuilder("swallows")
        builder.set_spout("source", lambda: spout)
        builder.set_bolt("swallows", Swallows).shuffle_grouping("source")
        builder.set_bolt("port", port).shuffle_grouping("source")
        async with running(builder.build()) as run:
            await asyncio.sleep(1)
            began = asyncio.get_running_loop().time()
            await port.roll_back()
            secs = asyncio.get_running_loop().time() - began
            await run.stop()
        return secs

    assert play(main) <= 1.0


def test_a_call_in_a_thread_is_abandoned_and_its_emits_are_dropped() -> None:
    hangs, may_end = threading.Event(), threading.Event()
    seen: list[int] = []

    class InThread(BasicBolt):
        output_fields = "number"
        threads = 1

        def execute(self, tup: Tuple) -> Any:
            if tup[0] == 0 and not hangs.is_set():
                hangs.set()
                may_end.wait()
            yield (tup[0],)

    class Seen(Port):
        def execute(self, tup: Tuple) -> None:
            seen.append(tup[0])
            self.collector.ack(tup)

    port, spout = Made(Seen), Numbers(2)

    async def main() -> None:
        async with running(chain(lambda: spout, InThread, port)) as run:
            await asyncio.to_thread(hangs.wait)
            await port.roll_back()
            may_end.set()
            await run.completed()

    try:
        asyncio.run(main())
    finally:
        may_end.set()
    assert sorted(spout.failed) == [0, 1]
    assert seen == []


class Keeps(BasicBolt):
    """Keeps the last number, and tells what it has kept with the next one."""

    output_fields = "number"

    def prepare(self) -> None:
        self.kept: int | None = None

    def execute(self, tup: Tuple) -> Any:
        before, self.kept = self.kept, tup[0]
        return (before,)


class Promises(Keeps):
    survives_rollback = True


class Forgets(Keeps):
    def pre_rollback(self) -> None:
        self.kept = -1


class CannotForget(Keeps):
    def pre_rollback(self) -> None:
        raise ValueError("cannot")


def kept_after_a_death_of_the_state(bolt: Callable[[], Bolt | BasicBolt]) -> list[int | None]:
    """Return what the bolt had kept at each number. The state's task dies after number 1, and its recovery takes the bolt back."""
    told: list[int | None] = []

    class State(StatefulBasicBolt):
        def execute(self, tup: Tuple) -> None:
            told.append(tup[0])

    builder = TopologyBuilder("kept")
    builder.set_spout("source", lambda: EverySecond(5))
    builder.set_bolt("keeps", bolt).shuffle_grouping("source")
    builder.set_bolt("state", State).global_grouping("keeps")
    run_topology(builder.build(), Config(state_checkpoint_interval_ms=100), faults=[KillTask("state", at_secs=2.5)])
    return told


@pytest.mark.parametrize(
    ("bolt", "kept"), [(Keeps, None), (Promises, 1), (Forgets, -1), (CannotForget, None)], ids=["fresh", "promises", "forgets", "cannot"]
)
def test_an_instance_stays_only_if_it_promises_to_keep_no_rows_or_can_forget_them(bolt: type[Keeps], kept: int | None) -> None:
    assert kept_after_a_death_of_the_state(bolt) == [None, 0, kept, 2, 3]


def test_a_death_of_any_stateful_task_takes_the_state_of_all_others_back() -> None:
    """Given two bolts that count, one dies. Then neither has counted a row twice."""
    told, builder = kit.Told(), TopologyBuilder("both")
    builder.set_spout("source", partial(kit.Numbers, 30, pace_secs=0.05))
    for name in ("one", "other"):
        builder.set_bolt(name, told.create).fields_grouping("source", "n")
    config = Config(state_checkpoint_interval_ms=400)
    finished = run_topology(builder.build(), config, faults=[KillTask("one", at_secs=at) for at in (0.21, 0.63, 1.02)])
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.recoveries >= 2  # the third death may fall into the pause of the second
    for name in ("one", "other"):
        assert told.counts(name) == kit.once(30)
