"""Reads files in a thread, ahead of the spout (FI-8)."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Final, TypeVar

from engine.clock import Clock
from engine.errors import FatalError
from engine.files.progress import Event, FileProgress, Piece, Place
from engine.files.reader import FileReader
from engine.in_thread import in_thread

READ_BYTES: Final = 1024 * 1024
"""Bytes that the thread reads in one call. The next call begins when fewer are waiting, so at most twice as many wait."""
LOOK_SECS: Final = 0.2
LOOK_SHARE: Final = 20
"""Listing the files takes at most 1/LOOK_SHARE of the time."""
OVERDUE_SECS: Final = 1.0
"""Time after which a look that has not ended is overdue, in addition to twice the time that the last one took."""
_T = TypeVar("_T")


class ReadAhead:
    """Events of a reader, in order. The thread of the event loop uses this object, and the thread of the pool uses the reader."""

    def __init__(self, reader: FileReader, pool: Executor, wake: Callable[[], None], *, follow: bool) -> None:
        """wake: called when there are events, or when all files are read."""
        self.reader = reader
        self._pool = pool
        self._wake = wake
        self._follow = follow
        self._events: deque[Event] = deque()
        self.waiting_bytes = 0
        """Bytes of the pieces that were read and not taken."""
        self._has_room = asyncio.Event()
        self._has_ended = False
        self.files: dict[str, FileProgress] | None = None
        """Files that are open or still to be read, by key. None: not known yet."""
        self._overdue_at = 0.0

    def is_fresh(self, now: float) -> bool:
        """Return whether the ends of the files are known as of the last look, and the next look is not overdue."""
        return not self._follow or now <= self._overdue_at

    def _note_files(self) -> None:
        """Add the files that the reader has found. Called while the thread rests."""
        self.files = {} if self.files is None else self.files
        self.files.update((progress.key, progress) for progress in self.reader.take_begun())

    def forget_file(self, key: str) -> None:
        """Forget a file whose last row was emitted."""
        assert self.files is not None
        self.files.pop(key, None)

    @property
    def is_finished(self) -> bool:
        """True if all files are read, and all events are taken."""
        return self._has_ended and not self._events

    def take(self) -> Event | None:
        """Return the next event, or None if there is none now."""
        if not self._events:
            return None
        event = self._events.popleft()
        if isinstance(event, Piece):
            self.waiting_bytes -= len(event.data)
            if self.waiting_bytes < READ_BYTES:
                self._has_room.set()
        return event

    def put_back(self, event: Event) -> None:
        """Let the next `take` return an event that was taken, and is no piece."""
        self._events.appendleft(event)

    async def run(self, places: Mapping[str, Place]) -> None:
        """Read all files, or for ever if they are followed. Raises FatalError."""
        now = Clock.of(asyncio.get_running_loop()).now
        await read_in_thread(self._pool, partial(self.reader.begin, places))
        self._note_files()
        look_at = now() + LOOK_SECS
        self._overdue_at = look_at + OVERDUE_SECS
        while not self._has_ended:
            while self.waiting_bytes >= READ_BYTES:
                self._has_room.clear()
                await self._has_room.wait()
            events = await read_in_thread(self._pool, partial(self.reader.read, READ_BYTES)) if self.reader.has_more else []
            self._events += events
            self.waiting_bytes += sum(len(event.data) for event in events if isinstance(event, Piece))
            self._has_ended = self.reader.is_finished
            if events or self._has_ended:
                self._wake()
            if not self._follow:
                continue
            if not events:
                await asyncio.sleep(max(look_at - now(), 0))
            if now() >= look_at:
                began = now()
                await read_in_thread(self._pool, self.reader.look)
                self._note_files()
                took = now() - began
                look_at = now() + max(LOOK_SECS, took * LOOK_SHARE)
                self._overdue_at = look_at + OVERDUE_SECS + 2 * took


async def read_in_thread(pool: Executor, work: Callable[[], _T]) -> _T:
    """Call work in a thread of the pool. Raises FatalError for an OSError, because a new instance could not read the files either."""
    try:
        return await in_thread(pool, work)
    except OSError as error:
        raise FatalError(f"the input files cannot be read: {error}", hint="Repair this, and start again.") from error
