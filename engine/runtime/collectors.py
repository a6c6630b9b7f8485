"""Collectors of spouts and bolts, on top of the compiled emitters. User code gets a collector as `self.collector`."""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Any, Final, Protocol, TypeAlias

from engine.api import Values
from engine.api.basic_results import Emission
from engine.api.collector import Anchors
from engine.errors import UsageError
from engine.kernel import BoltCore, BoltEmitter, Burst, SpoutCore, SpoutEmitter, Tuple
from engine.names import DEFAULT_STREAM
from engine.waiters import Waiters

ReportError: TypeAlias = Callable[[BaseException], None]


# Bolts


class ExecutorBoltCollector(BoltEmitter):
    """Collector of one instance of a Bolt (`engine.api.BoltCollector`). emit, ack, fail and reset_timeout are compiled."""

    def __init__(self, core: BoltCore, *, ready: Callable[[], Awaitable[None]], report_error: ReportError) -> None:
        super().__init__(core)
        self._core = core
        self._ready = ready
        self._report_error = report_error

    def emit_direct(self, task: int, values: Values, anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        self.check_alive()
        self._core.emit_direct(task, values, anchors, stream)

    def report_error(self, error: BaseException) -> None:
        self._report_error(error)

    async def ready(self) -> None:
        await self._ready()


@dataclass(slots=True)
class Call:
    """One call of a bolt's execute that takes time."""

    tup: Tuple | Burst
    recorded: list[Emission] | None = field(default=None)
    """Emits of a call in a thread."""
    began: float | None = None
    """Time of the begin, while the call runs."""

    def end(self, now: float) -> float:
        """Return the seconds since the begin. 0 if the call has ended already."""
        began, self.began = self.began, None
        return 0.0 if began is None else now - began


CURRENT_CALL: ContextVar[Call | None] = ContextVar("current_call", default=None)
"""The call that the running code belongs to, if several calls run at once."""


class ExecutorBasicCollector:
    """Collector of one instance of a BasicBolt. Anchors to the input of the running call."""

    def __init__(self, emitter: BoltEmitter, core: BoltCore, component_id: str, report_error: ReportError) -> None:
        self._emitter = emitter
        self._core = core
        self._component_id = component_id
        self._report_error = report_error

    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:
        call = CURRENT_CALL.get()
        if call is not None and call.recorded is not None:
            call.recorded.append((values, stream, None))
            return
        self._emitter.emit(values, self._input(call), stream)

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        call = CURRENT_CALL.get()
        if call is not None and call.recorded is not None:
            call.recorded.append((values, stream, task))
            return
        self._emitter.check_alive()
        self._core.emit_direct(task, values, self._input(call), stream)

    def report_error(self, error: BaseException) -> None:
        self._report_error(error)

    def _input(self, call: Call | None) -> Tuple:
        tup = self._core.current if call is None else call.tup
        if not isinstance(tup, Tuple):
            raise UsageError(
                f"bolt {self._component_id!r} emitted outside execute()",
                hint="A BasicBolt emits while it executes an input. To emit at other times, derive from Bolt.",
            )
        return tup


# Spouts

ROWS_PER_TURN: Final = 1024
"""Rows that are emitted in one turn of the loop, in about half a millisecond."""
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


class ExecutorSpoutCollector(SpoutEmitter):
    """Collector of one instance of a spout (`engine.api.SpoutCollector`). emit is compiled.

    While rows are pending, every emit is queued behind them. `divert(True)` makes the base call `emit_rarely` for each emit.
    """

    def __init__(
        self, core: SpoutCore, rows: PendingRows, *, ready: Callable[[], Awaitable[None]], report_error: Callable[[BaseException], None]
    ) -> None:
        super().__init__(core)
        self._core = core
        self._rows = rows
        self._ready = ready
        self._report_error = report_error

    def emit_rarely(self, values: object, message_id: object, stream: str) -> None:
        self.check_alive()
        if self._rows.is_on_loop_thread:
            self._rows.append_calls(self._core.emit, iter([(values, message_id, stream)]))
        else:
            self._core.emit(values, message_id, stream)  # on another thread this call raises

    def emit_many(self, rows: Sequence[Values], message_ids: Sequence[object] | None = None, stream: str = DEFAULT_STREAM) -> None:
        if message_ids is not None and len(message_ids) != len(rows):
            raise UsageError(
                f"emit_many() was given {len(rows)} rows and {len(message_ids)} message ids",
                hint="Give one message id (or None) for each row, or leave message_ids out.",
            )
        at_once = 0 if self._rows and self._rows.is_on_loop_thread else ROWS_PER_TURN  # on another thread the first emit raises
        if type(rows) is not list:
            rows = list(rows)
        if message_ids is not None and type(message_ids) is not list:
            message_ids = list(message_ids)  # an item of a range takes long
        self.emit_rows(rows, message_ids, 0, min(at_once, len(rows)), stream)
        if len(rows) > at_once:
            self.check_alive()
            ids: Iterable[object] = repeat(None) if message_ids is None else message_ids[at_once:]
            # Copies: the caller may change its lists as soon as this returns.
            self._rows.append_calls(self._core.emit, zip(rows[at_once:], ids, repeat(stream), strict=False))

    def emit_direct(self, task: int, values: Values, message_id: object = None, stream: str = DEFAULT_STREAM) -> None:
        self.check_alive()
        if self._rows and self._rows.is_on_loop_thread:
            self._rows.append_calls(self._core.emit_direct, iter([(task, values, message_id, stream)]))
        else:
            self._core.emit_direct(task, values, message_id, stream)

    def report_error(self, error: BaseException) -> None:
        self._report_error(error)

    async def ready(self) -> None:
        await self._ready()
