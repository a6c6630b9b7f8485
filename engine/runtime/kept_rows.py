"""Rows of an `emit_many` beyond a turn's worth: kept, and emitted in slices, one at each turn of the loop (BP-4)."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, Protocol, TypeAlias

ROWS_PER_TURN: Final = 1024
"""So many rows are emitted at once: about half a millisecond."""
ROWS_BETWEEN_LOOKS: Final = 256
"""So many rows at most pass the bound of a mailbox that is full."""
Emit: TypeAlias = Callable[..., None]
Arguments: TypeAlias = Iterator[tuple[Any, ...]]


class EmitsRows(Protocol):
    """The executor of the spout whose rows are kept."""

    def may_emit_rows(self) -> bool:
        """Tell whether a slice may go out now; whoever makes it True calls `go_on`."""

    def rows_changed(self) -> None:
        """There are rows to emit, or no more: the spout is polled only where there are none."""

    def rows_failed(self, error: BaseException) -> None:
        """A row cannot be emitted; those behind it of the same call are dropped."""

    def rows_took(self, secs: float) -> None:
        """Count the time of a slice."""


class KeptRows:
    """What one spout task has yet to emit, in order. Lives on the loop's thread."""

    def __init__(self, executor: EmitsRows, loop: asyncio.AbstractEventLoop, now: Callable[[], float]) -> None:
        self._executor = executor
        self._loop = loop
        self._now = now
        self._thread = threading.get_ident()
        self._waiting: deque[tuple[Emit, Arguments]] = deque()
        self._next: asyncio.Handle | None = None
        self._emptied: list[asyncio.Future[None]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def is_on_thread(self) -> bool:
        """True on the loop's thread."""
        return threading.get_ident() == self._thread

    def keep(self, emit: Emit, arguments: Arguments) -> None:
        """Have `emit` called with each of these arguments, behind all that is kept already."""
        self._waiting.append((emit, arguments))
        if len(self._waiting) == 1:
            self._executor.rows_changed()
        self.go_on()

    def go_on(self) -> None:
        """Emit a slice at the next turn of the loop."""
        if self._waiting and self._next is None:
            self._next = self._loop.call_soon(self._emit_slice)

    def drop(self) -> None:
        """Forget what is left: its instance is gone."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self._waiting:
            self._waiting.clear()
            self._note_empty()

    async def emptied(self) -> None:
        """Wait until nothing is kept."""
        while self._waiting:
            future: asyncio.Future[None] = self._loop.create_future()
            self._emptied.append(future)
            await future

    def _emit_slice(self) -> None:
        self._next = None
        began, left = self._now(), ROWS_PER_TURN
        try:
            while self._waiting and left > 0 and self._executor.may_emit_rows():
                most = min(left, ROWS_BETWEEN_LOOKS)
                emitted = self._emit_some(*self._waiting[0], most)
                if emitted < most:
                    self._waiting.popleft()
                left -= emitted
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the component's own, as if its call had raised it
            self._waiting.popleft()  # a call that raises at a row emits no further one
            self._executor.rows_failed(error)
        self._executor.rows_took(self._now() - began)
        if not self._waiting:
            self._note_empty()
        elif self._executor.may_emit_rows():
            self.go_on()

    def _emit_some(self, emit: Emit, arguments: Arguments, most: int) -> int:
        emitted = 0
        for each in islice(arguments, most):
            emit(*each)
            emitted += 1
        return emitted

    def _note_empty(self) -> None:
        waiting, self._emptied = self._emptied, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        self._executor.rows_changed()
