"""Reads the records of a producer. A generator is read on demand, an async generator by a background task."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from engine.api import CallKind, SpoutExhausted, TaskContext, call_kind
from engine.backoff import Backoff
from engine.cancellation import cancel_requests, was_cancelled
from engine.errors import UsageError
from engine.flow.producer import IMMUTABLE, FlowProducer, Yielded, own_position
from engine.safe_text import safe_repr

BUFFER_RECORDS: Final = 4096
"""Maximum number of records that are read ahead from an async generator."""
BUFFER_BYTES: Final = 1 << 24
"""Bytes of buffered records above which reading from an async generator pauses."""
PULL_SECS: Final = 0.005
"""Time after which a series of pulls from a generator ends, to leave time for the rest of the run. A series may take twice as long."""
BACKOFF: Final = Backoff(0.001, 0.064)
"""Pauses after each None of an async generator. Without these pauses, a generator that never awaits would block the whole run."""

Offer = Callable[[Any, Any, float], bool]
"""Function of the position, the record, and the time of the yield. Returns True if no more records are wanted at the moment."""


class RecordReader(ABC):
    """Reads the records of one producer after a position."""

    def __init__(self, producer: FlowProducer, after: Any, context: TaskContext, offer: Offer) -> None:
        self._producer = producer
        self._context = context
        self._offer = offer
        self._after = after
        """Position of the last record that was offered."""
        self.has_ended = False
        self.backward_positions = 0
        """Number of positions that were less than the previous one. Such positions are allowed, but often a mistake."""

    @property
    def read_ahead(self) -> int:
        """Number of records that were yielded, and not yet offered."""
        return 0

    @abstractmethod
    def pull_records(self, most: int) -> bool:
        """Offer at most `most` records without waiting. Return True if more may follow at once.

        Raises the error of the producer, after the records that it yielded before.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the generator, so that its `with` blocks end."""

    def _compare_position(self, position: Any) -> None:
        try:
            if self._after is not None and position < self._after:
                self.backward_positions += 1
        except Exception:  # noqa: BLE001 - positions of different types, or a `<` that raises: there is nothing to compare
            return

    def _checked(self, item: Any) -> tuple[Any, Any]:
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise UsageError(
                f"{type(self._producer).__name__}.records() yielded {safe_repr(item)}"[:300],
                hint="Yield (position, record), or None if there is nothing at the moment.",
            )
        if item[0] is None:
            raise UsageError(
                f"{type(self._producer).__name__}.records() yielded a record without a position: {safe_repr(item[1])}"[:300],
                hint="Yield (position, record). A restart continues behind the position.",
            )
        return own_position(item[0]), item[1]


class GeneratorReader(RecordReader):
    """Pulls records from a generator, at most the wanted number, and for about PULL_SECS at most."""

    _iterator: Iterator[Yielded] | None = None

    def pull_records(self, most: int) -> bool:
        time, offer = self._context.clock.now, self._offer
        began, next_check = time(), 1
        if self._iterator is None:
            self._iterator = self._begin()
        try:
            for count in range(1, most + 1):
                item = next(self._iterator, _END)
                if item is None:
                    return False
                if item is _END:
                    self.has_ended = True
                    return False
                if type(item) is tuple and len(item) == 2 and type(item[0]) in IMMUTABLE:  # the usual item, without a call
                    position, record = item
                    if position is None or type(position) is not type(self._after) or position < self._after:
                        position, record = self._checked(item)
                        self._compare_position(position)
                else:
                    position, record = self._checked(item)
                    self._compare_position(position)
                is_enough = offer(position, record, began)
                self._after = position
                if is_enough:
                    return False
                if count == next_check:  # after 1, 2, 4 … records, because reading the clock costs as much as a record
                    if time() - began > PULL_SECS:
                        return True
                    next_check *= 2
        except SpoutExhausted:  # SpoutExhausted is allowed too, because other spouts raise it at their end
            self.has_ended = True
        except BaseException:
            iterator, self._iterator = self._iterator, None  # a generator that raised cannot continue: the next pull starts a new one
            _close(iterator)  # it still runs, if the engine has refused an item of it
            raise
        return False

    def _begin(self) -> Iterator[Yielded]:
        found: Any = self._producer.records(own_position(self._after))
        if not isinstance(found, Iterable):
            raise UsageError(
                f"{type(self._producer).__name__}.records() returned {safe_repr(found)}, which cannot be iterated"[:300],
                hint="Yield (position, record) in it. An async generator is an `async def records` that yields.",
            )
        return iter(found)

    async def close(self) -> None:
        _close(self._iterator)


def _close(iterator: Iterator[Yielded] | None) -> None:
    """Close a generator, which ends its `with` blocks. Has no effect on one that has ended."""
    close = getattr(iterator, "close", None)
    if close is not None:
        close()


class AsyncGeneratorReader(RecordReader):
    """Fills a bounded buffer in a background task. `pull_records` takes records from the buffer."""

    def __init__(self, producer: FlowProducer, after: Any, context: TaskContext, offer: Offer) -> None:
        super().__init__(producer, after, context, offer)
        self._buffer: deque[tuple[Any, Any, float, int]] = deque()
        self._buffer_bytes = 0
        self._has_room = asyncio.Event()
        self._error: BaseException | None = None
        self._generator_ended = False
        self._last_yielded = after
        """Position of the last record that was yielded."""
        self._begin(None)

    def _begin(self, before: "asyncio.Task[None] | None") -> None:
        """Begin a generator, after the task `before` has closed the one before it."""
        self._error = None
        self._filling = self._context.create_task(self._fill(self._last_yielded, before))

    @property
    def read_ahead(self) -> int:
        return len(self._buffer)

    async def _fill(self, after: Any, before: "asyncio.Task[None] | None") -> None:
        nones = 0
        if before is not None:
            await asyncio.wait([before])
        records = aiter(self._producer.records(own_position(after)))  # type: ignore[arg-type]
        try:
            async for item in records:
                if item is None:
                    nones += 1
                    await asyncio.sleep(BACKOFF.pause_secs(nones))
                    continue
                nones = 0
                position, record = self._checked(item)
                size = self._producer.size_of(record)
                self._buffer.append((position, record, self._context.clock.now(), size))
                self._buffer_bytes += size
                self._last_yielded = position
                self._context.wake()
                if len(self._buffer) >= BUFFER_RECORDS or self._buffer_bytes >= BUFFER_BYTES:
                    self._has_room.clear()
                    await self._has_room.wait()
        except (KeyboardInterrupt, SystemExit):
            raise
        except SpoutExhausted:  # SpoutExhausted is allowed too, because other spouts raise it at their end
            self._generator_ended = True
        except BaseException as error:
            if was_cancelled(error) or cancel_requests():
                raise  # the instance ends, and its executor reports an error of a `finally`; the producer raised any other error itself
            self._error = error  # pull_records() raises this error after the records that were yielded before
        else:
            self._generator_ended = True
        finally:
            aclose = getattr(records, "aclose", None)
            if aclose is not None:
                await aclose()
            self._context.wake()

    def pull_records(self, most: int) -> bool:
        buffer = self._buffer
        for _ in range(min(most, len(buffer))):
            position, record, yielded_at, size = buffer[0]
            self._compare_position(position)
            is_enough = self._offer(position, record, yielded_at)
            buffer.popleft()  # removed only now, so that the record stays if the offer raises
            self._buffer_bytes -= size
            self._after = position
            if is_enough:
                break
        if len(buffer) <= BUFFER_RECORDS // 2 and self._buffer_bytes <= BUFFER_BYTES // 2:
            self._has_room.set()
        if buffer:
            return False
        if self._error is not None:
            error = self._error
            self._begin(self._filling)
            raise error
        self.has_ended = self._generator_ended
        return False

    async def close(self) -> None:
        self._filling.cancel()
        await asyncio.wait([self._filling])


_END: Final = object()


def record_reader(producer: FlowProducer, after: Any, context: TaskContext, offer: Offer) -> RecordReader:
    """Return a reader for the generator or async generator `producer.records`. Raises UsageError for an `async def` without a yield."""
    kind = call_kind(producer.records)
    if kind is CallKind.COROUTINE:
        raise UsageError(
            f"{type(producer).__name__}.records() is an `async def` that yields nothing", hint="Yield (position, record) inside it."
        )
    made = AsyncGeneratorReader if kind is CallKind.ASYNC_GENERATOR else GeneratorReader
    return made(producer, after, context, offer)
