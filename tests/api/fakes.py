"""Fakes of an executor for spouts: a collector and a context that record."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from engine.api import Spout, SpoutExhausted
from engine.clock import Clock
from engine.errors import Failure
from engine.names import DEFAULT_STREAM


class RecordingCollector:
    """Collector of a spout that keeps the emitted tuples: (values, message id)."""

    def __init__(self) -> None:
        self.emitted: list[tuple[tuple[object, ...], Any]] = []
        self.errors: list[BaseException] = []
        self.refuses: BaseException | None = None
        self.rows_emitted = 0

    def emit(self, values: Any, message_id: object = None, stream: str = DEFAULT_STREAM) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.emitted.append((values, message_id))

    def emit_many(self, rows: Sequence[Any], message_ids: Sequence[object] | None = None, stream: str = DEFAULT_STREAM) -> None:
        self.rows_emitted = 0
        for row, message_id in zip(rows, message_ids or [None] * len(rows), strict=True):
            self.emit(row, message_id, stream)
            self.rows_emitted += 1

    def emit_direct(self, task: int, values: Any, message_id: object = None, stream: str = DEFAULT_STREAM) -> None:
        self.emit(values, message_id, stream)

    def report_error(self, error: BaseException) -> None:
        self.errors.append(error)

    async def ready(self) -> None:
        return None

    @property
    def values(self) -> list[tuple[object, ...]]:
        return [values for values, _ in self.emitted]


class RecordingContext:
    """Part of a TaskContext that the spouts of `engine.api` use."""

    def __init__(self, component_id: str = "source", task_id: int = 1) -> None:
        self.component_id = component_id
        self.task_id = task_id
        self.failure: Failure | None = None
        self.clock = Clock()
        self.aio_tasks: list[asyncio.Task[Any]] = []
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def woken(self) -> None:
        """Wait for the next `wake`, like an executor whose spout emitted nothing."""
        await self._woken.wait()
        self._woken.clear()

    def create_task(self, coroutine: Coroutine[Any, Any, object], /, *, context: Any = None) -> asyncio.Task[Any]:
        self.aio_tasks.append(asyncio.create_task(coroutine))
        return self.aio_tasks[-1]


class Driver:
    """Calls the methods of one spout by hand."""

    def __init__(self, spout: Spout, task_id: int = 1) -> None:
        self.spout = spout
        self.collector = RecordingCollector()
        self.context = RecordingContext(task_id=task_id)
        spout.collector = self.collector
        spout.context = self.context  # type: ignore[assignment]
        spout.open()

    def poll(self) -> bool:
        """Call `next_tuple`. Return False if it raised SpoutExhausted."""
        try:
            self.spout.next_tuple()
        except SpoutExhausted:
            return False
        return True

    def poll_to_end(self) -> list[tuple[object, ...]]:
        """Poll until the spout is exhausted. Return all values that it emitted."""
        while self.poll():
            assert len(self.collector.emitted) < 10_000
        return self.collector.values

    async def poll_and_wait(self) -> list[tuple[object, ...]]:
        """Poll until the spout is exhausted. After a poll that emitted nothing, wait for `wake`."""
        while True:
            before = len(self.collector.emitted)
            if not self.poll():
                return self.collector.values
            if len(self.collector.emitted) == before:
                await self.context.woken()

    def fail(self, message_id: object, failure: Failure) -> None:
        self.context.failure = failure
        self.spout.fail(message_id)
        self.context.failure = None

    async def close(self) -> None:
        """Cancel the background work, then close the spout, like an executor."""
        for aio_task in self.context.aio_tasks:
            aio_task.cancel()
        await asyncio.gather(*self.context.aio_tasks, return_exceptions=True)
        self.spout.close()
