"""`SourceTask`: one task of a spout that can rewind: its positions, its barriers, and its rows that fail (EO-1, EO-6)."""

import asyncio
from collections.abc import Callable, Mapping, Set
from functools import partial
from typing import Any, Final

from engine.api import Values
from engine.checkpoint.alignment import Barrier
from engine.checkpoint.failed_rows import FailedRows
from engine.checkpoint.given_up import AloneRow, GaveUp, GivenUpRow, Row, emittable
from engine.checkpoint.one_by_one import MOST_KEPT, KeptRows
from engine.checkpoint.owed_rows import MarkedRow, RowRetry
from engine.checkpoint.row_keys import RowKey, key_of
from engine.checkpoint.row_retries import RowRetries
from engine.checkpoint.sources import Sources
from engine.checkpoint.stored_positions import current_position, has_moved
from engine.checkpoint.stored_times import SourceTime
from engine.errors import Failure
from engine.event_time import NO_WATERMARK
from engine.names import ACKER_COMPONENT, CHECKPOINT_STREAM, DEFAULT_STREAM
from engine.topology.task_port import RunPort, SourceHandler, SpoutPort, SpoutPortUser
from engine.waits import waiting_for

NO_TIMES: Final = SourceTime(NO_WATERMARK, {})
KEPT: Final = object()
"""Stands for all rows that are kept back, to go alone before the barrier. The watermark waits for them."""
COMMITTED_SECS: Final = 30.0
"""Longest time of a call of `committed`. The spout is not polled meanwhile."""


class SourceTask(SourceHandler):
    """One task of a spout that can rewind, through all its instances."""

    def __init__(self, sources: Sources, component_id: str, lost: Callable[[], None], task_index: int, port: SpoutPort) -> None:
        """lost: called if an instance has died, so that the run must recover."""
        self._sources = sources
        self.component_id: Final = component_id
        self.task_index: Final = task_index
        self._port = port
        self._lost = lost
        self._spout: Any = None
        self._position: Any = None
        self._special: Set[RowKey] = set()
        """Keys of the rows that may not be emitted with the others in this pass."""
        self.is_limited = False
        """True if the task must ask for a checkpoint at the limit of its emits."""
        self._emitted_before = 0
        """Emits until the last barrier. More of them are work for a checkpoint."""
        self.rows: Final = FailedRows(sources.counts.of(component_id, task_index), sources.passes)
        self.retries: Final = RowRetries(port, lambda: self._spout is not None, sources.owed)
        letters = {} if task_index else sources.to_retry.get(component_id, {})
        self.kept: Final = KeptRows(emittable(letters, port.can_emit_row, component_id))
        self.rows.retried |= {self._key_of(*row) for row in self.kept.retried.values()}
        self._use_filter()
        sources.tasks.append(self)

    # SourceHandler

    async def begin(self, spout: Any) -> None:
        """Let a new instance continue behind the last commit."""
        position = self._sources.positions.of_task(self.component_id, self.task_index)
        await self._port.call(spout.seek, position)
        self._spout = spout
        times = self._sources.times.of_task(self.component_id, self.task_index)
        self._port.restore_times(times or NO_TIMES)
        if position is not None:
            self._tell(position)  # the instance before may have died with the news
        for stored in self._sources.owed.of(self.component_id, self.task_index):
            retry = self.retries.restore(stored)
            if self._accepts(*retry.row):
                self.retries.add(retry)
                self._port.hold_watermark(retry, from_start=True)
        if self.kept:
            self._port.hold_watermark(KEPT)

    def _tell(self, position: Any) -> None:
        committed = getattr(self._spout, "committed", None)
        if callable(committed):
            self._port.after_commit(partial(self._call_committed, committed, position))

    async def _call_committed(self, committed: Callable[..., object], position: Any) -> None:
        """Call the hook. It only brings news, so one that hangs is cancelled, and the spout goes on."""
        with waiting_for(f"committed() of spout {self.component_id!r}"):
            async with asyncio.timeout(COMMITTED_SECS):
                await self._port.call(committed, position)

    def note_died(self) -> None:
        """Ask for a recovery, because the trees of the instance are dropped, and nobody will know which of its rows have failed."""
        self._spout = None
        self._lost()

    def note_failed(self, row: MarkedRow, failure: Failure, *, had_no_effect: bool) -> None:
        """Note that the tree of a row has failed. Without an effect it is retried alone.

        Else the interval runs on to its barrier, so that all failures in it are known, and is repeated. So is what went one by one, because
        its failure says which row is bad.
        """
        if failure.component_id == ACKER_COMPONENT:
            self._lost()  # the acker has lost all its trees, and no row is to blame
            return
        may_go_alone = had_no_effect and not self._sources.one_by_one.is_cautious and not self._went_alone(row)
        retry = self.retries.retry_of(row, failure, had_no_effect=may_go_alone)
        if retry is None:
            self.rows.note_failed(self._key_of(*row[:3]), row, failure)
            return
        self._sources.owed.components.note_failure(retry, failure, self.run.acked_by(failure.component_id))
        if not self._sources.owed.is_due(retry):
            self.retries.note_failed(retry)
            self._port.hold_watermark(retry)
        else:
            self._port.release_watermark(retry)
            given_up = GivenUpRow(self.component_id, retry.row, failure, retry.failures)
            if self._give_up_alone(row, given_up, retry.barriers):
                self._report(given_up, alone=True)

    def _went_alone(self, row: MarkedRow) -> bool:
        return bool(self.rows.went_alone) and self._key_of(*row[:3]) in self.rows.went_alone

    def give_up(self, values: Values, failure: Failure) -> None:
        """Give up a row that cannot be emitted."""
        row = (tuple(values), DEFAULT_STREAM, None)
        if not self._skips(self._key_of(*row), row):
            self._give_up_alone((*row, self.retries.barriers), GivenUpRow(self.component_id, row, failure, 1), self.retries.barriers)

    def _give_up_alone(self, row: MarkedRow, given_up: GivenUpRow, barriers: int) -> bool:
        """Give up a row of which no state has anything, so nothing is repeated. Return False if the next passes wait for room."""
        if not self._sources.passes.may_give_up():
            self.rows.note_failed(self._key_of(*row[:3]), row, given_up.failure)
            return False
        self.rows.give_up_alone(self._key_of(*row[:3]), given_up, barriers)
        return True

    def note_limit(self) -> None:
        """Ask for a checkpoint when all sources are where the failed pass has ended."""
        if self.is_limited and self._port.run.all_spouts_wait:
            self.is_limited = False
            self._port.run.request_commit()

    def repeat_only(self, rows: int) -> None:
        """Poll only for the rows that a failed pass has emitted, so that no new row can fail the pass which repeats them. 0: poll on."""
        self.is_limited = rows > 0
        self._port.limit_emits(rows or None)

    def emit_due(self) -> None:
        """Emit the rows whose pause is over, because the spout may emit again."""
        self.retries.emit_due()

    @property
    def waiting(self) -> int:
        """Number of rows that wait to be retried alone."""
        return len(self.retries)

    def take_owed(self, acked: Mapping[str, int]) -> list[RowRetry]:
        """Return the rows of before the barrier that are still to be retried. Those that may not be left out repeat the interval."""
        owed, others = self.retries.take_owed(acked)
        self.rows.note_failed_alone(others, self._key_of)
        return owed

    def end_pass(self) -> None:
        """Let the rows that still wait to be retried alone count as failed in this pass, which is repeated."""
        self.rows.note_failed_alone(self.retries.failed(), self._key_of)

    # The checkpoint

    async def emit_kept(self) -> None:
        """Emit the rows that were kept back, each alone, behind those that have been emitted."""
        await self._port.rows_emitted()
        while self.kept and not self._sources.one_by_one.is_over:
            await self._sources.one_by_one.emit(self)
            await self._port.rows_emitted()

    async def prepare(self, barrier: Barrier) -> None:
        """Take the position, and send the barrier behind the rows that have been emitted. Nothing may come between the two."""
        await self.emit_kept()  # a poll that was awaited may have brought more of them
        if self._spout is None:
            return  # it has died, so a recovery comes
        self._position = current_position(self._spout, self.component_id)
        self._sources.positions.note_taken(self.component_id, self.task_index, self._position)
        times = self._port.take_times()
        self._sources.times.note_taken(self.component_id, self.task_index, None if times is None else SourceTime(*times))
        self._emitted_before = self._port.emitted
        self.rows.note_barrier(self._new_rows)
        self.retries.note_barrier()
        if not self._sources.passes.differed:
            self.repeat_only(0)
        self._port.emit_control(tuple(barrier), None, CHECKPOINT_STREAM)

    async def verdicts_arrived(self) -> None:
        """Wait until all failures of before the barrier are known."""
        await self._port.verdicts_arrived()

    @property
    def has_work(self) -> bool:
        """True if rows have been emitted since the last barrier or are given up, or the spout has passed rows that it does not emit."""
        if self._port.emitted != self._emitted_before or self.kept or self.rows.number_given_up:
            return True
        try:
            return self._spout is not None and self._position is not None and has_moved(self._spout.position(), self._position)
        except Exception:  # noqa: BLE001 - raised again by `prepare`, which names the spout
            return True

    def note_committed(self) -> None:
        """Tell the spout, and forget the failures of before the barrier."""
        if self._sources.letters is not None:
            self._port.note_given_up(len(self.rows.letters()), outlive_run=self._sources.letters.outlive_run)
        rows = self.rows.note_committed()
        self.repeat_only(2 * rows if self._sources.passes.differed else 0)
        self.kept.retried.clear()
        if not self.kept:
            self._port.release_watermark(KEPT)
        self._use_filter()
        self._tell(self._position)

    @property
    def _new_rows(self) -> int:
        """Number of rows that have been emitted, without those that were only retried."""
        return self._port.emitted - self.retries.emitted

    def _use_filter(self) -> None:
        """Let the emitted rows pass `_accepts`, if one of them may have to be kept back."""
        self._special = self.rows.suspects if self.rows.given_up.have_come_by else self.rows.given_up.keys | self.rows.suspects
        self._port.filter_rows(self._accepts if self._special or self._sources.one_by_one.is_cautious else None)

    # Rows that go alone

    def _keeps_back(self, key: RowKey, row: Row) -> bool:
        """Tell whether a row waits, to go alone before the barrier."""
        is_cautious = self._sources.one_by_one.is_cautious
        if not is_cautious and key not in self.rows.suspects:
            return False
        if not self._port.can_emit_row(row[1]):
            return False
        self.kept.add(row, is_last=self.rows.passes[key, 0] > 0)
        self._port.hold_watermark(KEPT)
        if is_cautious and len(self.kept) >= MOST_KEPT:
            self._sources.one_by_one.hold()
            self._port.run.request_commit()
        return True

    @property
    def run(self) -> RunPort:
        return self._port.run

    def take_kept(self) -> Row | None:
        """Return the next row that goes alone. None: there is none."""
        return self.kept.take()

    def name_of(self, row: Row) -> AloneRow:
        """Return what a new process must know of a row that kills this one."""
        return self.component_id, self.task_index, *self._key_of(*row)

    def emit_alone(self, row: Row) -> None:
        """Emit a row that was kept back, unless it is given up."""
        key = self._key_of(*row)
        if not self._skips(key, row):
            self.rows.went_alone.add(key)
            self._port.emit_again((*row, self.retries.barriers))

    async def failure_of(self, row: Row) -> Failure | None:
        """Return why a row has failed in this pass. None: it has not."""
        await self._port.verdicts_arrived()
        failures = self.rows.failed.get(self._key_of(*row))
        return failures[0].failure if failures else None

    def is_retried(self, row: Row) -> bool:
        """Tell whether a row is that of a dead letter."""
        return self._key_of(*row) in self.rows.retried

    def note_passed(self, row: Row) -> None:
        """Note that a row that went alone has failed nothing."""
        self.rows.suspects.discard(self._key_of(*row))

    # Passes

    def begin_pass(self) -> None:
        """Begin a pass."""
        self.rows.begin_pass(self._new_rows)
        self.kept.begin_pass()
        self.retries.clear()
        self._emitted_before = self._port.emitted
        self._use_filter()

    def _accepts(self, values: Values, stream: str, message_id: Any) -> bool:
        """Tell whether a row is emitted."""
        key, row = self._key_of(values, stream, message_id), (values, stream, message_id)
        if key not in self._special and not self._sources.one_by_one.is_cautious:
            return True
        return not (self._skips(key, row) or self._keeps_back(key, row))

    def _skips(self, key: RowKey, row: Row) -> bool:
        """Tell whether a row is given up. If so, it is reported, and becomes a dead letter with the next commit."""
        skipped = self.rows.skip(self.component_id, key, row)
        if skipped is None:
            return False
        self._report(skipped, alone=False)
        if self.rows.given_up.have_come_by:
            self._use_filter()
        return True

    def _report(self, row: GivenUpRow, *, alone: bool) -> None:
        what = "the row is not emitted again, and becomes a dead letter: python -m engine dead-letters"
        self._port.report(GaveUp.of(row, alone=alone), what)

    def _key_of(self, values: Values, stream: str, message_id: Any) -> RowKey:
        return key_of(values, stream, self._spout.row_id(message_id) if isinstance(self._spout, SpoutPortUser) else message_id)
