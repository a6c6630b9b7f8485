"""`ProcessBoltExecutor` is the actor of a bolt task whose instance lives in a child process.

A tuple stays with this actor from its mailbox to its settle. Its values go to the child in a frame, and the frames of the child have its
emits and its verdict.
"""

import asyncio
import logging
import pickle
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from engine.api import BurstBolt, TaskContext
from engine.clock import hold_time
from engine.errors import ERROR, ComponentError, Failure, FatalError, UsageError
from engine.kernel import Burst, SignalRing, Source, Tuple, ack_rows, emit_rows, origin_of, rows_of
from engine.metrics import TaskLabels
from engine.metrics.user_metrics import MetricChange
from engine.raised import headline
from engine.runtime.bolt_calls import BoltCalls
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.error_report import ErrorReport, safe_repr
from engine.runtime.plan import TaskInfo
from engine.runtime.processes.child_process import ChildDied, ChildProcess
from engine.runtime.processes.child_task import METRICS_SECS, Progress
from engine.runtime.processes.task_plan import pickled_plan
from engine.runtime.run_context import RunContext
from engine.topology import ComponentSpec

ROWS_PER_FRAME: Final = BurstBolt.burst_rows
ROWS_AHEAD: Final = 256
"""Rows that wait in a child above which it gets no further frame (PR-3). So the child has its next burst when it has finished one."""


LINGER_SECS: Final = 5.0
"""Time after `cleanup` until the process must have ended. A thread that is no daemon may keep it alive."""
SILENT_SECS: Final = 2 * METRICS_SECS
"""Time without a frame after which a child is in a plain call."""
NewSources: TypeAlias = dict[int, tuple[str, str, int, Any]]
"""Component, stream, task and fields of each source that is new to the child, by its number."""
NO_PROGRESS: Final = Progress(0, 0, True, 0.0, 0, 0, 0, 0)


class ProcessCalls(BoltCalls):
    """The rows that the child of a task works on, in place of calls. Each row has a number, in the order of the frames."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.takes_bursts = True
        self.taken: dict[int, Tuple] = {}
        """The inputs that the child has not settled, by number."""
        self._child: ChildProcess | None = None
        self._sent = 0
        self._sources: dict[Source, int] = {}
        self.progress = NO_PROGRESS
        self._release_time: Callable[[], None] | None = None

    def use_child(self, child: ChildProcess | None) -> None:
        """Send rows to this child from now on. Its numbers begin at 1."""
        self._child = child
        self._sent = 0
        self._sources, self.taken = {}, {}
        self.progress = NO_PROGRESS
        self._hold_time()
        self._return_waiters.wake_all()

    @property
    def in_flight(self) -> int:
        """Rows that have not returned. At least 1 while the child works on any."""
        if self.progress.posted == self._sent and self.progress.is_idle:
            return 0
        return max(1, self._sent - self.progress.taken)

    @property
    def has_no_room(self) -> bool:
        """True while the child has enough rows, and while somebody waits for the return of all rows."""
        return self._child is None or self._sent - self.progress.taken >= ROWS_AHEAD or self._holders > 0

    def _hold_time(self) -> None:
        """Keep virtual time still while the child has rows."""
        if self.in_flight and self._release_time is None:
            self._release_time = hold_time(self._run_context.loop, f"the process of a task of {self._spec.component_id!r}")
        elif not self.in_flight and self._release_time is not None:
            self._release_time()
            self._release_time = None

    def waiting(self) -> list[Tuple]:
        """Return the inputs that wait in the child, whose calls have not begun.

        A child that is silent is in a plain call, and has not told yet that it has taken one more input.
        """
        if self._child is None:
            return []
        first = self.progress.taken + (2 if self._child.silent_secs > SILENT_SECS else 1)
        return [tup for number in range(first, self._sent + 1) if (tup := self.taken.get(number)) is not None]

    async def await_call(self, given: Tuple | Burst, *returned: object) -> BaseException | None:
        """Send a burst to the child."""
        assert isinstance(given, Burst)
        assert self._child is not None
        if given.is_tick:
            self._child.send("tick")
            return None
        first = self._sent + 1
        self._sent += len(given)
        self._hold_time()
        self.taken.update(enumerate(given, first))
        try:
            new: NewSources = {}
            runs = [(self._key_of(source, new), rows) for source, rows in rows_of(given)]
            self._child.send("rows", first, runs, new)
        except Exception:  # noqa: BLE001 - a value that cannot be pickled; the next call finds it
            self.send_apart(first)
        return None

    def send_apart(self, first: int) -> None:
        """Send the rows from this number on again, each pickled on its own. Then only the guilty rows fail."""
        assert self._child is not None
        rows: list[tuple[int, bytes | None]] = []
        new: NewSources = {}
        self._sources.clear()  # they may have been in the frame that could not be sent or read
        for number in range(first, self._sent + 1):
            tup, row = self.taken.get(number), None
            if tup is not None:
                try:
                    row = pickle.dumps(tup.values, 5)
                except Exception as error:  # noqa: BLE001 - code of the value
                    self.refuse(number, f"cannot be pickled ({headline(error)})")
            rows.append((0 if tup is None else self._key_of(origin_of(tup), new), row))
        self._child.send("rows_apart", first, rows, new)

    def refuse(self, number: int, why: str) -> None:
        """Fail an input whose values cannot go to the child."""
        tup = self.taken.pop(number, None)
        if tup is None:
            return
        text = f"bolt {self._spec.component_id!r} runs in a process, and a value of its input {why}"
        error = UsageError(text, hint="Emit values that pickle can store and load, or leave out processes=True.")
        self._reporter.report(error, tup=tup, next_step="only this input fails; the bolt continues")
        self._core.fail(tup, Failure(ERROR, self._spec.component_id, self._core.task_id, f"{text}: {safe_repr(tup, 200)}"))

    def _key_of(self, source: Source, new: NewSources) -> int:
        """Return the number of a source in this connection. Put it into `new` if the child does not know it."""
        key = self._sources.get(source)
        if key is None:
            key = self._sources[source] = len(self._sources)
            new[key] = source.component_id, source.stream, source.task_id, source.fields
        return key

    async def wait_until_returned(self) -> None:
        """Wait until the child has finished all rows, and its emits and verdicts are here. No row is sent meanwhile."""
        self._holders += 1
        try:
            while self.in_flight and self._child is not None:
                await self._return_waiters.wait()
        finally:
            self._holders -= 1
            self._wake()

    def note_progress(self, progress: Progress) -> None:
        """Note the progress of the child."""
        before, self.progress = self.progress, progress
        self._core.add_awaited_secs(progress.busy_secs - before.busy_secs)
        self._reporter.errors += progress.errors - before.errors
        self.forgotten += progress.forgotten - before.forgotten
        self.settled_twice += progress.settled_twice - before.settled_twice
        self._hold_time()
        self._return_waiters.wake_all()
        self._wake()


class ProcessBoltExecutor(BoltExecutor):
    """The actor of one bolt task with `processes=True`."""

    calls: ProcessCalls

    def __init__(self, info: TaskInfo, spec: ComponentSpec, run_context: RunContext, ackers: list[SignalRing]) -> None:
        super().__init__(info, spec, run_context, ackers)
        self.calls = ProcessCalls(self.core, spec, run_context, self.reporter, wake=self.wakeup.set, on_slow_step=lambda secs: None)
        self._labels = TaskLabels(info.component_id, info.task_id)
        self._child: ChildProcess | None = None
        self._begun: asyncio.Future[None] | None = None
        """Done when the instance of the child is ready, or has failed for good."""
        self._closed: asyncio.Future[None] | None = None
        """Done when the child has closed its instance."""

    # The process

    async def _make_instance(self) -> None:
        self._background = self._new_background()
        component = _ChildInstance(self._new_context(self._background), self._close_child)
        await self._connect_port(component)
        self.component = component
        self.core.bind(lambda burst: burst, basic=False, burst_rows=ROWS_PER_FRAME)  # a result goes to `ProcessCalls.await_call`
        context = self.run_context
        begun = self._begun = context.loop.create_future()
        self._closed = context.loop.create_future()
        plan = pickled_plan(self.info, self.spec, context)
        name = f"{context.topology.name}/{self.info.component_id}[{self.info.task_id}]"
        child = self._child = await ChildProcess.start(name, plan, context.loop, self._receive, self._note_end_of_child)
        child.watch(context.config.process_timeout_secs)
        release_time = hold_time(context.loop, f"the start of a process of {self.info.component_id!r}")
        try:
            await begun
        finally:
            self._begun = None
            release_time()
        self.calls.use_child(child)

    async def _close_child(self) -> None:
        """Let the child close its instance. Emits and settles of its `cleanup` still count."""
        child, closed = self._child, self._closed
        if child is not None and closed is not None:
            child.link.hold(on=False)
            child.send("close")
            release_time = hold_time(self.run_context.loop, f"the close of a process of {self.info.component_id!r}")
            try:
                await closed
            finally:
                release_time()
            if not await child.wait(LINGER_SECS):
                place = f"{self.info.component_id!r} (task {self.info.task_id})"
                self.reporter.warn(f"the process of bolt {place} still ran {LINGER_SECS:g} s after cleanup(), in a thread, and was killed")

    async def _retire_instance(self, *, call_close: bool) -> None:
        try:
            await super()._retire_instance(call_close=call_close)
        finally:
            child, self._child = self._child, None
            self.calls.use_child(None)
            if child is not None:
                await child.end()

    def abandon(self) -> None:
        """Cancel the coroutine, and kill the child at once."""
        super().abandon()
        if self._child is not None:
            self._child.abandon()

    def _note_end(self, aio_task: "asyncio.Task[None]") -> None:
        super()._note_end(aio_task)
        if aio_task.cancelled() and not self.core.closing and self._child is not None:  # the event loop ends, and nobody closes the run
            self._child.abandon()

    def _note_end_of_child(self, reason: str) -> None:
        """Handle the end of a process that nobody has ended (PR-2)."""
        error = ChildDied(reason)
        if self._begun is not None and not self._begun.done():
            self._begun.set_exception(error)
        elif self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
            self.kill(error)

    # Messages of the child

    def _receive(self, message: tuple[Any, ...]) -> None:
        kind, *arguments = message
        getattr(self, f"_on_{kind}")(*arguments)

    def _on_ready(self) -> None:
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(None)

    def _on_work(self, emits: list[Any], acks: list[int], others: list[tuple[int, Failure | None]], progress: Progress) -> None:
        """Apply the emits of the child, then its verdicts."""
        core, taken = self.core, self.calls.taken
        if emits:
            self._on_emits(emits)
        for number, failure in others:
            tup = taken.get(number)
            if tup is None:
                continue
            if failure is None:
                core.reset_timeout(tup)
            else:
                del taken[number]
                core.fail(tup, failure)
        ack_rows(core, acks, taken)
        if progress.restarts > self.calls.progress.restarts:
            self.policy.restarts += progress.restarts - self.calls.progress.restarts
        self.calls.note_progress(progress)

    def _on_emits(self, emits: list[tuple[tuple[str, int | None], list[Any], list[Any]]]) -> None:
        for (stream, target), rows, anchors in emits:
            for number, error in emit_rows(self.core, stream, rows, anchors, self.calls.taken, target):
                self._refuse_emit(number, error)
        if self.core.backpressure.stopped_by and self._child is not None and not self.core.closing:
            self._child.link.hold(on=True)

    def _refuse_emit(self, number: int | tuple[int, ...], error: Exception) -> None:
        """Fail the anchors of a row that could not be emitted, such as one whose key a grouping refuses."""
        self.reporter.report(error, next_step="the tuple is not emitted, and its anchors fail")
        for each in number if isinstance(number, tuple) else (number,):
            tup = self.calls.taken.pop(each, None)
            if tup is not None:
                self.core.fail(tup, self.failure_of(error))

    def note_resumed(self) -> None:
        """Let the child go on, because no full mailbox stops the task any more."""
        if self._child is not None:
            self._child.link.hold(on=False)
        super().note_resumed()

    def _on_refused(self, first: int, why: str) -> None:
        """Send rows again of which one cannot be read."""
        self.calls.send_apart(first)

    def _on_unreadable(self, number: int, why: str) -> None:
        self.calls.refuse(number, f"cannot be loaded in the process ({why})")

    def _on_alive(self) -> None:
        """Nothing to do: the frame itself is the sign."""

    def _on_report(self, report: ErrorReport) -> None:
        self.run_context.publish(report)  # the child logs it, and so the log has it too

    def _on_log(self, record: logging.LogRecord) -> None:
        logger = logging.getLogger(record.name)
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)

    def _on_metrics(self, changes: list[MetricChange], dropped: list[tuple[str, dict[str, str]]]) -> None:
        metrics = self.run_context.metrics
        try:
            metrics.apply_changes(self._labels, changes)
            for name, labels in dropped:
                metrics.drop_metric(name, self._labels, labels)
        except UsageError as error:
            self.reporter.report(error, next_step="nothing: the metric is not counted")

    def _on_ended(self, message: str, hint: str | None, cause: BaseException | None) -> None:
        """End the run, because the child cannot continue."""
        if self._begun is not None and not self._begun.done():
            fatal = FatalError(message, hint=hint)
            fatal.__cause__ = cause
            self._begun.set_exception(fatal)
        elif not self.core.closing:
            self.run_context.end_run(ComponentError(self.info.component_id, self.info.task_id, cause, message=message, hint=hint))

    def _on_closed(self) -> None:
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)


class _ChildInstance:
    """Stands for the instance in the child."""

    def __init__(self, context: TaskContext, close: Callable[[], Awaitable[None]]) -> None:
        self.context = context
        self._close = close

    async def cleanup(self) -> None:
        """Close the instance."""
        await self._close()
