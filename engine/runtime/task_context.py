"""Implementation of `self.context` of a component instance, and of its background tasks."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from typing import Any, cast

from engine.api.context import UserCounter, UserGauge, UserHistogram
from engine.cancellation import BACKGROUND_END_SECS, CancelledWork, aio_task_error
from engine.clock import Clock
from engine.config import Config
from engine.errors import Failure, UsageError
from engine.kernel import StepTimer
from engine.metrics import TaskLabels
from engine.names import DEFAULT_STREAM, did_you_mean
from engine.raised import without_exits
from engine.runtime.plan import TaskInfo
from engine.runtime.run_context import RunContext
from engine.safe_text import safe_repr
from engine.topology import ComponentSpec


class BackgroundTasks:
    """Background tasks of one instance, which end with the instance. `on_error` decides about their errors. `timed` times their steps."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, timed: StepTimer, on_error: Callable[[BaseException], None]) -> None:
        self._loop = loop
        self._name = name
        self._timed = timed
        self._on_error = on_error
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cancelled = CancelledWork(BACKGROUND_END_SECS)
        self.has_ended = False

    def create(self, coroutine: Coroutine[Any, Any, object], context: Context | None) -> asyncio.Task[Any]:
        """Start a background task. context: its context variables, None for a copy of the caller's."""
        aio_task = self._loop.create_task(without_exits(self._timed(coroutine)), name=self._name, context=context)
        aio_task.add_done_callback(lambda _: coroutine.close())  # a task that is cancelled before its first step does not close it
        self._tasks.add(aio_task)
        aio_task.add_done_callback(self._note_end)
        return aio_task

    def _note_end(self, aio_task: asyncio.Task[Any]) -> None:
        if aio_task not in self._tasks:  # its instance died in the same turn, and `end` has handled it
            return
        self._tasks.remove(aio_task)
        error = aio_task_error(aio_task)
        if error is not None:
            self._on_error(error)

    def cancel(self) -> None:
        """Cancel the running tasks, and do not wait for them."""
        self.has_ended = True
        for aio_task in self._tasks:
            aio_task.cancel()

    async def end(self) -> tuple[list[BaseException], int]:
        """Cancel the running tasks, and return the result of `cancel_and_wait`. The instance may start no more tasks."""
        self.has_ended = True
        running = list(self._tasks)
        for aio_task in running:
            aio_task.remove_done_callback(self._note_end)
        self._tasks.clear()
        return await self._cancelled.cancel(running)


class ExecutorContext:
    """Context of one instance (`engine.api.TaskContext`).

    `background` is None for a custom grouping, because the engine never closes a grouping.
    """

    def __init__(
        self, info: TaskInfo, spec: ComponentSpec, run_context: RunContext, *, wake: Callable[[], None], background: BackgroundTasks | None
    ) -> None:
        self._info = info
        self._spec = spec
        self._run_context = run_context
        self._background = background
        self._labels = TaskLabels(info.component_id, info.task_id)
        self._wake = wake
        self._thread = threading.get_ident()
        self.random = run_context.random.stream("context", info.component_id, info.task_index)
        self.failure: Failure | None = None

    @property
    def topology_name(self) -> str:
        return self._run_context.topology.name

    @property
    def component_id(self) -> str:
        return self._info.component_id

    @property
    def task_id(self) -> int:
        return self._info.task_id

    @property
    def task_index(self) -> int:
        return self._info.task_index

    @property
    def tasks(self) -> int:
        return self._spec.parallelism

    @property
    def config(self) -> Config:
        return self._run_context.config

    @property
    def clock(self) -> Clock:
        return self._run_context.clock

    def task_ids(self, component: str) -> Sequence[int]:
        found = self._run_context.task_ids.get(component) if isinstance(cast(object, component), str) else None
        if found is None:
            hint = did_you_mean(component, self._run_context.topology.components)
            text = f"{self._where} asked for the tasks of {safe_repr(component)}, but the topology has no such component"
            raise UsageError(text, hint=hint)
        return found

    def sources(self) -> Sequence[int]:
        return self._run_context.user_sources_of(self._spec)

    def targets(self, stream: str = DEFAULT_STREAM) -> Sequence[int]:
        if not isinstance(cast(object, stream), str) or stream not in self._spec.streams:
            hint = did_you_mean(stream, self._spec.streams)
            raise UsageError(f"{self._where} has no stream {safe_repr(stream)}", hint=hint)
        return self._run_context.targets_of(self.component_id, stream)

    def wake(self) -> None:
        if threading.get_ident() != self._thread:
            raise self._wrong_thread("wake()", "self.context.wake")
        self._wake()

    def create_task(self, coroutine: Coroutine[Any, Any, object], /, *, context: Context | None = None) -> asyncio.Task[Any]:
        if not asyncio.iscoroutine(cast(object, coroutine)):
            text = f"{self._where} called create_task({safe_repr(coroutine)}), which is not a coroutine"
            raise UsageError(text, hint="Call an async def: self.context.create_task(self.work()).")
        if threading.get_ident() != self._thread:
            coroutine.close()
            raise self._wrong_thread("create_task()", "self.context.create_task, coroutine")
        if self._background is None:
            coroutine.close()
            raise UsageError("a custom grouping has no background work", hint="Start it in a component's open() or prepare().")
        if self._background.has_ended:
            coroutine.close()
            raise UsageError(
                f"{self._where}: an instance that closes, was replaced after an error, or whose run has ended, called create_task()",
                hint="Await the coroutine in close() or cleanup(), and start no tasks after it.",
            )
        return self._background.create(coroutine, context)

    def _wrong_thread(self, call: str, arguments: str) -> UsageError:
        text = f"{self._where} called {call} on a thread other than the loop's, and it had no effect"
        return UsageError(text, hint=f"Keep the loop in open() or prepare(), and use loop.call_soon_threadsafe({arguments}).")

    @property
    def _where(self) -> str:
        return f"{self._spec.kind} {self.component_id!r}"

    def counter(self, name: str, /, **labels: str) -> UserCounter:
        return self._run_context.metrics.counter(name, self._labels, labels)

    def gauge(self, name: str, /, **labels: str) -> UserGauge:
        return self._run_context.metrics.gauge(name, self._labels, labels)

    def histogram(self, name: str, /, **labels: str) -> UserHistogram:
        return self._run_context.metrics.histogram(name, self._labels, labels)

    def drop_metric(self, name: str, /, **labels: str) -> None:
        self._run_context.metrics.drop_metric(name, self._labels, labels)
