"""`ChildTask` runs the instance of one bolt task in a child process.

It has a real `BoltExecutor`. Its mailbox gets the rows of frames, numbered by their roots. All its emits go to one mailbox, and all its
verdicts to the ring of one acker. A flush sends both, first the emits. So in the run each anchor is unsettled when its tuple is emitted.
"""

import asyncio
import pickle
import socket
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from engine.api import Calls, Fields
from engine.api.fields import Streams
from engine.cancellation import CALL_ERRORS
from engine.clock import Clock
from engine.errors import ComponentError
from engine.kernel import (
    BoltBacklog,
    Choice,
    Mailbox,
    Outlet,
    OutStream,
    SignalRing,
    Source,
    first_waiting,
    make_tuple,
    post_numbered,
    take_emits,
    take_verdicts,
)
from engine.names import REPORT_STREAM, SYSTEM_COMPONENT, TAKES_PACKS, TICK_STREAM, is_reserved, plain_text
from engine.raised import headline, without_exits
from engine.randomness import RunRandom
from engine.runtime.error_report import ErrorReport
from engine.runtime.latest_failures import LatestFailures
from engine.runtime.plan import plan_tasks
from engine.runtime.processes.child_executor import ChildExecutor, ChildPort, OnlyInstance
from engine.runtime.processes.child_log import keep_log_files, open_log_files
from engine.runtime.processes.child_state import ChildState
from engine.runtime.processes.frame_size import FrameSize
from engine.runtime.processes.packed import pack_error
from engine.runtime.processes.progress import METRICS_SECS, OtherVerdict, Progress
from engine.runtime.processes.relay import Relay, RelayedMetrics
from engine.runtime.processes.relayed_stream import relay_streams
from engine.runtime.processes.task_plan import TaskPlan
from engine.runtime.processes.work_sender import WorkSender
from engine.runtime.run_context import RunContext
from engine.runtime.run_port import LiveRunPort

ROWS_PER_FLUSH: Final = 1024
"""Most emitted rows of one frame. The run needs a fraction of a millisecond for them."""
MOST_UNSENT_BYTES: Final = 1 << 20
"""Unsent bytes above which no emit is taken. The task then stops at its full mailbox, as behind any slow consumer."""

keep_log_files()  # only the fork server and its children import this module, before they import the program


async def serve(connection: socket.socket, plan: bytes) -> None:
    """Run the task of a pickled plan until the run closes it."""
    loop = asyncio.get_running_loop()
    relay = Relay(loop)
    connection.setblocking(False)
    await loop.create_unix_connection(lambda: relay.link, sock=connection)
    with relay_streams(relay):
        try:
            read: TaskPlan = pickle.loads(plan)
        except BaseException as error:  # noqa: BLE001 - code of the user's module, reported by the run
            relay.send("ended", f"its factory cannot be loaded in a process: {headline(error)}", _LOADING_HINT, None)
        else:
            open_log_files()
            relay.log_to_run(read)
            await ChildTask(read, relay).run()
    await relay.close()


_LOADING_HINT: Final = "Define the bolt in a module that a new process can import, and keep the program below if __name__ == '__main__'."


class ChildTask:
    """The task of a plan: its executor, and the messages to and from the run."""

    def __init__(self, plan: TaskPlan, relay: Relay) -> None:
        self._plan = plan
        self._relay = relay
        self._loop = asyncio.get_running_loop()
        self._now = Clock.of(self._loop).now
        self._metrics = RelayedMetrics()
        self._metrics_due = 0.0
        self._sources: dict[int, Source] = {}
        self._posted = self._ticks = 0
        self._sent: Progress | None = None
        self._kept: tuple[list[int], list[OtherVerdict], Progress] | None = None
        """Verdicts, and the progress with them, that go behind the next `_behind` rows of the emits."""
        self._behind = 0
        self._emits_size = FrameSize(ROWS_PER_FLUSH)
        self._next_flush: asyncio.Handle | None = None
        self._life: asyncio.TimerHandle | None = None
        self._calls: dict[int, asyncio.Task[None]] = {}
        """Running calls of the run, by number."""
        self._is_over: asyncio.Future[None] = self._loop.create_future()
        self._may_leave: asyncio.Future[None] = self._loop.create_future()
        """Done when the run has loaded all messages. Until then it may ask to take one apart."""
        self._emits = Mailbox(plan.config.executor_receive_buffer_size, self._flush_soon)
        self._verdicts = SignalRing(self._flush_soon)
        run_context = self._run_context()
        if plan.keeps_state:
            self.executor: ChildExecutor = OnlyInstance(
                plan.info, plan.spec, run_context, [self._verdicts], self._send_death, self._request_renewal
            )
            self._state: ChildState | None = ChildState(self.executor)
        else:
            self.executor, self._state = ChildExecutor(plan.info, plan.spec, run_context, [self._verdicts]), None
            self.executor.port = ChildPort(self.executor, partial(relay.send, "reply"))
        self._is_frozen = False
        self._work = WorkSender(relay, plan.info, self.executor.reporter, has_batches=REPORT_STREAM in plan.spec.streams)
        self._packs: dict[int, Any] | None = {} if TAKES_PACKS in plan.spec.marks else None
        """Records of each open pack of a FlowControlBolt. The run needs the index of a record that failed."""
        self._targets: dict[Source, int] = {}
        """Target task of each origin of a direct stream."""
        self.executor.core.wire(_relayed_streams(plan, run_context, self._emits, self._targets))
        self.executor.core.connect({}, {})

    def _run_context(self) -> RunContext:
        plan, clock = self._plan, Clock.of(self._loop)
        return RunContext(
            topology=plan.topology,
            config=plan.config,
            clock=clock,
            random=RunRandom(plan.seed),
            loop=self._loop,
            backlog=BoltBacklog(),
            task_ids=plan_tasks(plan.topology, plan.config).task_ids,
            metrics=self._metrics,
            port=LiveRunPort(),
            calls=Calls(lambda: None, has_ackers=plan.config.acker_executors > 0),
            publish=self._publish,
            end_run=self._end_run,
            note_idle=self._flush_soon,
            failures=LatestFailures(clock),
        )

    async def run(self) -> None:
        """Make the instance, serve it until the run closes it, and close it."""
        self._show_life()
        self._relay.receive = self._receive
        try:
            await self.executor.begin()
        except ComponentError as error:
            self._end_run(error)
        else:
            self._relay.send("ready")
            self.executor.start()
            self._flush_soon()  # after the first step of the executor, which waits for rows then
            await self._is_over
        await self.executor.close()
        self._send_all()
        self._send_metrics()
        self._relay.send("closed")
        await self._may_leave

    # From the run

    def _receive(self, frame: bytes) -> None:
        try:
            kind, *arguments = pickle.loads(frame)
        except BaseException as error:  # noqa: BLE001 - code of the values; the run finds out which of them it is
            self._relay.send("refused", self._posted + 1, headline(error))
            return
        getattr(self, f"_on_{kind}")(*arguments)

    def _on_rows(
        self, first: int, runs: list[tuple[int, int, list[tuple[Any, ...]]]], sources: Mapping[int, tuple[str, str, int, Fields]]
    ) -> None:
        """Post the rows of a frame. A frame behind one that could not be read is ignored, because the run sends it again."""
        self._sources |= {key: Source(*source) for key, source in sources.items()}
        if first != self._posted + 1:
            return
        for key, kind, rows in runs:
            self._post(key, kind, rows, self._posted + 1)
            self._posted += len(rows)
        self._flush_soon()

    def _on_rows_apart(
        self, first: int, rows: list[tuple[int, int, bytes | None]], sources: Mapping[int, tuple[str, str, int, Fields]]
    ) -> None:
        """Post rows of which each is pickled on its own. None stands for a row that is settled already.

        After several frames that could not be read, the same rows come again. These are ignored, so that no input runs twice.
        """
        self._sources |= {key: Source(*source) for key, source in sources.items()}
        if first != self._posted + 1:
            return
        for key, kind, pickled in rows:
            self._posted += 1
            if pickled is None:
                continue
            try:
                row = pickle.loads(pickled)
            except BaseException as error:  # noqa: BLE001 - code of the value, such as a SystemExit
                self._relay.send("unreadable", self._posted, headline(error))
                continue
            self._post(key, kind, [row], self._posted)
        self._flush_soon()

    def _post(self, key: int, kind: int, rows: list[tuple[Any, ...]], first: int) -> None:
        post_numbered(self.executor.core.mailbox, self._sources[key], kind, rows, first)
        if self._packs is not None:
            self._packs.update((first + index, records) for index, (records,) in enumerate(rows))

    def _on_tick(self) -> None:
        self._ticks += 1
        self.executor.core.post_tick(make_tuple((), Source(SYSTEM_COMPONENT, TICK_STREAM, 0, Fields())))
        self._flush_soon()

    def _on_call(self, number: int, method: str, *arguments: Any) -> None:
        """Call a method of the state, and send its result."""
        calling = self._call(number, method, arguments)
        self._calls[number] = self._loop.create_task(calling, name=f"{method} for the run", context=self.executor.variables)
        self._calls[number].add_done_callback(lambda _: self._calls.pop(number, None))

    def _on_cancel(self, number: int) -> None:
        """Cancel a call whose time is over."""
        if (call := self._calls.pop(number, None)) is not None:
            call.cancel()

    async def _call(self, number: int, method: str, arguments: tuple[Any, ...]) -> None:
        try:
            result = await without_exits(getattr(self._state, method)(*arguments))
        except CALL_ERRORS as error:  # a hook of the user, which may cancel itself
            if number in self._calls:  # else the run has cancelled the call
                self._relay.send("raised", number, pack_error(error))
            return
        # Emits and acks until now are before the barrier. At a PREPARE, later ones stay here until the run has forwarded the barrier.
        self._send_all()
        self._is_frozen = method == "pre_prepare"
        if self._is_frozen:
            assert self._state is not None
            self._state.send_changes(self._relay.send)
        self._relay.send("returned", number, result)

    def _on_go(self) -> None:
        """Send the later emits and verdicts, because the run has handled its control tuple."""
        self._is_frozen = False
        self._flush_soon()

    def _send_death(self, error: BaseException) -> None:
        self._relay.send("died", pack_error(error))

    def _request_renewal(self, error: BaseException) -> None:
        self._relay.send("worn", error)

    def _on_close(self) -> None:
        self._relay.send("closing")
        if not self._is_over.done():
            self._is_over.set_result(None)

    def _on_take_apart(self, frame: bytes) -> None:
        self._work.take_apart(frame)

    def _on_leave(self) -> None:
        self._may_leave.set_result(None)

    # To the run

    def _flush_soon(self) -> None:
        if self._next_flush is None:
            self._next_flush = self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send what is ready. Leave emits in the mailbox while the run does not read."""
        self._next_flush = None
        if self._is_frozen:
            return
        if self._relay.link.unsent_bytes > MOST_UNSENT_BYTES:
            self._next_flush = self._loop.call_later(0.001, self._flush)
            return
        more = self._send_next()
        if self._now() >= self._metrics_due:
            self._send_metrics()
        if more or not (self._emits.park() and self._verdicts.park()):
            self._flush_soon()

    def _send_next(self) -> bool:
        """Send the next emits, and the verdicts behind them. Return True if more is ready."""
        is_older = self._kept is not None
        if self._kept is None:  # a verdict goes behind the emits of its tuple, and does not wait for later ones
            self._kept, self._behind = (*self._take_verdicts(), self._progress()), len(self._emits)
        kept = self._kept
        taken = take_emits(self._emits, self._emits_size.rows)
        emits = [((origin.stream, self._targets.get(origin)), rows, anchors) for origin, rows, anchors in taken]
        count = sum(len(rows) for _, rows, _ in emits)
        self._behind -= count
        if self._behind > 0:
            acks, others, progress = list[int](), list[OtherVerdict](), self._sent or kept[2]
        else:
            acks, others, progress = kept
            self._kept = None
        if emits or acks or others or progress != self._sent:
            length = self._work.send(emits, acks, others, progress)
            if emits and length:
                self._emits_size.note(count, length)
        self._sent = progress
        return len(self._emits) > 0 or self._kept is not None or is_older  # the latter: the progress may be older than now

    def _send_all(self) -> None:
        """Send everything that has happened until now."""
        for _ in range(2):  # the first time, the verdicts may be older than now
            while self._send_next():
                continue

    def _take_verdicts(self) -> tuple[list[int], list[OtherVerdict]]:
        acks, others = take_verdicts(self._verdicts)
        packs = self._packs
        if packs is None:
            return acks, [(number, failure, None) for number, failure in others]
        for number in acks:
            packs.pop(number, None)
        return acks, [(number, failure, packs.pop(number).failed_index if failure is not None else None) for number, failure in others]

    def _progress(self) -> Progress:
        executor, core = self.executor, self.executor.core
        return Progress(
            first_waiting(core, self._posted) - 1,
            self._posted,
            self._ticks,
            executor.is_empty or core.closing,
            core.busy_secs,
            executor.reporter.errors,
            executor.policy.restarts,
            executor.retries,
            executor.diversion.diverted,
            core.forgotten_tuples if self._plan.config.forgotten_ack == "fail" else 0,  # else the run counts them
            core.settled_twice,
            self._state is not None and self._state.has_changes,
        )

    def _send_metrics(self) -> None:
        self._metrics_due = self._now() + METRICS_SECS
        changes, dropped = self._metrics.take_changes(), self._metrics.dropped
        if changes or dropped:
            self._metrics.dropped = []
            self._relay.send("metrics", changes, dropped)

    def _show_life(self) -> None:
        """Send a sign of life, what is ready, and the metrics, also while no tuple comes."""
        timeout = self._plan.config.process_timeout_secs
        self._life = self._loop.call_later(METRICS_SECS if timeout is None else min(METRICS_SECS, timeout / 8), self._show_life)
        self._relay.send("alive")
        if self._plan.config.timeout_from == "progress":
            for tup in self.executor.calls.waiting():  # the run cannot know that these calls wait to run again (ACK-8)
                self.executor.core.reset_timeout(tup)
        if self._sent is not None:  # the instance is ready
            self._flush_soon()
        self._send_metrics()

    def _publish(self, report: ErrorReport) -> None:
        self._relay.send("report", report)

    def _end_run(self, error: ComponentError) -> None:
        cause = None if error.error is None else pack_error(error.error)
        self._relay.send("ended", error.message.removeprefix(f"{error.place}: "), plain_text(error.hint), cause)


def _relayed_streams(plan: TaskPlan, run_context: RunContext, box: Mailbox, target_of: dict[Source, int]) -> dict[str, OutStream]:
    """Return the streams of a task. All their tuples go to one mailbox. Each target of a direct stream has an origin, in `target_of`."""
    component, task = plan.info.component_id, plan.info.task_id
    streams: Streams = plan.spec.streams
    found: dict[str, OutStream] = {}
    for stream, fields in streams.items():
        if is_reserved(stream) and stream != REPORT_STREAM:
            continue
        origin = Source(component, stream, task, fields)
        if fields.direct:
            targets = run_context.targets_of(component, stream)
            outlets = [Outlet(Choice.DIRECT, [(target, box) for target in targets])] if targets else []
            origins = {target: Source(component, stream, task, fields) for target in targets}
            target_of.update((each, target) for target, each in origins.items())
            found[stream] = OutStream(origin, outlets, direct=True, origins=origins)
        else:
            found[stream] = OutStream(origin, [Outlet(Choice.TO_FIRST, [(0, box)])])
    return found
