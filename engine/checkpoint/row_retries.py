"""`RowRetries`: rows of an exact source that have failed without an effect. Their source emits them again, alone (EO-6).

Such a row needs no rollback, because no state has anything of it. If the next barrier comes before its tree is done, the row is *owed*: the
record of the checkpoint has it, because the position of the source is behind it, and its effect belongs to a later checkpoint (EO-2).
"""

import asyncio
import heapq
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Final

from engine.backoff import Backoff
from engine.checkpoint.owed_rows import MarkedRow, OwedRows, RowRetry, StoredRow
from engine.checkpoint.stored_positions import CODEC
from engine.clock import Clock
from engine.errors import ERROR, FAILED, EngineError, Failure
from engine.state.codec import Unencodable
from engine.topology.task_port import SpoutPort

REASONS: Final = frozenset({ERROR, FAILED})
"""Failures of a single call. Whatever else fails a row (a death, a timeout) may have hit its neighbours, too, or come again.

A forgotten row (ACK-15) may be the one that its task is just dying of.
"""
PAUSES: Final = Backoff(0.1, 10.0)
"""Pauses before the second retry and the later ones. The first one comes at once."""
MOST_ROWS: Final = 10_000
"""Rows of one task that may wait. When there is no room, a failed row repeats the interval."""
ROWS_PER_TURN: Final = 256
"""Rows that a task emits again in one turn of the loop."""


class RowRetries:
    """The rows of one task that wait to be emitted again."""

    def __init__(self, port: SpoutPort, has_instance: Callable[[], bool], owed: OwedRows) -> None:
        """has_instance: tells whether the task has an instance. Whoever lets the spout emit calls `emit_due`."""
        self._port = port
        self._has_instance = has_instance
        self._of_run = owed
        self._waiting: list[tuple[float, int, RowRetry]] = []
        """A heap, by the time when they are due."""
        self._bytes = 0
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._owed: list[RowRetry] = []
        """Rows that the running PREPARE leaves out."""
        self.barriers = 0
        """Barriers that the source has sent."""
        self.emitted = 0
        """Rows that were emitted again, over all instances."""

    def __len__(self) -> int:
        return len(self._waiting)

    def retry_of(self, row: MarkedRow, failure: Failure, *, had_no_effect: bool) -> RowRetry | None:
        """Return what is known of a row that has failed and may be retried alone. None: it repeats the interval.

        That is so if it cannot be stored, if too many rows wait, and if nobody knows the task that a direct emit has chosen.
        """
        values, stream, message_id, mark = row
        if not had_no_effect or failure.reason not in REASONS or not self._port.can_emit_row(stream):
            return None
        if isinstance(mark, RowRetry):
            return mark
        if len(self._waiting) >= MOST_ROWS:
            return None
        with suppress(Unencodable, TypeError):
            encoded = bytes(CODEC.encode([stream, list(values), message_id]))
            if self._bytes + len(encoded) <= self._of_run.most_bytes:
                return RowRetry(values, stream, message_id, encoded, mark)
        return None

    def note_failed(self, retry: RowRetry) -> None:
        """Let a row wait for its next try. If it belongs before the barrier of the running PREPARE, it is owed."""
        if retry.barriers < self.barriers:
            self._owed.append(retry)
        self._wait(retry, PAUSES.pause_secs(retry.tries - 1))

    def restore(self, stored: StoredRow) -> RowRetry:
        """Return an owed row of the record."""
        return RowRetry(*stored.decode(), stored.encoded, self.barriers, stored.failures, has_seen_life=True)

    def add(self, retry: RowRetry) -> None:
        """Let a row wait that is due at once."""
        self._wait(retry, 0.0)

    def _wait(self, retry: RowRetry, secs: float) -> None:
        loop = asyncio.get_running_loop()
        heapq.heappush(self._waiting, (Clock.of(loop).now() + secs, next(self._order), retry))
        self._bytes += len(retry.encoded)
        if self._waiting[0][-1] is retry:
            self._set_timer(loop)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        pause_secs = max(0.0, self._waiting[0][0] - Clock.of(loop).now())
        self._timer = loop.call_later(pause_secs, self.emit_due)

    def emit_due(self) -> None:
        """Emit the rows whose pause is over, if the spout may emit."""
        if not self._waiting:
            return
        loop, left = asyncio.get_running_loop(), ROWS_PER_TURN
        now = Clock.of(loop).now
        while self._waiting and left and self._has_instance() and self._port.may_emit_again:
            if self._waiting[0][0] > now():
                self._set_timer(loop)
                return
            _, _, retry = heapq.heappop(self._waiting)
            self._bytes -= len(retry.encoded)
            retry.barriers = self.barriers
            left -= 1
            if not self._emit(retry):
                retry.tries += 1
                self._wait(retry, PAUSES.pause_secs(retry.tries))
        if not left and self._waiting:
            self._set_timer(loop)

    def _emit(self, retry: RowRetry) -> bool:
        try:
            self._port.emit_again((*retry.row, retry))
        except EngineError as error:
            self._port.report(error, "the row stays owed, and is tried again later")
            return False
        self.emitted += 1
        return True

    # The checkpoint

    def note_barrier(self) -> None:
        """Note that the source sends a barrier now. What waits is owed."""
        self.barriers += 1
        self._port.mark_rows(self.barriers)
        self._owed = [retry for _, _, retry in sorted(self._waiting)]

    def take_owed(self, acked: Mapping[str, int]) -> tuple[list[RowRetry], list[tuple[RowRetry, Failure]]]:
        """Return the rows that the PREPARE leaves out, when all verdicts of before its barrier are known, and those that it may not."""
        owed: list[RowRetry] = []
        others: list[tuple[RowRetry, Failure]] = []
        for retry in self._owed:
            if retry.failure is None or self._of_run.components.may_be_owed(retry, acked):
                owed.append(retry)
            else:
                others.append((retry, retry.failure))
        self._owed = []
        return owed, others

    def failed(self) -> list[tuple[RowRetry, Failure]]:
        """Return the rows that wait because they have failed in this pass."""
        return [(retry, retry.failure) for _, _, retry in sorted(self._waiting) if retry.failure is not None]

    def clear(self) -> None:
        """Forget all rows, because the source emits again what was not committed."""
        self._waiting.clear()
        self._owed.clear()
        self._bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
