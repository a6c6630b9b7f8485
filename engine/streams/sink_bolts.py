"""Bolts of sinks that are functions or classes of the user."""

from collections.abc import Callable
from dataclasses import dataclass
from types import CoroutineType
from typing import Any

from engine.api import BasicBolt, Tuple
from engine.streams.calls import Call, OpenCalls
from engine.streams.rows import ROW
from engine.streams.steps import refuse_coroutines


class SinkBolt(BasicBolt):
    """Calls a function with each row. One row at a time, because a burst that raises would call it again for the other rows."""

    call: Callable[[Any], Any]

    def __init__(self, call: Call) -> None:
        self._given = call
        self.survives_rollback = not call.is_class  # type: ignore[misc]

    async def prepare(self) -> None:
        self._open = OpenCalls(self.context)
        self.call = await self._open.function_of(self._given)

    async def cleanup(self) -> None:
        await self._open.close()

    def execute(self, tup: Tuple) -> None:
        """Call the function with one row."""
        result = self.call(tup[ROW])
        if type(result) is CoroutineType:
            refuse_coroutines("sink", [result])


class AsyncSinkBolt(SinkBolt):
    """Awaits a function for each row."""

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        """Await the call of one row."""
        await self.call(tup[ROW])


@dataclass(frozen=True, slots=True)
class SinkFactory:
    """Factory of the bolts of one sink."""

    call: Call

    def create(self) -> SinkBolt:
        """Return a new bolt."""
        return AsyncSinkBolt(self.call) if self.call.kind.is_async else SinkBolt(self.call)
