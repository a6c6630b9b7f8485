"""`PendingRows` emits the rows of a big `emit_many` in slices, so that other tasks run in between (BP-4)."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, Protocol

from engine.kernel import ROWS_PER_TURN
from engine.waiters import Waiters

ROWS_PER_CHECK: Final = 256
"""Rows that are emitted between two checks for a full mailbox. A mailbox exceeds its bound by at most this number."""


class RowsOwner(Protocol):
    """Methods of a spout's executor that `PendingRows` calls."""

    def may_emit_rows(self) -> bool:
        """Tell whether a slice may be emitted now. Code that changes the answer to True must call `PendingRows.schedule`."""

    def note_rows_changed(self) -> None:
        """Note that rows have become pending, or that none is left. The spout is polled only while no row is pending."""

    def note_row_error(self, error: BaseException) -> None:
        """Handle the error of a row that could not be emitted. The later rows of the same call are dropped."""

    def note_row_time(self, secs: float) -> None:
        """Count the time that a slice took."""


class PendingRows:
    """Rows of `emit_many` calls that one spout task has not emitted yet, in order. Used on the loop's thread only.

    A big `emit_many` would hold the loop. So the first rows are emitted at once, and the others in slices, one slice at each turn of the
    loop (BP-4).
    """

    def __init__(self, owner: RowsOwner, loop: asyncio.AbstractEventLoop, now: Callable[[], float]) -> None:
        self._owner = owner
        self._loop = loop
        self._now = now
        self._thread = threading.get_ident()
        self._calls: deque[tuple[Callable[..., None], Iterator[tuple[Any, ...]]]] = deque()
        self._next_slice: asyncio.Handle | None = None
        self._waiters = Waiters()

    def __bool__(self) -> bool:
        return bool(self._calls)

    @property
    def is_on_loop_thread(self) -> bool:
        """True on the loop's thread."""
        return threading.get_ident() == self._thread

    def append_calls(self, emit: Callable[..., None], arguments: Iterator[tuple[Any, ...]]) -> None:
        """Call `emit` later with each of the arguments, behind the calls that are pending already."""
        self._calls.append((emit, arguments))
        if len(self._calls) == 1:
            self._owner.note_rows_changed()
        self.schedule()

    def schedule(self) -> None:
        """Emit a slice at the next turn of the loop."""
        if self._calls and self._next_slice is None:
            self._next_slice = self._loop.call_soon(self._emit_slice)

    def discard(self) -> None:
        """Drop all pending rows, because their instance is gone."""
        if self._next_slice is not None:
            self._next_slice.cancel()
            self._next_slice = None
        if self._calls:
            self._calls.clear()
            self._note_empty()

    async def wait_until_empty(self) -> None:
        """Wait until no row is pending."""
        while self._calls:
            await self._waiters.wait()

    def _emit_slice(self) -> None:
        self._next_slice = None
        began, left = self._now(), ROWS_PER_TURN
        try:
            while self._calls and left > 0 and self._owner.may_emit_rows():
                most = min(left, ROWS_PER_CHECK)
                emitted = self._emit_some(*self._calls[0], most)
                if emitted < most:
                    self._calls.popleft()
                left -= emitted
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - an error of user code, handled as if its own call had raised it
            self._calls.popleft()  # a plain call that raises at a row emits no further row either
            self._owner.note_row_error(error)
        self._owner.note_row_time(self._now() - began)
        if not self._calls:
            self._note_empty()
        elif self._owner.may_emit_rows():
            self.schedule()

    def _emit_some(self, emit: Callable[..., None], arguments: Iterator[tuple[Any, ...]], most: int) -> int:
        emitted = 0
        for each in islice(arguments, most):
            emit(*each)
            emitted += 1
        return emitted

    def _note_empty(self) -> None:
        self._waiters.wake_all()
        self._owner.note_rows_changed()
