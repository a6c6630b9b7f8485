"""A producer's records on their way to the controller: pulled from a generator, or by background work from an async one."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from engine.errors import UsageError
from engine.flow.producer import FlowProducer, Yielded, own_position
from engine.topology import CallKind, SpoutExhausted, TaskContext, call_kind

BUFFER_RECORDS: Final = 4096
"""Records of an async generator that wait at most to be pulled."""
BUFFER_BYTES: Final = 1 << 24
"""And their bytes, before one more is asked for."""
PULL_SECS: Final = 0.005
"""How long a generator is pulled at once, or twice as long: one whose records take time leaves some to the rest of the run."""
FIRST_PAUSE_SECS, LONGEST_PAUSE_SECS = 0.0005, 0.064
"""After a None of an async generator, doubled with each: one that never waits by itself would hold the whole run."""

Offer = Callable[[Any, Any, float], bool]
"""Take in a position, its record, and when it was yielded; True where no more is wanted just now."""


class Source(ABC):
    """The records of one producer behind a position."""

    def __init__(self, producer: FlowProducer, after: Any, context: TaskContext, offer: Offer) -> None:
        self._producer = producer
        self._context = context
        self._offer = offer
        self._after = after
        """The position of the last record that was offered."""
        self.has_ended = False
        self.steps_back = 0
        """Positions that were less than the one before: allowed, and seldom meant."""

    @property
    def read_ahead(self) -> int:
        """Records that were yielded, and not offered yet."""
        return 0

    @abstractmethod
    def pull(self, most: int) -> bool:
        """Offer what there is, up to so many records; tell whether there may be more of them at once.

        Raises what the producer raises, behind what it yielded before.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the generator, so that its `with` blocks end."""

    def _note_back(self, position: Any) -> None:
        try:
            if self._after is not None and position < self._after:
                self.steps_back += 1
        except Exception:  # noqa: BLE001 - another kind of position, or one whose `<` raises: nothing to compare with
            return

    def _checked(self, item: Any) -> tuple[Any, Any]:
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise UsageError(
                f"{type(self._producer).__name__}.records() yielded {item!r}"[:300],
                hint="Yield (position, record), or None where there is nothing just now.",
            )
        if item[0] is None:
            raise UsageError(
                f"{type(self._producer).__name__}.records() yielded a record without a position: {item[1]!r}"[:300],
                hint="Yield (position, record); a restart goes on behind the position.",
            )
        return own_position(item[0]), item[1]


class GeneratorSource(Source):
    """Pulls as much as is wanted, on the spot, as far as that is done soon."""

    _iterator: Iterator[Yielded] | None = None

    def pull(self, most: int) -> bool:
        time, offer = self._context.clock.now, self._offer
        began, look = time(), 1
        if self._iterator is None:
            self._iterator = self._begun()
        try:
            for count in range(1, most + 1):
                item = next(self._iterator, _END)
                if item is None:
                    return False
                if item is _END:
                    self.has_ended = True
                    return False
                position, record = self._checked(item)
                self._note_back(position)
                is_enough = offer(position, record, began)
                self._after = position
                if is_enough:
                    return False
                if count == look:  # at 1, 2, 4 … of them: a look at the clock takes as long as a record
                    if time() - began > PULL_SECS:
                        return True
                    look *= 2
        except SpoutExhausted:  # as a spout says it
            self.has_ended = True
        except BaseException:
            self._iterator = None  # a generator that raised cannot go on: the next pull begins a new one behind what was yielded
            raise
        return False

    def _begun(self) -> Iterator[Yielded]:
        found: Any = self._producer.records(own_position(self._after))
        if not isinstance(found, Iterable):
            raise UsageError(
                f"{type(self._producer).__name__}.records() returned {found!r}, which cannot be iterated"[:300],
                hint="Yield (position, record) in it; an async generator is an `async def records` that yields.",
            )
        return iter(found)

    async def close(self) -> None:
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()


class AsyncGeneratorSource(Source):
    """Background work fills a bounded buffer; `pull` takes from there, and never waits."""

    def __init__(self, producer: FlowProducer, after: Any, context: TaskContext, offer: Offer) -> None:
        super().__init__(producer, after, context, offer)
        self._waiting: deque[tuple[Any, Any, float, int]] = deque()
        self._waiting_bytes = 0
        self._has_room = asyncio.Event()
        self._error: BaseException | None = None
        self._is_drawn = False
        self._last = after
        """The position of the last record that was yielded."""
        self._begin()

    def _begin(self) -> None:
        self._error = None
        self._filling = self._context.create_task(self._fill(self._last))

    @property
    def read_ahead(self) -> int:
        return len(self._waiting)

    async def _fill(self, after: Any) -> None:
        pause = FIRST_PAUSE_SECS
        records = aiter(self._producer.records(own_position(after)))  # type: ignore[arg-type]
        try:
            async for item in records:
                if item is None:
                    await asyncio.sleep(pause := min(2 * pause, LONGEST_PAUSE_SECS))
                    continue
                pause = FIRST_PAUSE_SECS
                position, record = self._checked(item)
                size = self._producer.size_of(record)
                self._waiting.append((position, record, self._context.clock.now(), size))
                self._waiting_bytes += size
                self._last = position
                self._context.wake()
                if len(self._waiting) >= BUFFER_RECORDS or self._waiting_bytes >= BUFFER_BYTES:
                    self._has_room.clear()
                    await self._has_room.wait()
        except (KeyboardInterrupt, SystemExit):
            raise
        except SpoutExhausted:  # as a spout says it
            self._is_drawn = True
        except BaseException as error:
            aio_task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and aio_task is not None and aio_task.cancelling():
                raise  # the filling is to end; another CancelledError is the producer's own
            self._error = error  # `pull` raises it, behind what was yielded before
        else:
            self._is_drawn = True
        finally:
            aclose = getattr(records, "aclose", None)
            if aclose is not None:
                await aclose()
            self._context.wake()

    def pull(self, most: int) -> bool:
        waiting = self._waiting
        for _ in range(min(most, len(waiting))):
            position, record, at, size = waiting[0]
            self._note_back(position)
            is_enough = self._offer(position, record, at)
            waiting.popleft()
            self._waiting_bytes -= size
            self._after = position
            if is_enough:
                break
        if len(waiting) <= BUFFER_RECORDS // 2 and self._waiting_bytes <= BUFFER_BYTES // 2:
            self._has_room.set()
        if waiting:
            return False
        if self._error is not None:
            error = self._error
            self._begin()
            raise error
        self.has_ended = self._is_drawn
        return False

    async def close(self) -> None:
        self._filling.cancel()
        await asyncio.wait([self._filling])


_END: Final = object()


def source_of(producer: FlowProducer, after: Any, context: TaskContext, offer: Offer) -> Source:
    """Return the source for the kind of function that `records` is."""
    kind = call_kind(producer.records)
    if kind is CallKind.COROUTINE:
        raise UsageError(
            f"{type(producer).__name__}.records() is an `async def` that yields nothing", hint="Yield (position, record) inside it."
        )
    made = AsyncGeneratorSource if kind is CallKind.ASYNC_GENERATOR else GeneratorSource
    return made(producer, after, context, offer)
