"""Scenarios of rows that fail (EO-1, EO-6).

Behind each scenario stands its mutant, the simpler rule, as a patch of the engine.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

import pytest

from engine import Bolt, Spout, SpoutExhausted, TopologyBuilder, Tuple
from engine.checkpoint.failed_rows import FailedRows, Passes
from engine.checkpoint.owed_rows import Components, RowRetry
from engine.checkpoint.source_task import SourceTask
from engine.runtime import assembly
from engine.runtime.acker_executor import AckerExecutor
from engine.runtime.tree_timeouts import TreeClock
from engine.testing import KillTask, run_topology
from tests.checkpoint.scenarios.kit import FAST, Numbers, PassOn, Tally, Told, counted, plain

Patch: TypeAlias = pytest.MonkeyPatch


# 2: the retry of a row lies behind a barrier, and its position before it


class FailsLate(PassOn):
    """Takes 0.3 s for each row, so that each barrier finds some that are not settled. Then it fails the rows 5 to 15 once."""

    concurrency = 10
    failed: set[int]

    async def execute(self, tup: Tuple) -> Any:
        row = tup["n"]
        await asyncio.sleep(0.3)
        if 5 <= row <= 15 and row not in self.failed:
            self.failed.add(row)
            raise ValueError("once")
        return super().execute(tup)


def retried_behind_the_barrier() -> Counter[Any]:
    late = type("Late", (FailsLate,), {"failed": set()})
    return counted(partial(Numbers, 40, pace_secs=0.1), late, faults=[KillTask("count", at_secs=1.9)])


def no_row_is_owed(patch: Patch) -> None:
    patch.setattr(SourceTask, "take_owed", lambda self, acked: [])


# 3, 4, 13: a failed row whose tree has had an effect


class FailsOnce(PassOn):
    """Fails the row 5 once, after all else that happens because of it."""

    failed: set[int]

    async def execute(self, tup: Tuple) -> Any:
        if tup["n"] == 5 and not self.failed:
            self.failed.add(5)
            await asyncio.sleep(0.05)
            raise ValueError("once")
        return super().execute(tup)


class EmitsUnanchored(Bolt):
    """Emits without an anchor, and then fails the row 5 once."""

    output_fields = "n"
    failed: set[int]

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup["n"],))
        if tup["n"] == 5 and not self.failed:
            self.failed.add(5)
            raise ValueError("once")
        self.collector.ack(tup)


class AcksOthers(Bolt):
    """Keeps a row, and emits and acks it in the call of the next one, which then raises once."""

    output_fields = "n"
    failed: set[int]

    def prepare(self) -> None:
        self.kept: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        if tup["n"] % 2 == 0:
            self.kept.append(tup)
            return
        for each in (*self.kept, tup):
            self.collector.emit((each["n"],), each)
        if tup["n"] == 5 and not self.failed:
            self.failed.add(5)
            raise ValueError("once")
        for each in (*self.kept, tup):
            self.collector.ack(each)
        self.kept.clear()


class SlowTally(Tally):
    """Takes 20 ms for each row, so that the rows wait in its mailbox."""

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(0.02)
        super().execute(tup)


class CountsAtPrepare(Tally):
    """Keeps the rows in an attribute, and changes its state only at a barrier."""

    output_fields = "n"

    def prepare(self) -> None:
        self.rows: list[Tuple] = []

    def execute(self, tup: Tuple) -> Any:
        self.rows.append(tup)
        return (tup["n"],)

    def pre_prepare(self, txid: int) -> None:
        for tup in self.rows:
            super().execute(tup)
        self.rows.clear()


def failed_once(kind: Any, *, beside: bool) -> Counter[Any]:
    """beside: the stateful bolt gets the rows themselves, beside the bolt that fails."""
    told, builder, bolt = Told(), TopologyBuilder("scenario"), type("Once", (kind,), {"failed": set()})
    builder.set_spout("numbers", partial(Numbers, 40, burst=2, pace_secs=0.01))
    builder.set_bolt("fails", bolt).shuffle_grouping("numbers")
    builder.set_bolt("count", partial(SlowTally if beside else Tally, told)).shuffle_grouping("numbers" if beside else "fails")
    run_topology(builder.build(), FAST)
    return told.counts()


def failed_behind_the_count() -> Counter[Any]:
    told, builder = Told(), TopologyBuilder("scenario")
    builder.set_spout("numbers", partial(Numbers, 40, burst=2, pace_secs=0.01))
    builder.set_bolt("count", partial(CountsAtPrepare, told)).shuffle_grouping("numbers")
    builder.set_bolt("fails", type("Once", (FailsOnce,), {"failed": set()})).shuffle_grouping("count")
    run_topology(builder.build(), FAST)
    return told.counts()


def retries_alone(patch: Patch) -> None:
    def always_alone(self: SourceTask, row: Any, failure: Any, *, had_no_effect: bool) -> None:
        note_failed(self, row, failure, had_no_effect=True)

    note_failed = SourceTask.note_failed
    patch.setattr(SourceTask, "note_failed", always_alone)


def told_at_once(patch: Patch) -> None:
    def connect(self: AckerExecutor, spouts: Any, exact: Any, effects: bytearray) -> None:
        unchanged(self, spouts, frozenset(), bytearray(len(effects)))

    unchanged = AckerExecutor.connect
    patch.setattr(AckerExecutor, "connect", connect)
    retries_alone(patch)


def only_changes_are_effects(patch: Patch) -> None:
    patch.setattr(assembly, "_effects", lambda bolts, ackers: bytearray(100))


# 14: another order in the next pass


class Interleaved(Spout):
    """Two partitions, which each instance interleaves in another way. With ids, a row has its ordinal as message id."""

    output_fields = "n"
    partitioned = True
    instances = 0
    ids = False

    def open(self) -> None:
        type(self).instances += 1
        self.ordinal = 0

    def seek(self, position: Mapping[str, int] | None) -> None:
        self.next = {"even": 0, "odd": 0, **(position or {})}

    def position(self) -> dict[str, int]:
        return dict(self.next)

    def next_tuple(self) -> None:
        left = [name for name, number in self.next.items() if number < 20]
        if not left:
            raise SpoutExhausted
        name = left[hash((self.instances, self.ordinal)) % len(left)]
        number = 2 * self.next[name] + (name == "odd")
        self.next[name] += 1
        self.ordinal += 1
        self.collector.emit((number,), self.ordinal if self.ids else None)


class FailsSeven(PassOn):
    """Always fails the row 7."""

    def execute(self, tup: Tuple) -> Any:
        if tup["n"] == 7:
            raise ValueError("seven")
        return super().execute(tup)


def another_order() -> Counter[Any]:
    told, builder = Told(), TopologyBuilder("scenario")
    builder.set_spout("numbers", type("Drawn", (Interleaved,), {}))
    builder.set_bolt("count", partial(Tally, told)).shuffle_grouping("numbers")
    builder.set_bolt("fails", FailsSeven).shuffle_grouping("numbers")
    run_topology(builder.build(), FAST, limit_secs=200)
    return told.counts()


class Compacted(Numbers):
    """Its last row exists only for the first instance."""

    instances = 0

    def open(self) -> None:
        type(self).instances += 1
        self.rows -= self.instances > 1


def the_last_row_comes_once() -> Counter[Any]:
    """The interval that is repeated has had one row more in its first pass."""
    told, builder = Told(), TopologyBuilder("scenario")
    builder.set_spout("numbers", partial(type("Drawn", (Compacted,), {}), 41, burst=41))
    builder.set_bolt("fails", type("Once", (FailsOnce,), {"failed": set()})).shuffle_grouping("numbers")
    builder.set_bolt("count", told.create).shuffle_grouping("numbers")
    run_topology(builder.build(), FAST, limit_secs=200)
    return told.counts()


def a_pass_ends_with_the_rows_of_the_first_one(patch: Patch) -> None:
    async def prepare(self: SourceTask, barrier: Any) -> None:
        while self._new_rows - self.rows._extent.began < self.rows._extent.to_cover:  # noqa: ASYNC110 - of virtual time
            await asyncio.sleep(0.1)
        await unchanged(self, barrier)

    unchanged = SourceTask.prepare
    patch.setattr(SourceTask, "prepare", prepare)


def rows_are_known_by_ordinal(patch: Patch) -> None:
    patch.setattr(Interleaved, "ids", True)


# 18: the pauses between retries add up to more than the message timeout


class FailsForTwentySecs(PassOn):
    """Fails the row 1005 eight times, so that its pauses add up to 23 s."""

    retries = 9

    def prepare(self) -> None:
        self.failures = 0

    def execute(self, tup: Tuple) -> Any:
        if tup["n"] == 1005 and self.failures < 8:
            self.failures += 1
            raise ValueError("not yet")
        return super().execute(tup)


def long_retries() -> Counter[Any]:
    """The source cannot rewind, so whatever times out comes again beside the first one."""
    counts = counted(plain, FailsForTwentySecs, config=FAST.replace(message_timeout_secs=10))
    return Counter({n - 1000: count for n, count in counts.items()})


def retries_do_not_wait(patch: Patch) -> None:
    patch.setattr(TreeClock, "_reset_waiting", reset_none)


async def reset_none(_: TreeClock) -> None:
    """Let the rows that wait for their next try time out."""


# 16: an outage


class FailsLast(PassOn):
    """Always fails the last row."""

    def execute(self, tup: Tuple) -> Any:
        if tup["n"] == 39:
            raise ValueError("last")
        return super().execute(tup)


def last_row_is_bad() -> Counter[Any]:
    return counted(partial(Numbers, 40, pace_secs=1.5), FailsLast, limit_secs=200)


def lone_rows_never_count(patch: Patch) -> None:
    def end(self: Passes, acked: Any, *, was_long: bool) -> bool:
        return unchanged(self, acked, was_long=False)

    unchanged = Passes.end
    patch.setattr(Passes, "end", end)


class Away(PassOn):
    """Fails every call from 2 to 62 s."""

    def execute(self, tup: Tuple) -> Any:
        if 2 < self.context.clock.now() - self.began < 62:
            raise OSError("away")
        return super().execute(tup)


def outage() -> Counter[Any]:
    began: list[float] = []

    class Begun(Away):
        def prepare(self) -> None:
            began.append(self.context.clock.now())
            self.began = began[0]

    return counted(partial(Numbers, 40, pace_secs=0.1), Begun, limit_secs=300)


def outages_count(patch: Patch) -> None:
    def end_pass(self: FailedRows, worked: Any, max_retries: int | None) -> bool:
        return unchanged(self, ["p"], max_retries)

    unchanged = FailedRows.end_pass
    patch.setattr(FailedRows, "end_pass", end_pass)


def outages_count_alone(patch: Patch) -> None:
    def note_failure(self: Components, retry: RowRetry, failure: Any, acked: Any) -> None:
        retry.failures, retry.tries = retry.failures + 1, retry.tries + 1
        retry.has_seen_life, retry.failure = True, failure

    patch.setattr(Components, "note_failure", note_failure)
