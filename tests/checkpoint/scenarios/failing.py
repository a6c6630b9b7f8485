"""Scenarios of rows that fail, and of a row that kills its task (EO-1, EO-6).

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
from engine.checkpoint.sources import SourceTask
from engine.testing import run_topology
from tests.checkpoint.scenarios.kit import FAST, Numbers, PassOn, Tally, Told, counted

Patch: TypeAlias = pytest.MonkeyPatch


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


def failed_once(kind: Any, *, beside: bool) -> Counter[Any]:
    """beside: the stateful bolt gets the rows themselves, beside the bolt that fails."""
    told, builder, bolt = Told(), TopologyBuilder("scenario"), type("Once", (kind,), {"failed": set()})
    builder.set_spout("numbers", partial(Numbers, 40, burst=2, pace_secs=0.01))
    builder.set_bolt("fails", bolt).shuffle_grouping("numbers")
    builder.set_bolt("count", told.create).shuffle_grouping("numbers" if beside else "fails")
    run_topology(builder.build(), FAST)
    return told.counts()


def retries_alone(patch: Patch) -> None:
    def emit_again(self: SourceTask, row: Any, failure: Any) -> None:
        self._spout.collector.emit(row[0])

    patch.setattr(SourceTask, "note_failed", emit_again)


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
        name = left[(self.ordinal // self.instances) % len(left)]
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
    return counted(type("Drawn", (Interleaved,), {}), FailsSeven, limit_secs=200)


def rows_are_known_by_ordinal(patch: Patch) -> None:
    patch.setattr(Interleaved, "ids", True)


# 15: a row kills its task


class DiesOfFive(Tally):
    """Its task dies of the row 5."""

    on_error = "restart"

    def execute(self, tup: Tuple) -> None:
        if tup["n"] == 5:
            raise ValueError("five")
        super().execute(tup)


def a_row_kills_its_task() -> Counter[Any]:
    return counted(partial(Numbers, 40), count=DiesOfFive, config=FAST.replace(max_task_restarts=20), limit_secs=100)


def deaths_do_not_count(patch: Patch) -> None:
    patch.setattr(SourceTask, "note_failed", lambda self, row, failure: None)


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
