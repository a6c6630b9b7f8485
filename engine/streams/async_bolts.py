"""Bolts of `map_async`, which await many calls of the user's function at the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from engine.api import BasicBolt, Bolt, FailTuple, Fields, Tuple
from engine.api.fields import OutputFields
from engine.streams.calls import Call, OpenCalls
from engine.streams.rows import ROW, TIME


class _CallsAsync:
    """What both bolts share."""

    context: Any
    output_fields: OutputFields
    call: Callable[[Any], Awaitable[Any]]

    def __init__(self, stage: "AsyncStage") -> None:
        self._given = stage.call
        self._retries = stage.retries
        self.output_fields = Fields(*stage.layout)
        self.survives_rollback = not stage.call.is_class

    async def prepare(self) -> None:
        """Make the instance of the user's class."""
        self._open = OpenCalls(self.context)
        self.call = await self._open.function_of(self._given)

    async def cleanup(self) -> None:
        """End the instance of the user's class."""
        await self._open.close()

    async def _values(self, tup: Tuple) -> tuple[Any, ...]:
        made = await self.call(tup[ROW])
        return (made, tup[TIME]) if TIME in tup.fields else (made,)


class AsyncMapBolt(_CallsAsync, BasicBolt):
    """Emits each result as soon as it is there."""

    async def execute(self, tup: Tuple) -> tuple[Any, ...]:
        """Await the call of one row."""
        return await self._values(tup)


class OrderedAsyncMapBolt(_CallsAsync, Bolt):
    """Emits the results in the order of the rows.

    Each call waits, after its own work, until the call in front of it is over. A row that will be called again keeps its place.
    """

    def __init__(self, stage: "AsyncStage") -> None:
        super().__init__(stage)
        self.survives_rollback = False  # a call that is cancelled before it begins would keep its place for ever
        self._places: dict[Tuple, _Place] = {}
        self._last: asyncio.Future[None] | None = None

    async def execute(self, tup: Tuple) -> None:
        """Await the call of one row, and then its turn."""
        if tup not in self._places:  # with a concurrency of 1
            self._before_concurrent_call(tup)
        place = self._places[tup]
        place.calls += 1
        try:
            values = await self._values(tup)
            if place.behind is not None:
                await asyncio.shield(place.behind)
            self.collector.emit(values, tup)
            self.collector.ack(tup)
        except Exception as error:
            if place.calls > self._retries or isinstance(error, FailTuple):
                self._leave(tup, place)
            raise
        except BaseException:
            self._leave(tup, place)
            raise
        self._leave(tup, place)

    def _before_concurrent_call(self, tup: Tuple) -> None:
        """Give a row its place. The engine calls this in the order of arrival (`engine.names.BEFORE_CALL`)."""
        if tup not in self._places:
            is_over = asyncio.get_running_loop().create_future()
            self._places[tup] = _Place(self._last, is_over)
            self._last = is_over

    def _leave(self, tup: Tuple, place: "_Place") -> None:
        """Let the next row go, when those in front have gone."""
        del self._places[tup]
        if place.behind is None or place.behind.done():
            place.end()
        else:
            place.behind.add_done_callback(lambda _: place.end())


@dataclass(slots=True)
class _Place:
    """Place of a row among the others."""

    behind: asyncio.Future[None] | None
    """Done when the row in front has gone."""
    is_over: asyncio.Future[None]
    calls: int = 0

    def end(self) -> None:
        self.behind = None  # else each row would hold the one in front of it, back to the first
        if not self.is_over.done():
            self.is_over.set_result(None)


@dataclass(frozen=True, slots=True)
class AsyncStage:
    """Factory of the bolts of one `map_async`."""

    call: Call
    layout: tuple[str, ...]
    is_ordered: bool
    retries: int = 0

    def create(self) -> AsyncMapBolt | OrderedAsyncMapBolt:
        """Return a new bolt."""
        return OrderedAsyncMapBolt(self) if self.is_ordered else AsyncMapBolt(self)
