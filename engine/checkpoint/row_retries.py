"""Rows of an exact source that have failed without an effect. Their source emits them again, alone (EO-6).

Such a row needs no rollback, because no state has anything of it. If the next barrier comes before its tree is done, the row is *owed*: the
record of the checkpoint has it, because the position of the source is behind it, and its effect belongs to a later checkpoint (EO-2).
"""

import asyncio
import heapq
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias

from engine.api import Values
from engine.backoff import Backoff
from engine.clock import Clock
from engine.errors import ERROR, FAILED, FORGOTTEN, Failure
from engine.state.codec import MessagePack, Unencodable

CODEC: Final = MessagePack()
Row: TypeAlias = tuple[Values, str, Any, "int | RowRetry"]
"""(values, stream, message id of the user or None, mark). The mark of a new row is the number of barriers before it."""
REASONS: Final = frozenset({ERROR, FAILED, FORGOTTEN})
"""Failures of a single call. Whatever else fails a row (a death, a timeout) may have hit its neighbours, too, or come again."""
PAUSES: Final = Backoff(0.1, 10.0)
"""Pauses before the second retry and the later ones. The first one comes at once."""
MOST_ROWS: Final = 10_000
"""Rows of one task that may wait. When there is no room, a failed row repeats the interval."""
MOST_BYTES: Final = 8 * 1024 * 1024
"""Encoded bytes of these rows."""
ROWS_PER_TURN: Final = 256
"""Rows that a task emits again in one turn of the loop."""


class StoredRow(NamedTuple):
    """An owed row, as the record has it."""

    task_index: int
    encoded: bytes
    failures: int

    def decode(self) -> tuple[Values, str, Any]:
        """Return values, stream and message id. Raises ValueError or TypeError for damaged bytes."""
        stream, values, message_id = CODEC.decode(self.encoded)
        return tuple(values), str(stream), message_id


class Seen(NamedTuple):
    """Counts of a component, at a failure of a row."""

    component_id: str | None
    acked: int
    strangers: int
    """Failures of rows that may only have met an outage (`RowRetry.has_seen_life`)."""


@dataclass(slots=True, eq=False)
class RowRetry:
    """One row, from its first failure to its success, or until it is given up. It is the mark of the row in flight."""

    values: Values
    stream: str
    message_id: Any
    encoded: bytes
    barriers: int
    """Barriers that the source had sent before it last emitted the row."""
    failures: int = 0
    """Failures that count."""
    tries: int = 0
    """All failures in this process. They decide the pause."""
    has_seen_life: bool = False
    """True if the component that failed it has processed another input since. So its failures are no outage, and it may be owed."""
    seen: Seen | None = None
    failure: Failure | None = None
    """The last one. None for an owed row of before."""

    @property
    def row(self) -> Row:
        """The row as its source emits it."""
        return self.values, self.stream, self.message_id, self


class Components:
    """What the components of a run have processed and failed. All sources share it, to tell a bad row from an outage."""

    # acked: number of inputs that each component has processed until now

    def __init__(self) -> None:
        self._acked_before: Mapping[str, int] = {}
        self._strangers: dict[str | None, int] = {}
        self._strangers_before: dict[str | None, int] = {}

    def begin_interval(self, acked: Mapping[str, int]) -> None:
        """Begin to count anew, after a commit or a rollback."""
        self._acked_before, self._strangers_before = acked, self._strangers.copy()

    def worked(self, acked: Mapping[str, int]) -> Collection[str]:
        """Return the components that have processed something in this interval."""
        return {component_id for component_id, number in acked.items() if number > self._acked_before.get(component_id, 0)}

    def note_failure(self, retry: RowRetry, failure: Failure, acked: Mapping[str, int]) -> None:
        """Count the failure of a row, unless it may be an outage.

        It counts if the component has processed another input since the failure before, or in this interval. A component that gets nothing
        but bad rows processes nothing, either. So it also counts if the component has only failed rows that it had failed before it
        processed others.
        """
        component_id = failure.component_id
        now = Seen(component_id, acked.get(component_id or "", 0), self._strangers.get(component_id, 0))
        before = retry.seen
        if before is None or before.component_id != component_id:
            before = Seen(component_id, self._acked_before.get(component_id or "", 0), self._strangers_before.get(component_id, 0))
        elif now.acked > before.acked:
            retry.has_seen_life = True
        if now.acked > before.acked or (retry.has_seen_life and now.strangers == before.strangers):
            retry.failures += 1
        if not retry.has_seen_life:
            now = now._replace(strangers=now.strangers + 1)
            self._strangers[component_id] = now.strangers
        retry.seen, retry.failure = now, failure
        retry.tries += 1

    def may_be_owed(self, retry: RowRetry, acked: Mapping[str, int]) -> bool:
        """Tell whether a row may be left out of a commit.

        If its component has processed nothing since, it may never do so again in this interval. Then nobody could tell the bad row from an
        outage, so the others of its interval must not be committed before it.
        """
        seen = retry.seen
        if seen is not None and acked.get(seen.component_id or "", 0) > seen.acked:
            retry.has_seen_life = True
        return retry.has_seen_life


class RowRetries:
    """The rows of one task that wait to be emitted again."""

    def __init__(self, emit: Callable[[Row], bool], may_emit: Callable[[], bool]) -> None:
        """emit: emits a row, or returns False. may_emit: tells whether the spout may emit now. Whoever changes that calls `emit_due`."""
        self._emit = emit
        self._may_emit = may_emit
        self._waiting: list[tuple[float, int, RowRetry]] = []
        """A heap, by the time when they are due."""
        self._bytes = 0
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._owed: list[RowRetry] = []
        """Rows that the running PREPARE leaves out."""
        self.barriers = 0
        """Barriers that the source has sent."""
        self.most_bytes = MOST_BYTES
        self.given_up: list[RowRetry] = []
        """Rows that were given up since the last commit or rollback."""

    def __len__(self) -> int:
        return len(self._waiting)

    def retry_of(self, row: Row) -> RowRetry | None:
        """Return what is known of a row that has failed. None if it cannot be stored, or if too many rows wait."""
        values, stream, message_id, mark = row
        if isinstance(mark, RowRetry):
            return mark
        if len(self._waiting) >= MOST_ROWS:
            return None
        with suppress(Unencodable, TypeError):
            encoded = bytes(CODEC.encode([stream, list(values), message_id]))
            if self._bytes + len(encoded) <= self.most_bytes:
                return RowRetry(values, stream, message_id, encoded, mark)
        return None

    def note_failed(self, retry: RowRetry) -> None:
        """Let a row wait for its next try. If it belongs before the barrier of the running PREPARE, it is owed."""
        if retry.barriers < self.barriers:
            self._owed.append(retry)
        self._wait(retry, PAUSES.pause_secs(retry.tries - 1))

    def give_up(self, retry: RowRetry) -> None:
        """Note that a row is not tried again."""
        self.given_up.append(retry)

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
        while self._waiting and left and self._may_emit():
            if self._waiting[0][0] > now():
                self._set_timer(loop)
                return
            _, _, retry = heapq.heappop(self._waiting)
            self._bytes -= len(retry.encoded)
            retry.barriers = self.barriers
            left -= 1
            if not self._emit(retry.row):
                retry.tries += 1
                self._wait(retry, PAUSES.pause_secs(retry.tries))
        if not left and self._waiting:
            self._set_timer(loop)

    # The checkpoint

    def note_barrier(self) -> None:
        """Note that the source sends a barrier now. What waits is owed."""
        self.barriers += 1
        self._owed = [retry for _, _, retry in sorted(self._waiting)]

    def take_owed(self) -> list[RowRetry]:
        """Return the rows that the PREPARE leaves out, when all verdicts of before its barrier are known."""
        owed, self._owed = self._owed, []
        return owed

    def note_committed(self) -> int:
        """Forget the rows of before the barrier that were given up, and return their number."""
        behind = [retry for retry in self.given_up if retry.barriers == self.barriers]
        committed, self.given_up = len(self.given_up) - len(behind), behind
        return committed

    def clear(self) -> None:
        """Forget all rows, because the source emits again what was not committed."""
        self._waiting.clear()
        self._owed.clear()
        self.given_up.clear()
        self._bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
