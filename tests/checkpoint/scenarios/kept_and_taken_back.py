"""Scenarios about what a commit contains, and what a rollback takes back (EO-1, EO-3, EO-5).

Behind each scenario stands its mutant, the simpler rule, as a patch of the engine.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

import pytest

from engine import Bolt, Spout, SpoutExhausted, TopologyBuilder, Tuple
from engine.checkpoint.barrier_handler import BarrierHandler, StatefulBarrierHandler
from engine.checkpoint.positions import Positions
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.rollback import Rollback
from engine.runtime.spout_executor import SpoutExecutor
from engine.runtime.task_ports import ExecutorBoltPort
from engine.testing import KillTask, run_topology
from tests.checkpoint.scenarios.kit import FAST, Numbers, PassOn, Told, counted

Patch: TypeAlias = pytest.MonkeyPatch


# 1: a bolt keeps an input across the barrier


class EmitsLater(Bolt):
    """Settles each input 1.5 s later, in the background."""

    output_fields = "n"

    def execute(self, tup: Tuple) -> None:
        self.context.create_task(self.emit_later(tup))

    async def emit_later(self, tup: Tuple) -> None:
        await asyncio.sleep(1.5)
        self.collector.emit((tup["n"],), tup)
        self.collector.ack(tup)


def kept_across_the_barrier() -> Counter[Any]:
    return counted(partial(Numbers, 40, pace_secs=0.1), EmitsLater, faults=[KillTask("count", at_secs=each) for each in (2.7, 3.6, 5.2)])


def forwards_at_once(patch: Patch) -> None:
    patch.setattr(ExecutorBoltPort, "has_unsettled", property(lambda _: False))


class Slow(PassOn):
    """Takes 50 ms for each row."""

    async def execute(self, tup: Tuple) -> Any:
        await asyncio.sleep(0.05)
        return super().execute(tup)


# 5: the position is ahead of rows of an `emit_many`


def position_ahead_of_pending_rows() -> Counter[Any]:
    config = FAST.replace(state_checkpoint_interval_ms=100, executor_receive_buffer_size=10)
    return counted(partial(Numbers, 5000, burst=5000), Slow, faults=[KillTask("count", at_secs=200)], config=config)


def takes_position_before_rows(patch: Patch) -> None:
    async def at_once(self: SpoutExecutor) -> None:
        return None

    patch.setattr(SpoutExecutor, "rows_emitted", at_once)


# 6: a task dies while the machine is idle


def two_counts_of_which_one_dies() -> Counter[Any]:
    told, builder = Told(), TopologyBuilder("scenario")
    builder.set_spout("numbers", partial(Numbers, 40, pace_secs=0.1))
    builder.set_bolt("count", told.create).shuffle_grouping("numbers")
    builder.set_bolt("other", told.create).shuffle_grouping("numbers")
    run_topology(builder.build(), FAST, faults=[KillTask("other", at_secs=2.75)])
    return told.counts()


def only_the_dead_task_goes_back(patch: Patch) -> None:
    def sources_only(self: Rollback, tasks: Any, sources: Any, failure: Any) -> None:
        init(self, [task for task in tasks if isinstance(task, SpoutExecutor)], sources, failure)

    def recover_fresh(self: StatefulBarrierHandler, committing: int | None) -> Any:
        return self._port.between_calls(nothing) if self._is_initialised else recover(self, committing)

    async def nothing() -> None:
        return None

    init, recover = Rollback.__init__, StatefulBarrierHandler.order_recovery
    patch.setattr(Rollback, "__init__", sources_only)
    patch.setattr(StatefulBarrierHandler, "order_recovery", recover_fresh)


# 7: rows in attributes, and in mailboxes


class EmitsAtTicks(Bolt):
    """Keeps rows in an attribute, and emits them at the next tick."""

    output_fields = "n"
    tick_tuple_freq_secs = 0.7

    def prepare(self) -> None:
        self.kept: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        if not tup.is_tick:
            self.kept.append(tup)
            return
        for each in self.kept:
            self.collector.emit((each["n"],), each)
            self.collector.ack(each)
        self.kept.clear()


class ForgetsToAnchor(EmitsAtTicks):
    """The same with copies of the values, whose emits belong to no tree."""

    def execute(self, tup: Tuple) -> None:
        if not tup.is_tick:
            self.kept.append(tup)
            return
        for each in self.kept:
            self.collector.emit((each["n"],))
            self.collector.ack(each)
        self.kept.clear()


def rows_in_attributes() -> Counter[Any]:
    return counted(partial(Numbers, 40, pace_secs=0.1), ForgetsToAnchor, faults=[KillTask("count", at_secs=each) for each in (2.5, 3.9)])


def instances_are_kept(patch: Patch) -> None:
    patch.setattr(BarrierHandler, "survives_rollback", True)


def rows_in_mailboxes() -> Counter[Any]:
    return counted(partial(Numbers, 40, burst=10, pace_secs=1.03), Slow, faults=[KillTask("count", at_secs=2.3)])


def mailboxes_are_kept(patch: Patch) -> None:
    patch.setattr(BoltExecutor, "drop_inputs", lambda self, failure: None)


# 25: a partition that nobody reports


class Partitions(Spout):
    """Two partitions. The second one belongs to nobody once its ten rows are committed, until an instance is new."""

    output_fields = "n"
    partitioned = True

    def seek(self, position: Mapping[int, int] | None) -> None:
        self.next = {0: 0, 1: 0, **(position or {})}
        self.has_second = True
        self.due = 0.0

    def position(self) -> dict[int, int]:
        return dict(self.next) if self.has_second else {0: self.next[0]}

    def committed(self, position: Mapping[int, int]) -> None:
        self.has_second = self.has_second and position[1] < 10

    def next_tuple(self) -> None:
        now = self.context.clock.now()
        if now < self.due:
            return
        if self.next[1] < 10:
            part = 1
        elif self.next[0] < 30:
            part, self.due = 0, now + 0.1
        else:
            raise SpoutExhausted
        self.next[part] += 1
        self.collector.emit((self.next[part] - 1 if part == 0 else 29 + self.next[part],))


def unreported_partition() -> Counter[Any]:
    return counted(Partitions, faults=[KillTask("count", at_secs=2.5)])


def unreported_partitions_are_forgotten(patch: Patch) -> None:
    def note_committed(self: Positions) -> bool:
        for component_id in self._taken:
            self._committed.pop(component_id, None)
        return unchanged(self)

    unchanged = Positions.note_committed
    patch.setattr(Positions, "note_committed", note_committed)
