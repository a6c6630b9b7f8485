"""The working `self.context`: one for each instance of a component."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from engine.api.context import UserCounter, UserGauge, UserHistogram
from engine.clock import Clock
from engine.config import Config
from engine.errors import Failure, UsageError
from engine.metrics import TaskLabels
from engine.names import DEFAULT_STREAM, did_you_mean
from engine.raised import without_exits
from engine.runtime.ending import end_all
from engine.runtime.surroundings import RunSurroundings, TaskPlace
from engine.topology import ComponentSpec


class BackgroundTasks:
    """The background work of one instance: what it raises goes to `on_error`, what runs on is cancelled with the instance."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, on_error: Callable[[BaseException], None]) -> None:
        self._loop = loop
        self._name = name
        self._on_error = on_error
        self._tasks: set[asyncio.Task[Any]] = set()
        self.has_ended = False

    def create(self, coroutine: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """Start one."""
        aio_task = self._loop.create_task(without_exits(coroutine), name=self._name)
        aio_task.add_done_callback(lambda _: coroutine.close())  # where it was cancelled before its first step
        self._tasks.add(aio_task)
        aio_task.add_done_callback(self._ended)
        return aio_task

    def _ended(self, aio_task: asyncio.Task[Any]) -> None:
        if aio_task not in self._tasks:  # its instance died in the same turn, and `end` has dealt with it
            return
        self._tasks.remove(aio_task)
        error = None if aio_task.cancelled() else aio_task.exception()
        if error is not None:
            self._on_error(error)

    async def end(self) -> tuple[list[BaseException], int]:
        """Cancel what still runs, and wait for it, as `end_all`; its instance closes now, and may begin no more."""
        self.has_ended = True
        running = list(self._tasks)
        for aio_task in running:
            aio_task.remove_done_callback(self._ended)
        self._tasks.clear()
        return await end_all(running)


class NoBackgroundTasks(BackgroundTasks):
    """For what has a context but no life that ends: a custom grouping."""

    def create(self, coroutine: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        coroutine.close()
        raise UsageError("a custom grouping has no background work", hint="Start it in a component's open() or prepare().")


class ExecutorContext:
    """One instance's view of the run (`engine.api.TaskContext`)."""

    def __init__(
        self, place: TaskPlace, spec: ComponentSpec, around: RunSurroundings, *, wake: Callable[[], None], background: BackgroundTasks
    ) -> None:
        self._place = place
        self._spec = spec
        self._around = around
        self._background = background
        self._labels = TaskLabels(place.component_id, place.task_id)
        self.wake = wake
        self.random = around.random.stream("context", place.component_id, place.task_index)
        self.failure: Failure | None = None

    @property
    def topology_name(self) -> str:
        return self._around.topology.name

    @property
    def component_id(self) -> str:
        return self._place.component_id

    @property
    def task_id(self) -> int:
        return self._place.task_id

    @property
    def task_index(self) -> int:
        return self._place.task_index

    @property
    def tasks(self) -> int:
        return self._spec.parallelism

    @property
    def config(self) -> Config:
        return self._around.config

    @property
    def clock(self) -> Clock:
        return self._around.clock

    def task_ids(self, component: str) -> Sequence[int]:
        found = self._around.task_ids.get(component) if isinstance(cast(object, component), str) else None
        if found is None:
            hint = did_you_mean(component, self._around.topology.components)
            text = f"{self._where} asked for the tasks of {component!r}, which is not there"
            raise UsageError(text, hint=hint)
        return found

    def sources(self) -> Sequence[int]:
        return self._around.user_sources_of(self._spec)

    def targets(self, stream: str = DEFAULT_STREAM) -> Sequence[int]:
        if not isinstance(cast(object, stream), str) or stream not in self._spec.streams:
            hint = did_you_mean(stream, self._spec.streams)
            raise UsageError(f"{self._where} has no stream {stream!r}", hint=hint)
        return self._around.targets_of(self.component_id, stream)

    def create_task(self, coroutine: Coroutine[Any, Any, object], /) -> asyncio.Task[Any]:
        if not asyncio.iscoroutine(cast(object, coroutine)):
            text = f"{self._where} called create_task({coroutine!r}), which is no coroutine"
            raise UsageError(text, hint="Call an async def: self.context.create_task(self.work()).")
        if self._background.has_ended:
            coroutine.close()
            raise UsageError(
                f"{self._where}: an instance that closes, was replaced after an error, or whose run has ended, called create_task()",
                hint="Await the coroutine itself in close() or cleanup(), and begin nothing after it.",
            )
        return self._background.create(coroutine)

    @property
    def _where(self) -> str:
        return f"{self._spec.kind} {self.component_id!r}"

    def counter(self, name: str, /, **labels: str) -> UserCounter:
        return self._around.metrics.counter(name, self._labels, labels)

    def gauge(self, name: str, /, **labels: str) -> UserGauge:
        return self._around.metrics.gauge(name, self._labels, labels)

    def histogram(self, name: str, /, **labels: str) -> UserHistogram:
        return self._around.metrics.histogram(name, self._labels, labels)

    def drop_metric(self, name: str, /, **labels: str) -> None:
        self._around.metrics.drop_metric(name, self._labels, labels)
