"""Implementation of `engine.topology.task_port`: operations of a task for the engine's own components.

A port outlives the instances of its task.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol

from engine.api import Tuple as AnyTuple
from engine.api import Values
from engine.errors import Failure
from engine.kernel import BatchFeed, BoltCore, Layers, SpoutCore, Tuple, reply
from engine.names import DEFAULT_STREAM
from engine.runtime.bolt_calls import BoltCalls
from engine.runtime.error_report import ErrorReporter
from engine.runtime.orders import Orders, Work
from engine.runtime.plan import TaskInfo
from engine.runtime.run_context import RunContext
from engine.runtime.source_marks import SourceMarks
from engine.topology import ComponentSpec
from engine.topology.task_port import RunPort

_REFUSES_EMITS: Final = ContextVar("stormcell_refuses_emits", default=False)


class SpoutTask(Protocol):
    """Methods of a spout's executor that its port calls."""

    info: TaskInfo
    spec: ComponentSpec
    run_context: RunContext
    core: SpoutCore
    reporter: ErrorReporter
    waits_for_wake: bool
    given_up: int
    letters: int
    orders: Orders
    marks: SourceMarks | None

    @property
    def may_emit_again(self) -> bool: ...

    def poll_again(self) -> None: ...

    def wake(self) -> None: ...

    def hurry_commits(self, *, on: bool) -> None: ...

    async def call_hook(self, function: Callable[..., Any], *args: Any) -> None: ...

    async def rows_emitted(self) -> None: ...

    async def verdicts_arrived(self) -> None: ...


class ExecutorSpoutPort:
    """The port of one spout task."""

    def __init__(self, task: SpoutTask) -> None:
        self._task = task
        self.listener: Callable[[object, int, float], None] | None = None

    @property
    def run(self) -> RunPort:
        return self._task.run_context.port

    def emit_control(
        self, values: Values, message_id: object = None, stream: str = DEFAULT_STREAM, *, timeout_secs: float | None = None
    ) -> None:
        self._task.core.emit_control(values, stream, message_id, timeout_secs)

    def on_settled(self, listener: Callable[[object, int, float], None] | None) -> None:
        self.listener = listener
        self._task.core.listen(listener)

    def on_reply(self, listener: Callable[[object, int, Any], None] | None) -> None:
        self._task.core.on_reply = listener

    def subscribers(self, stream: str = DEFAULT_STREAM) -> Sequence[ComponentSpec]:
        return [spec for spec, _ in self._task.run_context.topology.subscribers(self._task.info.component_id, stream)]

    def report(self, error: BaseException, next_step: str) -> None:
        self._task.reporter.report(error, next_step=next_step)

    async def call(self, hook: Callable[..., object], *args: object) -> None:
        await self._task.call_hook(hook, *args)

    async def rows_emitted(self) -> None:
        await self._task.rows_emitted()

    async def verdicts_arrived(self) -> None:
        await self._task.verdicts_arrived()

    def filter_rows(self, accepts: Callable[[tuple[Any, ...], str, Any], bool] | None) -> None:
        self._task.core.row_filter = accepts

    def limit_emits(self, more: int | None) -> None:
        self._task.core.limit_emits(more)
        self._task.wake()

    def can_emit_row(self, stream: str) -> bool:
        streams = self._task.spec.streams
        return stream in streams and not streams[stream].direct

    def mark_rows(self, mark: object) -> None:
        self._task.core.row_mark = mark

    def emit_again(self, row: tuple[Any, ...]) -> None:
        self._task.core.emit_again(row)

    def hold_watermark(self, key: object, *, from_start: bool = False) -> None:
        if self._task.marks is not None:
            self._task.marks.hold(key, from_start=from_start)

    def release_watermark(self, key: object) -> None:
        if self._task.marks is not None:
            self._task.marks.forget_failed(key)

    def send_watermark(self) -> bool | None:
        return None if self._task.marks is None else self._task.marks.look_now()

    def take_times(self) -> tuple[int, dict[str, int]] | None:
        return None if self._task.marks is None else self._task.marks.now

    def restore_times(self, times: tuple[int, dict[str, int]]) -> None:
        if self._task.marks is not None:
            self._task.marks.restore(*times)

    @property
    def may_emit_again(self) -> bool:
        return self._task.may_emit_again

    @property
    def emitted(self) -> int:
        return self._task.core.emitted

    def note_given_up(self, count: int, *, outlive_run: bool) -> None:
        self._task.given_up += count
        self._task.letters += count * outlive_run

    def after_commit(self, work: Work) -> None:
        self._task.orders.add(work)

    def hurry_commits(self, *, on: bool) -> None:
        self._task.hurry_commits(on=on)

    def poll_again(self) -> None:
        self._task.poll_again()

    def wait_for_wake(self) -> None:
        self._task.waits_for_wake = True

    def count_sent(self, *, on: bool = True) -> Mapping[int, int]:
        return self._task.core.count_sent(on)


class BoltTask(Protocol):
    """Methods of a bolt's executor that its port calls."""

    run_context: RunContext
    core: BoltCore
    reporter: ErrorReporter
    has_been_ready: bool
    committed_acks: int
    given_up: int
    lost_inputs: list[Tuple]
    orders: Orders

    @property
    def calls(self) -> BoltCalls: ...

    @property
    def is_ending(self) -> bool: ...

    def fail_overdue(self) -> None: ...

    def wake(self) -> None: ...

    async def call_hook(self, function: Callable[..., Any], *args: Any) -> None: ...


class ExecutorBoltPort:
    """The port of one bolt task."""

    def __init__(self, task: BoltTask) -> None:
        self._task = task

    @property
    def run(self) -> RunPort:
        return self._task.run_context.port

    @property
    def is_ending(self) -> bool:
        return self._task.is_ending

    def wake(self) -> None:
        self._task.wake()

    def hold(self, source_task: int) -> None:
        self._task.core.hold(source_task)

    def release(self, source_task: int) -> None:
        self._task.core.release(source_task)
        self._task.wake()

    def hold_all(self) -> None:
        self._task.core.hold_all()

    def release_all(self) -> None:
        self._task.core.release_sources()
        self._task.wake()

    @property
    def has_unsettled(self) -> bool:
        return bool(self._task.core.oldest_taken(1) or self._task.lost_inputs) or self._task.core.retrying > 0

    @property
    def oldest_unsettled(self) -> Tuple | None:
        return next(iter(self._task.core.oldest_taken(1) or self._task.lost_inputs), None)

    def close_gate(self) -> None:
        self._task.core.gate(True)

    def open_gate(self) -> None:
        self._task.has_been_ready = True
        self._task.core.gate(False)
        self._task.wake()

    def emit_control(self, values: Values, anchor: AnyTuple | None = None, stream: str = DEFAULT_STREAM) -> None:
        assert anchor is None or isinstance(anchor, Tuple)
        self._task.core.emit_control(values, stream, anchor)

    def refresh_control(self, tup: AnyTuple) -> None:
        assert isinstance(tup, Tuple)
        self._task.core.reset_timeout(tup)

    def settle_control(self, tup: AnyTuple, failure: Failure | None = None) -> None:
        assert isinstance(tup, Tuple)
        self._task.core.settle_control(tup, failure)

    def reply(self, tup: AnyTuple, answer: object) -> None:
        assert isinstance(tup, Tuple)
        reply(self._task.core, tup, answer)

    def batch_feed(self, runner: object, sources: Iterable[int], *, emits_results: bool = False) -> BatchFeed:
        return BatchFeed(self._task.core, runner, sources, emits_results=emits_results)

    def report(self, error: BaseException, next_step: str, tup: AnyTuple | None = None) -> None:
        self._task.reporter.report(error, tup=tup, next_step=next_step)

    def warn(self, text: str) -> None:
        self._task.reporter.warn(text)

    async def call(self, hook: Callable[..., object], *args: object) -> None:
        await self._task.call_hook(hook, *args)

    @contextmanager
    def refusing_emits(self, error: Exception) -> Iterator[None]:
        core = self._task.core
        told = core.on_unanchored

        def refuse(task_id: int) -> None:
            nonlocal told
            core.on_unanchored = refuse  # the core has forgotten it
            if _REFUSES_EMITS.get():
                raise error
            if told is not None:
                told(task_id)
                told = None

        core.on_unanchored = refuse
        token = _REFUSES_EMITS.set(True)
        try:
            yield
        finally:
            _REFUSES_EMITS.reset(token)
            core.on_unanchored = told

    def between_calls(self, work: Work) -> "asyncio.Future[None]":
        return self._task.orders.add(work)

    async def returned(self) -> None:
        await self._task.calls.wait_until_returned()

    def guard_state(self, state: Layers) -> None:
        self._task.core.guard_state(state)

    def on_rootless_failure(self, listener: Callable[[AnyTuple, Failure], None]) -> None:
        self._task.core.on_rootless_failure = listener

    def fail_overdue(self) -> None:
        self._task.fail_overdue()

    def refuse(self, reasons: Mapping[tuple[str, str], Failure] | None) -> None:
        self._task.core.refuse(None if reasons is None else dict(reasons))

    def note_progress(self) -> None:
        self._task.committed_acks = self._task.core.acked

    def note_given_up(self, count: int) -> None:
        self._task.given_up += count

    def count_sent(self, *, on: bool = True) -> Mapping[int, int]:
        return self._task.core.count_sent(on)
