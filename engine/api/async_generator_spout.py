"""Spout that reads an async generator function, for the decorator `@spout`."""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable
from functools import partial
from typing import Any, Final

from engine.api.generator_spout import FromGenerator
from engine.api.spout import SpoutExhausted
from engine.api.yielded_items import checked_list, with_own_positions
from engine.backoff import Backoff
from engine.cancellation import cancel_requests, was_cancelled
from engine.errors import UsageError

BUFFER_TUPLES: Final = 256
"""Number of rows of an async generator that wait for `next_tuples`, above which its reading pauses. One list may exceed the number."""
BACKOFF: Final = Backoff(0.001, 0.064)
"""Pauses after each None or empty list of an async generator. Without them, a generator that never awaits would block the whole run."""


class AsyncGeneratorSpout(FromGenerator[AsyncIterable[Any]]):
    """Spout from an async generator function. A background task reads the generator into a buffer, so `next_tuples` never waits."""

    def open(self) -> None:
        """Start the background task."""
        self._buffer: deque[object] = deque()
        """Items, or rows of lists, that were yielded and not pulled yet."""
        self._has_room = asyncio.Event()
        if not self._options.rewinds:  # else `seek` follows
            self._begin_at(self._function)

    def _begin_at(self, function: Callable[[], AsyncIterable[Any]]) -> None:
        self._begin(function, None)

    def _begin(self, function: Callable[[], AsyncIterable[Any]], before: "asyncio.Task[None] | None") -> None:
        """Begin a generator, after the task `before` has closed the one before it."""
        self._after_buffer: BaseException | None = None
        self._puller = self.context.create_task(self._fill(aiter(function()), before))
        self._puller.add_done_callback(self._note_cancelled)

    def _note_cancelled(self, puller: "asyncio.Task[None]") -> None:
        """Break a generator that cancelled the asyncio task that pulls it. Has no effect after the instance is closed."""
        if puller.cancelled():
            self._after_buffer = asyncio.CancelledError("the generator cancelled the asyncio task that pulls it")
            self.context.wake()

    async def _fill(self, source: AsyncIterator[Any], before: "asyncio.Task[None] | None") -> None:
        nothings = 0
        try:
            if before is not None:
                await asyncio.wait([before])
            async for item in source:
                rows = await self._rows_of(item) if self._options.burst else [] if item is None else [item]
                nothings = 0 if rows else nothings + 1
                if nothings:
                    await asyncio.sleep(BACKOFF.pause_secs(nothings))
                    continue
                self._buffer.extend(with_own_positions(rows) if self._options.positions else rows)
                self.context.wake()
                if len(self._buffer) >= BUFFER_TUPLES:
                    self._has_room.clear()
                    await self._has_room.wait()
            self._after_buffer = SpoutExhausted()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if was_cancelled(error):
                raise  # the engine cancelled this task; the generator itself raised any other CancelledError
            if cancel_requests():  # an error of its `finally`, for which no poll waits
                self.collector.report_error(error)
            self._after_buffer = error
        finally:
            aclose = getattr(source, "aclose", None)
            if aclose is not None:
                await aclose()
        self.context.wake()

    async def _rows_of(self, item: object) -> list[Any]:
        """Return the rows of a yielded list. Any other item breaks the generator, which then waits for the end of its instance."""
        try:
            return checked_list(self._name, item)
        except UsageError as error:
            self._after_buffer = error
            self.context.wake()
            await asyncio.Event().wait()
            raise

    def _pull_items(self, limit: int) -> None:
        if self._buffer:
            self._take_items([self._buffer.popleft() for _ in range(min(limit, len(self._buffer)))])
            if len(self._buffer) <= BUFFER_TUPLES // 2:
                self._has_room.set()
        else:
            self._stop = self._after_buffer

    def begin_finish(self) -> bool:
        """Stop reading the generator, and take everything that was read ahead."""
        self._puller.cancel()
        if self._stop is None:
            left, read_ahead = self._rows[self._next_row :], list(self._buffer)
            del self._positions[: self._next_row]
            self._buffer.clear()
            self._stop = self._after_buffer
            self._take_items(read_ahead)  # an invalid item replaces the end behind it
            self._rows, self._next_row = left + self._rows, 0
        return super().begin_finish()

    def _start_again(self) -> None:
        self._puller.cancel()
        self._buffer.clear()
        if self._repeated is not None:
            self._repeated.begin_again()
        self._begin(partial(self._function, after=self._position) if self._options.positions else self._function, self._puller)
