"""Scenarios in which a simpler rule stands still, or lets an interval grow (EO-3, EO-5).

Behind each scenario stands its mutant, the simpler rule, as a patch of the engine.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import pytest

from engine import SpoutExhausted, TopologyBuilder, Tuple
from engine.checkpoint.checkpoints import Checkpoints
from engine.checkpoint.prepare import Prepare
from engine.checkpoint.source_task import SourceTask
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.spout_executor import SpoutExecutor
from engine.testing import KillTask, run_topology
from tests.checkpoint.scenarios.kit import FAST, Numbers, PassOn, Tally, Told, counted

Patch: TypeAlias = pytest.MonkeyPatch


# 8, 9, 12: nothing may stand still


class HangsOnce(PassOn):
    """A call hangs, the first time."""

    failed: set[int]

    async def execute(self, tup: Tuple) -> Any:
        if tup["n"] == 5 and not self.failed:
            self.failed.add(5)
            await asyncio.sleep(10_000)
        return super().execute(tup)


def hung_call() -> Counter[Any]:
    hangs = type("Hangs", (HangsOnce,), {"failed": set()})
    return counted(partial(Numbers, 40, pace_secs=0.1), hangs, faults=[KillTask("count", at_secs=1.5)], limit_secs=20)


def waits_for_the_call(patch: Patch) -> None:
    def kill_between_calls(self: BoltExecutor, rollback: Any) -> None:
        self._rollback = rollback
        if self.calls.running_secs == 0:
            kill(self, rollback)

    kill = BoltExecutor.roll_back
    patch.setattr(BoltExecutor, "roll_back", kill_between_calls)


class SlowCount(Tally):
    """Takes 0.2 s for each row."""

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(0.2)
        super().execute(tup)


def full_mailbox() -> Counter[Any]:
    config = FAST.replace(checkpoint_timeout_secs=20)
    return counted(partial(Numbers, 300, burst=300), count=SlowCount, config=config, limit_secs=200)


def fixed_deadline(patch: Patch) -> None:
    async def wait(self: Prepare, processed: Callable[[], int], has_failed: Callable[[], bool], look: Callable[[], None]) -> bool:
        return await unchanged(self, lambda: 0, has_failed, look)

    unchanged = Prepare.wait
    patch.setattr(Prepare, "wait", wait)


class Waits(Numbers):
    """Waits 60 s in the poll behind its tenth row."""

    async def next_tuple(self) -> None:
        if self.next == 10:
            await asyncio.sleep(60)
        super().next_tuple()


def one_source_waits_in_a_poll() -> Counter[Any]:
    told, builder = Told(), TopologyBuilder("scenario")
    builder.set_spout("waits", partial(Waits, 20, first=1000))
    builder.set_spout("numbers", partial(Numbers, 40, pace_secs=0.1))
    builder.set_bolt("count", told.create).shuffle_grouping("numbers").shuffle_grouping("waits")
    run_topology(builder.build(), FAST, until=20)
    counts = told.counts()
    return counts + Counter({"the fast source waits with the other one": int(len(counts) < 50)})


def waits_for_the_poll(patch: Patch) -> None:
    async def prepare(self: SourceTask, barrier: Any) -> None:
        taken = asyncio.get_running_loop().create_future()

        async def take() -> None:
            await unchanged(self, barrier)
            taken.set_result(None)

        self._port.after_commit(take)
        await taken

    unchanged = SourceTask.prepare
    patch.setattr(SourceTask, "prepare", prepare)


# 11: what is work for a checkpoint


class Slow(PassOn):
    """Takes 50 ms for each row."""

    async def execute(self, tup: Tuple) -> Any:
        await asyncio.sleep(0.05)
        return super().execute(tup)


def full_spout() -> Counter[Any]:
    """A row takes 50 ms, so the run takes 10 s, with ten intervals of 1 s."""
    told, builder = Told(), TopologyBuilder("scenario")
    builder.set_spout("numbers", partial(Numbers, 200))
    builder.set_bolt("slow", Slow).shuffle_grouping("numbers")
    builder.set_bolt("count", told.create).shuffle_grouping("slow")
    finished = run_topology(builder.build(), FAST.replace(max_spout_pending=10))
    assert finished.snapshot.checkpoint is not None
    return told.counts() + Counter({"a checkpoint begins all the time": int(finished.snapshot.checkpoint.committed > 15)})


def full_spouts_wait_for_a_commit(patch: Patch) -> None:
    patch.setattr(SpoutExecutor, "waits_for_commit", property(lambda self: self.status in ("full", "exhausted", "drained")))


class Filters(PassOn):
    """Lets no row through."""

    def execute(self, tup: Tuple) -> None:
        return None


class ReadsInVain(Numbers):
    """Emits none of its rows itself."""

    def next_tuple(self) -> None:
        now = self.context.clock.now()
        if self.next >= self.rows:
            raise SpoutExhausted
        if now >= self.due:
            self.next, self.due = self.next + 1, now + self.pace_secs


def _committed_position(source: type[Numbers]) -> Counter[Any]:
    """Return the rows of before the committed position. None of them has reached the state."""
    committed = [0]

    class Noted(source):  # type: ignore[valid-type, misc]
        def committed(self, position: int) -> None:
            committed[0] = position

    assert not counted(partial(Noted, 40, pace_secs=0.1), Filters)
    return Counter(range(committed[0]))


def all_rows_are_filtered() -> Counter[Any]:
    return _committed_position(Numbers)


def all_rows_are_filtered_by_their_source() -> Counter[Any]:
    return _committed_position(ReadsInVain)


def only_changes_are_work(patch: Patch) -> None:
    patch.setattr(SourceTask, "has_work", False)


def only_emits_are_work(patch: Patch) -> None:
    patch.setattr(SourceTask, "has_work", property(lambda self: self._port.emitted != self._emitted_before))


# 10: an interval may not grow without a bound

OUTAGE_SECS = 3600
MOST_ROWS = 15
"""Rows that are emitted in an outage, one per second, until the checkpoint is late after 10 s."""


class NotedRows(Numbers):
    """Notes when it emits each row for the first time."""

    def __init__(self, emitted: dict[int, float], rows: int) -> None:
        super().__init__(rows, pace_secs=1.0)
        self.emitted = emitted

    def next_tuple(self) -> None:
        before = self.next
        super().next_tuple()
        if self.next > before:
            self.emitted.setdefault(before, self.context.clock.now())


class SinkAway(Tally):
    """Commits into a sink that cannot be reached for an hour."""

    def pre_commit(self, txid: int) -> None:
        if self.context.clock.now() < OUTAGE_SECS:
            raise ConnectionError("the sink does not answer")


def sink_away_for_an_hour() -> Counter[Any]:
    emitted: dict[int, float] = {}
    counts = counted(partial(NotedRows, emitted, 40), count=SinkAway, limit_secs=2 * OUTAGE_SECS)
    meanwhile = sum(when < OUTAGE_SECS for when in emitted.values())
    return counts + Counter({"an interval has grown with the outage": int(meanwhile > MOST_ROWS)})


class SlowlyOn(PassOn):
    """Takes 10 ms for each row."""

    async def execute(self, tup: Tuple) -> Any:
        await asyncio.sleep(0.01)
        return super().execute(tup)


def rows_of_a_late_checkpoint() -> Counter[Any]:
    """All rows are of one `emit_many`, which takes longer than 10 s, and the barrier comes behind them."""
    config = FAST.replace(executor_receive_buffer_size=16, checkpoint_timeout_secs=60, message_timeout_secs=300)
    return counted(partial(Numbers, 4000, burst=4000), SlowlyOn, config=config, limit_secs=200)


def held_spouts_keep_their_rows(patch: Patch) -> None:
    async def rows_emitted(self: SpoutExecutor) -> None:
        while self._rows:
            await self._rows.wait_until_empty()

    patch.setattr(SpoutExecutor, "rows_emitted", rows_emitted)


def late_checkpoints_hold_nothing(patch: Patch) -> None:
    def hold_spouts(self: Checkpoints) -> None:
        self.waits.is_late = False
        unchanged(self)

    unchanged = Checkpoints.hold_spouts
    patch.setattr(Checkpoints, "hold_spouts", hold_spouts)
