"""The time limit of a call of `process` (FC-9): an overdue call is cancelled, and abandoned where it runs on all the same."""

import asyncio
import inspect
import logging
import math
from collections.abc import Coroutine
from operator import length_hint
from typing import Any, Final
from weakref import WeakKeyDictionary

from engine.errors import FatalError
from engine.flow.pack import Records
from engine.kernel import StepTimer
from engine.log import TaskLogger
from engine.raised import without_exits
from engine.topology import TaskContext

LOOKS: Final = 8
"""How often within the limit a call is looked at: that costs nothing per record, and an overdue one is seen an eighth late at most."""
GRACE_SECS: Final = 1.0
"""What a cancelled call gets to end."""
MOST_ABANDONED: Final = 16
"""Calls of one task that run on; with one more the run ends, since only a new process gets rid of them."""
WARNING_PAUSE_SECS: Final = 60.0
SHOWN_CHARACTERS: Final = 200
_ROUNDING_SECS: Final = 1e-6
LOGGER: Final = logging.getLogger("engine.flow")

_ABANDONED: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int], set[asyncio.Future[Any]]]]] = WeakKeyDictionary()
"""By loop, topology and task: they outlive the instances of a task."""


class PackCall:
    """One call of `execute`: its records, and how far it is."""

    __slots__ = ("is_over", "left", "records", "steps")

    def __init__(self, records: Records) -> None:
        self.records = records
        self.left = iter(records)
        self.steps = 0
        """Rows that generators have yielded: each is a sign of life."""
        self.is_over = False
        """True once the call was cancelled; what it still does has no effect."""

    @property
    def place(self) -> tuple[int, int]:
        """How far it is."""
        return length_hint(self.left), self.steps

    def go_on(self) -> None:
        """Raise CancelledError in a call that has swallowed its cancellation."""
        if self.is_over:
            raise asyncio.CancelledError

    def note_failed(self) -> None:
        """Note that the newest record is the one that failed."""
        self.records.note_failed(self.left)


class CallLimit:
    """The limit of one instance of a bolt."""

    def __init__(self, context: TaskContext, secs: float | None) -> None:
        """secs: the bolt's own limit; None takes the config's."""
        config = context.config
        if secs is None:
            secs = config.call_timeout_secs
        if secs is None:
            secs = config.message_timeout_secs if config.enable_message_timeouts else math.inf
        self.secs: Final = secs
        self._where = f"bolt {context.component_id!r}"
        self._now = context.clock.now
        self._logger = TaskLogger(LOGGER, context.component_id, context.task_id)
        self._timed = StepTimer(self._now, config.slow_call_warn_ms / 1000, self._note_slow)
        self._next_warning = -math.inf
        by_task = _ABANDONED.setdefault(asyncio.get_running_loop(), {})
        self._abandoned = by_task.setdefault((context.topology_name, context.task_id), set())

    async def run(self, call: PackCall, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of a call, within the limit."""
        if math.isinf(self.secs):
            await work
            return
        try:
            self.check_room()
            await self._finish(call, asyncio.get_running_loop().create_task(self._steps(work)), cancels=True)
        except BaseException:
            if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:  # the instance has ended before its first step
                work.close()
            raise

    async def wait_for_thread(self, call: PackCall, working: asyncio.Future[None]) -> None:
        """Wait for a call that a thread makes, within the limit; an overdue thread is abandoned at once."""
        await self._finish(call, working, cancels=False)

    def check_room(self) -> None:
        """Raise FatalError where too many calls run on."""
        if len(self._abandoned) >= MOST_ABANDONED:
            raise FatalError(
                f"{self._where}: {len(self._abandoned)} calls of process() of one task run on behind their limit of {self.secs:g} s "
                "(call_timeout_secs), and only the end of the process ends them",
                hint="Let asyncio.CancelledError pass; give blocking calls a timeout of their own; or raise call_timeout_secs.",
            )

    async def _steps(self, work: Coroutine[Any, Any, None]) -> None:
        await self._timed(without_exits(work))

    async def _finish(self, call: PackCall, working: asyncio.Future[None], *, cancels: bool) -> None:
        slice_secs = None if math.isinf(self.secs) else self.secs / LOOKS
        seen, since = call.place, self._now()
        try:
            while not working.done():
                await asyncio.wait((working,), timeout=slice_secs)
                place, now = call.place, self._now()
                if place != seen:
                    seen, since = place, now
                elif not working.done() and now - since >= self.secs - _ROUNDING_SECS:
                    raise await self._overdue(call, working, cancels=cancels)
        except asyncio.CancelledError:  # the instance ends
            if not await self._end(call, working, cancels=cancels):
                self._logger.warning("%s: a call of process() runs on though its instance has ended.", self._where)
            raise
        if working.cancelled():
            raise asyncio.CancelledError("process() cancelled the asyncio task that runs it")
        working.result()

    async def _overdue(self, call: PackCall, working: asyncio.Future[None], *, cancels: bool) -> TimeoutError:
        """End a call that takes too long, and return its error."""
        record = call.records[max(len(call.records) - length_hint(call.left) - 1, 0)]
        call.note_failed()
        has_ended = await self._end(call, working, cancels=cancels)
        what = "was cancelled"
        if not has_ended:
            doing = f"runs on though it was cancelled {GRACE_SECS:g} s ago" if cancels else "runs on in its thread, which was replaced"
            what = f"{doing}; so do {len(self._abandoned)} calls of this task in all, of {MOST_ABANDONED} at most"
        return TimeoutError(f"process() did not return within {self.secs:g} s (call_timeout_secs), and {what}. Record: {_shown(record)}")

    async def _end(self, call: PackCall, working: asyncio.Future[None], *, cancels: bool) -> bool:
        """Cancel a call; abandon it and return False where it has not ended after a grace."""
        call.is_over = True
        try:
            if cancels and not working.done():
                working.cancel()
                await asyncio.wait((working,), timeout=GRACE_SECS)
        finally:
            if not working.done():
                self._abandoned.add(working)
            working.add_done_callback(self._forget)
        return working.done()

    def _forget(self, working: asyncio.Future[None]) -> None:
        """An abandoned call has ended after all; asyncio is not to complain of what it raised."""
        self._abandoned.discard(working)
        if not working.cancelled():
            working.exception()

    def _note_slow(self, secs: float) -> None:
        now = self._now()
        if now >= self._next_warning:
            self._next_warning = now + WARNING_PAUSE_SECS
            self._logger.warning(
                "one call of %s held the event loop for %.0f ms: nothing else ran meanwhile. Await what it waits for, use threads=n for "
                "blocking code, or do less in one call.",
                self._where,
                secs * 1000,
            )


def _shown(record: object) -> str:
    try:
        text = repr(record)
    except Exception as error:  # noqa: BLE001 - the user's own __repr__; what it raised is told instead
        return f"a {type(record).__name__} whose repr raised {type(error).__name__}"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
