"""`ProcessBoltExecutor` is the actor of a bolt task whose instance lives in a child process.

A tuple stays with this actor from its mailbox to its settle. Its values go to the child in a frame, and the frames of the child have its
emits and its verdict.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from engine.api import TaskContext
from engine.cancellation import CLOSE_TIMEOUT_SECS
from engine.errors import FORGOTTEN, ComponentError, FatalError, UsageError
from engine.kernel import Layers, SignalRing, Tuple, ack_rows, emit_rows, is_mark_due, take_due_marks
from engine.metrics import TaskLabels
from engine.raised import headline
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.executor import TooManyFailures
from engine.runtime.plan import TaskInfo
from engine.runtime.processes.child_instance import ChildInstance
from engine.runtime.processes.child_output import ChildOutput
from engine.runtime.processes.child_process import ChildDied, ChildProcess
from engine.runtime.processes.packed import Packed, unpacked_error
from engine.runtime.processes.process_calls import ROWS_PER_FRAME, ProcessCalls
from engine.runtime.processes.progress import OtherVerdict, Progress
from engine.runtime.processes.row_apart import LOAD, RowApart
from engine.runtime.processes.task_plan import pickled_plan
from engine.runtime.restart_policy import FailureStreak
from engine.runtime.run_context import RunContext
from engine.runtime.task_ports import ExecutorBoltPort
from engine.state.changes import Changes, Part
from engine.topology import ComponentSpec

_OUTPUT_HINT: Final = "Its error output has the reason"
CALL_GRACE_SECS: Final = 3.0
"""Time in which a child must begin to close its instance (RUN-3). It does so between two plain calls."""
LINGER_SECS: Final = 5.0
"""Time after `cleanup` until the process must have ended. A thread that is no daemon may keep it alive."""


class ProcessBoltExecutor(BoltExecutor):
    """The actor of one bolt task with `processes=True`."""

    calls: ProcessCalls

    def __init__(self, info: TaskInfo, spec: ComponentSpec, run_context: RunContext, ackers: list[SignalRing]) -> None:
        super().__init__(info, spec, run_context, ackers)
        self.calls = ProcessCalls(self.core, spec, run_context, self.reporter, wake=self.wakeup.set, on_slow_step=lambda secs: None)
        self.calls.fail_input = self.fail_input
        output = ChildOutput(TaskLabels(info.component_id, info.task_id), run_context, self.reporter)
        self._on_report, self._on_log, self._on_print, self._on_metrics = output.publish, output.log, output.print, output.apply_metrics
        self._child: ChildProcess | None = None
        self._begun: asyncio.Future[None] | None = None
        """Done when the instance of the child is ready, or has failed for good."""
        self._begins_closing: asyncio.Future[None] | None = None
        """Done when the child has begun to close its instance, so that it is in no plain call."""
        self._import_error: str | None = None
        """Why the child could not import the program."""
        self._closed: asyncio.Future[None] | None = None
        """Done when the child has closed its instance."""
        self._answers: dict[int, asyncio.Future[Any]] = {}
        """Results of the calls of the child's state, by number."""
        self._asked = 0
        self.changes = Changes()
        """Changes of the state that the child has sent for the running PREPARE."""
        self.port = _ProcessPort(self)
        self.streak = FailureStreak(1)
        """Requests for a fresh instance of a stateful bolt. Each request stands for many failures."""

    # The process

    async def _make_instance(self) -> None:
        self._background = self._new_background()
        component = ChildInstance(self)
        await self._connect_port(component)
        self.component = component
        self.core.bind(lambda burst: burst, basic=False, burst_rows=ROWS_PER_FRAME)  # a result goes to `ProcessCalls.await_call`
        context = self.run_context
        self._import_error = None
        begun = self._begun = context.loop.create_future()
        self._closed = context.loop.create_future()
        plan = pickled_plan(self.info, self.spec, context)
        name = f"{context.topology.name}/{self.info.component_id}[{self.info.task_id}]"
        self.calls.use_child(None)
        child = self._child = await ChildProcess.start(name, plan, context.loop, self._receive, self._note_end_of_child)
        child.watch(context.config.process_timeout_secs)
        try:
            with self.calls.held_time.until_answer():
                await begun
        finally:
            self._begun = None
        self.calls.use_child(child)

    def new_context(self) -> TaskContext:
        """Return the context for the handler of control tuples."""
        assert self._background is not None
        return self._new_context(self._background)

    async def close_child(self) -> None:
        """Let the child close its instance. Emits and settles of its `cleanup` still count."""
        child, closed = self._child, self._closed
        if child is not None and closed is not None:
            self._read(child, on=True)
            child.send("close")
            with self.calls.held_time.until_answer():
                if not await self._begins_to_close(child, closed):
                    self.reporter.report(ChildDied(self.calls.describe_hang(child)), next_step="nothing: the instance is closed")
                    return  # `_retire_instance` kills the process
                await closed  # `_close_component` limits this wait, then `_retire_instance` kills the process
            if not await child.wait(LINGER_SECS):
                place = f"{self.info.component_id!r} (task {self.info.task_id})"
                self.reporter.warn(f"the process of bolt {place} still ran {LINGER_SECS:g} s after cleanup(), in a thread, and was killed")

    async def _begins_to_close(self, child: ChildProcess, closed: asyncio.Future[None]) -> bool:
        """Wait until the child has begun to close its instance, or is gone. Return False if it hangs in a plain call."""
        begins = self._begins_closing = self.run_context.loop.create_future()
        await asyncio.wait([begins, closed], timeout=CALL_GRACE_SECS, return_when=asyncio.FIRST_COMPLETED)
        return begins.done() or closed.done()

    def _overdue_close_text(self, close: Callable[..., Any]) -> str:
        pid = None if self._child is None else self._child.pid
        return f"its process {pid} did not close the instance within {CLOSE_TIMEOUT_SECS:g} s: cleanup() or a running call has not returned"

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

    def _note_end_of_child(self, reason: str) -> None:
        """Handle the end of a process that nobody has ended (PR-2)."""
        error = ChildDied(reason)
        if self._begun is not None and not self._begun.done():
            hint = f". {_OUTPUT_HINT}" if "ended with status" in reason else ""
            self._begun.set_exception(ChildDied(self._import_error or f"{reason}, before its instance was ready{hint}"))
        elif self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
            self.kill(error)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(error)

    async def call_child(self, method: str, *arguments: Any) -> Any:
        """Call a method of the child's state, and return its result. Raises its error, and ChildDied."""
        child = self._child
        assert child is not None
        self._asked += 1
        number = self._asked
        answer = self._answers[number] = self.run_context.loop.create_future()
        child.send("call", number, method, *arguments)
        try:
            with self.calls.held_time.until_answer():
                return await answer
        except asyncio.CancelledError:
            child.send("cancel", number)
            raise
        finally:
            del self._answers[number]

    def _on_returned(self, number: int, result: Any) -> None:
        answer = self._answers.get(number)
        if answer is not None and not answer.done():
            answer.set_result(result)

    def _on_changes(self, parts: list[Part]) -> None:
        """Add changes of the state, which come before the result of `pre_prepare`."""
        for part in parts:
            self.changes.add(part)

    def _on_raised(self, number: int, error: Packed) -> None:
        answer = self._answers.get(number)
        if answer is not None and not answer.done():
            answer.set_exception(unpacked_error(error))

    def _on_died(self, error: Packed) -> None:
        """Replace the child, because its instance has died with its state."""
        self.kill(unpacked_error(error))

    def _on_worn(self, error: BaseException) -> None:
        """Replace the child when all rows have returned, unless the pause after the last renewal is not over."""
        if self._replace_for is None and self.streak.note_failure(self.run_context.clock.now(), self.processed):
            self._replace_for = error
            self.wake()

    async def _replace(self, error: BaseException, tup: Tuple | None = None) -> None:
        """Replace the instance. After many failures in a row this is no death (SV-1)."""
        if not isinstance(error, TooManyFailures):
            await super()._replace(error, tup)
            return
        self.reporter.report(error, next_step="the task gets a fresh instance, which may repair a broken connection")
        await self._renew(self._death_failure(error))

    @property
    def _has_earlier_inputs(self) -> bool:
        return super()._has_earlier_inputs or self.calls.in_flight > 0  # those of no tree are acked before they go to the child

    async def _take_due_marks(self) -> list[Tuple]:
        if not is_mark_due(self.core):
            return []
        await self.calls.wait_until_returned()
        return take_due_marks(self.core)

    async def _serve_control(self, tup: Tuple | None) -> None:
        await super()._serve_control(tup)
        if self._child is not None and self.spec.keeps_state:
            self._child.send("go")

    # Messages of the child

    def _receive(self, message: tuple[Any, ...]) -> None:
        kind, *arguments = message
        getattr(self, f"_on_{kind}")(*arguments)

    def _on_unimportable(self, why: str) -> None:
        """Note why the child ends."""
        self._import_error = f"its process could not import the program: {why}"

    def _on_ready(self) -> None:
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(None)

    def _on_work(self, emits: list[Any], acks: list[int], others: list[OtherVerdict], progress: Progress) -> None:
        """Apply the emits of the child, then its verdicts."""
        if emits:
            self._on_emits(emits)
        self._settle(acks, others)
        before = self.calls.progress
        if progress.restarts > before.restarts:
            self.policy.restarts += progress.restarts - before.restarts
        self.retries += progress.retries - before.retries
        self.diversion.diverted += progress.diverted - before.diverted
        self.calls.note_progress(progress)

    def _on_work_apart(self, rows: list[RowApart], acks: list[int], others: list[OtherVerdict], progress: Progress) -> None:
        """Apply work of which each emitted row is loaded alone. Only the anchors of a row that cannot be loaded fail (PR-1)."""
        for row in rows:
            try:
                values = row.values.load()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - code of a value; a SystemExit of it must not end the program
                self._lose_row(row, row.lost(self.info.component_id, LOAD, headline(error)))
            else:
                self._on_emits([(row.target, [values], [row.anchor])])
        self._on_work([], acks, others, progress)

    def _lose_row(self, row: RowApart, error: UsageError) -> None:
        """Fail the anchors of a row that cannot be loaded."""
        self._refuse_emit(row.anchors(), error)

    def _settle(self, acks: list[int], others: list[OtherVerdict]) -> None:
        core, taken = self.core, self.calls.taken
        for number, failure, failed_index in others:
            tup = taken.get(number)
            if tup is None:
                continue
            if failure is None:
                core.reset_timeout(tup)
            else:
                del taken[number]
                if failure.reason == FORGOTTEN and not core.fails_forgotten:
                    continue  # the run forgets it here, and so its trees wait for their timeout
                if failed_index is not None:
                    tup[0].failed_index = failed_index
                self.fail_input(tup, failure)
        ack_rows(core, acks, taken)

    def _on_emits(self, emits: list[tuple[tuple[str, int | None], list[Any], list[Any]]]) -> None:
        try:
            for (stream, target), rows, anchors in emits:
                self._emit(stream, rows, anchors, target)
        except BaseException as error:
            if isinstance(error, Exception):
                raise
            self.run_context.end_run(self._program_end_error(error))  # such as a SystemExit of a grouping, as in a call
        if self.core.backpressure.stopped_by and self._child is not None and not self.core.closing:
            self._read(self._child, on=False)

    def _read(self, child: ChildProcess, *, on: bool) -> None:
        """Read from the child, or stop reading. The frames that have arrived may stop it again."""
        child.link.hold(on=not on)
        self.calls.held_time.note_reading(not child.link.is_held)

    def _emit(self, stream: str, rows: list[Any], anchors: list[Any], target: int | None) -> None:
        for number, error in emit_rows(self.core, stream, rows, anchors, self.calls.taken, target):
            self._refuse_emit(number, error)

    def _refuse_emit(self, number: int | tuple[int, ...], error: Exception) -> None:
        """Fail the anchors of a row that could not be emitted, such as one whose key a grouping refuses."""
        self._report_refused(error, next_step="the tuple is not emitted, and its anchors fail")
        for each in number if isinstance(number, tuple) else (number,):
            tup = self.calls.taken.pop(each, None)
            if tup is not None:
                self.fail_input(tup, self.failure_of(error))

    def _report_refused(self, error: Exception, *, next_step: str) -> None:
        """Report a row that could not be emitted. A FatalError of a grouping ends the run, as in a call (SV-3)."""
        if isinstance(error, FatalError):
            self.kill(error)
        else:
            self.reporter.report(error, next_step=next_step)

    def note_resumed(self) -> None:
        """Let the child go on, because no full mailbox stops the task any more."""
        if self._child is not None:
            self._read(self._child, on=True)
        super().note_resumed()

    def _on_refused(self, first: int, why: str) -> None:
        """Send rows again of which one cannot be read."""
        self.calls.send_apart(first)

    def _on_unreadable(self, number: int, why: str) -> None:
        self.calls.refuse(number, f"cannot be loaded in the process ({why})")

    def _on_alive(self) -> None:
        """Nothing to do: the frame itself is the sign."""

    def _on_ended(self, message: str, hint: str | None, packed: Packed | None) -> None:
        """End the run, because the child cannot continue."""
        cause = None if packed is None else unpacked_error(packed)
        if self._begun is not None and not self._begun.done():
            fatal = FatalError(message, hint=hint)
            fatal.__cause__ = cause
            self._begun.set_exception(fatal)
        elif not self.core.closing:
            self.run_context.end_run(ComponentError(self.info.component_id, self.info.task_id, cause, message=message, hint=hint))

    def _on_closing(self) -> None:
        if self._begins_closing is not None and not self._begins_closing.done():
            self._begins_closing.set_result(None)

    def _on_closed(self) -> None:
        if self._child is not None:
            self._child.send("leave")
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)


class _ProcessPort(ExecutorBoltPort):
    """The port of a task in a process."""

    def guard_state(self, state: Layers) -> None:
        """Do nothing, because the child undoes the changes of calls that raise."""
