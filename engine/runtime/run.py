"""Entry point of the runtime: `run(topology, config)` runs a topology as actors on the running event loop."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, cast

from engine.api import CallKind, Calls, InletHandle, call_kind, takes
from engine.api.arguments import number_within
from engine.clock import Clock
from engine.config import Config
from engine.control import RunHandle
from engine.errors import ComponentError, UsageError
from engine.home_loop import HomeLoop
from engine.kernel import BoltBacklog, Tuple
from engine.metrics import UserMetrics
from engine.names import ACKER_COMPONENT, did_you_mean
from engine.outward import call_outward
from engine.randomness import RunRandom
from engine.runtime.assembly import Assembly, assemble
from engine.runtime.error_report import ErrorReport
from engine.runtime.event_time_watch import EventTimeWatch
from engine.runtime.latest_failures import LatestFailures
from engine.runtime.loop_end import LoopEnd
from engine.runtime.memory_warning import warn_of_memory
from engine.runtime.message_traces import MessageTrace, MessageTraces
from engine.runtime.observe import observe, observe_edges
from engine.runtime.opening import Opening
from engine.runtime.owed_acks import OwedAck, oldest_owed_acks
from engine.runtime.plan import plan_tasks
from engine.runtime.run_context import RunContext
from engine.runtime.run_features import RunFeatures
from engine.runtime.run_port import LiveRunPort
from engine.runtime.snapshot import END_STATES, Snapshot
from engine.runtime.supervisor import END_CALLBACK, RunState, Supervisor
from engine.runtime.tree_timeouts import TreeTrace
from engine.topology import Topology, config_of_run, validate_run
from engine.topology.marks import timed_components, with_marks
from engine.waits import LongWait, Waits

RECENT_ERRORS: Final = 20


def run(topology: Topology, config: Config | None = None) -> "Run":
    """Create a run of a topology. Enter it: `async with engine.run(topology) as run: await run.completed()`.

    config: replaces the settings of the topology. Raises TopologyError with all faults if the two do not fit. The run changes
    neither signal handlers nor logging nor the loop's policy (RUN-5). A process may have several runs.
    """
    return Run(topology, config)


class Run:
    """One run of a topology. It begins when `async with` is entered, and has ended when `async with` is left."""

    def __init__(self, topology: Topology, config: Config | None = None) -> None:
        self.config: Final = config_of_run("run", topology, config)
        self.topology: Final = topology
        validate_run(topology, self.config)
        self.on_report: Final[list[Callable[[ErrorReport], None]]] = []
        """Functions that get each ErrorReport of a component."""
        self._on_end: list[Callable[[ComponentError | None], None]] = []
        self._errors: deque[ErrorReport] = deque(maxlen=RECENT_ERRORS)
        self._metrics = UserMetrics()
        self._is_entered = False
        self._assembly: Assembly | None = None
        self._run_context: RunContext | None = None
        self._supervisor: Supervisor | None = None
        self._loop_end: LoopEnd | None = None
        self._features = RunFeatures(topology, self.config)
        self._opening = Opening(self._features)
        self._traces: MessageTraces | None = None
        self._event_time: EventTimeWatch | None = None
        self.may_forget = False
        """True in tests: the start of the run does not warn that state in memory:// is lost with the process."""
        self._home = HomeLoop()
        self._clock = Clock()
        self._waits = Waits(topology.name, self._clock)
        self._began = 0.0
        self._loop_cpu_secs: Callable[[], float | None] = lambda: None
        self.seed: int | None = None
        """The seed of this run: from the config, or a random one."""

    async def __aenter__(self) -> Self:
        if self._is_entered:
            raise UsageError("this run was already entered with `async with`", hint="Call engine.run(topology) again for another run.")
        self._is_entered = True
        loop = asyncio.get_running_loop()
        self._home.adopt_running()
        self._clock = Clock.of(loop)
        self._began, self._loop_cpu_secs = self._clock.now(), self._clock.measure_cpu()
        random = RunRandom(self.config.seed)
        self.seed = random.seed
        if not self.may_forget:
            warn_of_memory(self.topology, self.config)
        self._waits = Waits(self.topology.name, self._clock)
        try:
            with self._waits.current():
                running = await self._opening.open(self._clock)
                if running is not None:
                    await self._begin(running, random, loop)
        except BaseException as error:
            await self._features.close(clean=False)
            self._waits.close()
            if isinstance(error, asyncio.CancelledError):
                self._tell_stopped_early()
            raise
        self._tell_stopped_early()
        return self

    def _tell_stopped_early(self) -> None:
        """Call the callbacks of `on_end` if the run was stopped before its supervisor existed, which calls them otherwise."""
        if self._supervisor is None:
            callbacks, self._on_end = self._on_end, []
            for callback in callbacks:
                call_outward(END_CALLBACK, callback, None)

    async def _begin(self, topology: Topology, random: RunRandom, loop: asyncio.AbstractEventLoop) -> None:
        timed, topology = timed_components(topology), with_marks(topology)
        plan = plan_tasks(topology, self.config)
        port = LiveRunPort(self._features.ledger_of)
        run_context = RunContext(
            topology=topology,
            config=self.config,
            clock=self._clock,
            random=random,
            loop=loop,
            backlog=BoltBacklog(),
            task_ids=plan.task_ids,
            metrics=self._metrics,
            port=port,
            calls=Calls(port.request_commit, has_ackers=self.config.acker_executors > 0),
            publish=self._publish,
            failures=LatestFailures(self._clock),
            end_run=self._end_run,
            note_idle=self._note_idle,
            is_abandoned=lambda: self._supervisor is not None and self._supervisor.is_abandoned,
        )
        self._assembly = assemble(plan, run_context)
        self._run_context = run_context
        port.spouts, port.bolts, port.ackers = self._assembly.user_spouts, self._assembly.bolts, self._assembly.ackers
        self._traces = MessageTraces(self._assembly, run_context)
        self._supervisor = Supervisor(
            topology.name, self._assembly, self.config, self._features, generator_errors=run_context.generator_errors
        )
        port.take_back = self._supervisor.roll_back
        self._features.join(RunHandle(port, plan.component_of, self._end_run, self.snapshot))
        if self.config.trace_sample_rate:
            self.trace(self.config.trace_sample_rate)
        traces = self._traces
        self._supervisor.on_end(lambda _: traces.close())
        if timed:
            watch = self._event_time = EventTimeWatch(self._assembly, run_context, timed)
            watch.begin()
            self._supervisor.on_end(lambda _: watch.close())
        for callback in self._on_end:
            self._supervisor.on_end(callback)
        self._loop_end = LoopEnd(topology.name, self._supervisor)
        await self._supervisor.start()
        await self._loop_end.watch()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None) -> None:
        self._check_loop("stop()")
        with self._waits.current():
            await self._close()
        self._waits.close()
        if error is None and self._supervisor is not None:
            self._supervisor.raise_error()

    # Callbacks of the executors

    def _publish(self, report: ErrorReport) -> None:
        self._errors.append(report)
        for listener in tuple(self.on_report):
            call_outward("a listener of on_report", listener, report)

    def _end_run(self, error: ComponentError) -> None:
        self._supervised.end_run(error)

    def _note_idle(self) -> None:
        if self._supervisor is not None:
            self._supervisor.note_idle()

    # Control

    async def completed(self) -> None:
        """Wait until the run is complete, drained or stopped. Raises the ComponentError of a failed run before it is closed (SV-4)."""
        self._check_loop("completed()")
        if self._supervisor is not None or self._opening.ended is None:
            await self._supervised.completed()

    def on_end(self, callback: Callable[[ComponentError | None], None]) -> None:
        """Call `callback` once when the run ends, on the loop's thread. Call it at once if the run has ended.

        The argument of `callback` is the ComponentError of a failed run, before the components are closed. A run that completed, drained
        or stopped passes None. `on_end` may be called before the run is entered. An exception of the callback is logged. Raises
        UsageError if `callback` is not a plain function of one argument.
        """
        if not callable(cast(object, callback)) or call_kind(callback) is not CallKind.PLAIN or not takes(callback, 1):
            hint = "Write def ended(error): ... It may start a coroutine by asyncio.create_task()."
            raise UsageError(f"on_end() takes a plain function of one argument, not {callback!r}", hint=hint)
        self._check_loop("on_end(callback)", is_async=False)
        if self._supervisor is not None:
            self._supervisor.on_end(callback)
        elif self._opening.ended in ("stopped", "drained"):
            call_outward(END_CALLBACK, callback, None)
        else:
            self._on_end.append(callback)

    async def activate(self) -> None:
        """Start the polls of deactivated spouts. Raises UsageError unless the run is running."""
        await self._switch(active=True)

    async def deactivate(self) -> None:
        """Stop the polls of the spouts. They still get acks and fails, and bolts go on. Raises UsageError unless the run is running."""
        await self._switch(active=False)

    async def _switch(self, *, active: bool) -> None:
        self._check_loop("activate()" if active else "deactivate()")
        self._check_running()
        await asyncio.gather(*(spout.switch_activity(active=active) for spout in self._assembled.spouts))

    def _check_running(self) -> None:
        if self.state != "running":
            raise UsageError(f"the run is {self.state}, not running", hint="Call it while run.state is running.")

    async def drain(self, timeout_secs: float | None = None) -> None:
        """Stop the spouts, wait at most `timeout_secs` for open trees, then close every component in order.

        timeout_secs: default `drain_timeout_secs`. Raises the ComponentError that ended the run. Ends a run that is waiting or starting at
        once: `async with` is entered, and the state is drained.
        """
        secs = number_within(timeout_secs, 0, sys.float_info.max)
        if timeout_secs is not None and secs is None:
            hint = "Write drain(10), or drain() for drain_timeout_secs."
            raise UsageError(f"drain() takes a number of seconds of at least 0, not {timeout_secs!r}", hint=hint)
        self._check_loop("drain()")
        await self._opening.end("drained")
        if self._supervisor is not None or self._opening.ended is None:
            await self._supervised.drain(secs)

    async def stop(self) -> None:
        """Close every component now, even if the caller is cancelled. Raises the ComponentError that ended the run.

        Ends a run that is waiting or starting at once: `async with` is entered, and the state is stopped.
        """
        self._check_loop("stop()")
        await self._close()
        if self._supervisor is not None:
            self._supervisor.raise_error()

    async def _close(self) -> None:
        await self._opening.end("stopped")
        if self._supervisor is not None:
            await self._supervisor.close("stopped")
        if self._loop_end is not None:
            await self._loop_end.forget()

    def inlet(self, component_id: str) -> InletHandle:
        """Return the handle by which a service sends to an Inlet. Any thread may ask. Raises UsageError if there is no such Inlet."""
        for spout in self._assembled.spouts:
            if spout.info.component_id == component_id and spout.inlet is not None:
                return spout.inlet
        inlets = {spout.info.component_id for spout in self._assembled.spouts if spout.inlet is not None}
        raise UsageError(f"the topology has no inlet {component_id!r}", hint=did_you_mean(component_id, inlets))

    def trace(self, rate: float) -> None:
        """Record the paths of a share of the trees. The Failures of timeouts then show the path.

        rate: 0 to 1. 0 stops the recording.
        """
        share = number_within(rate, 0, 1)
        if share is None:
            raise UsageError(f"trace() takes a share of trees from 0 to 1, not {rate!r}", hint="1 traces every tree.")
        self._check_loop("trace(rate)", is_async=False)
        assembly = self._assembled
        assembly.set_trace(TreeTrace(self._clock, assembly.plan.component_of, share) if share else None)

    def trace_message(self, component_id: str, message_id: str) -> MessageTrace:
        """Follow one message id of a spout to its verdict. `message_id` is the text that `str` returns for the message id.

        If the tree of the message id is open, the path begins now. Else the trace waits at most 60 s until the spout emits it. Ten traces
        are kept, and a newer one ends the oldest one. Raises UsageError for a component that is not a spout.
        """
        self._check_loop("trace_message(component_id, message_id)", is_async=False)
        if self._traces is None:
            raise self._not_begun()
        return self._traces.follow(component_id, message_id)

    @property
    def message_traces(self) -> tuple[MessageTrace, ...]:
        """The latest 10 traces of `trace_message`, the newest last."""
        return () if self._traces is None else self._traces.read()

    def kill_task(self, task_id: int) -> None:
        """Make the instance of a task die as if it had raised, or an acker lose its trees. For tests of recovery."""
        self._check_loop("kill_task(task_id)", is_async=False)
        assembly = self._assembled
        for executor in (*assembly.tasks, *assembly.ackers):
            if executor.info.task_id == task_id:
                executor.kill()
                return
        raise self._unknown_task(task_id)

    def restart_task(self, task_id: int) -> None:
        """Replace the instance of a spout or bolt task by a fresh one, also while a call hangs (SV-9).

        The old instance is closed. The inputs that it has taken fail with the reason task_died. The trees of a spout's instance are
        dropped, and its source replays them (ACK-13). A restart never counts as a death. Returns at once. `restarts` of the snapshot
        grows by 1. Raises UsageError for an unknown task, for an acker, and unless the run is running.
        """
        self._check_loop("restart_task(task_id)", is_async=False)
        self._check_running()
        assembly = self._assembled
        for executor in assembly.tasks:
            if executor.info.task_id == task_id:
                executor.restart()
                return
        if task_id in assembly.plan.task_ids[ACKER_COMPONENT]:
            raise UsageError(f"task {task_id} is an acker, which cannot be restarted", hint="Restart a task of a spout or bolt.")
        raise self._unknown_task(task_id)

    def _unknown_task(self, task_id: object) -> UsageError:
        return UsageError(f"the run has no task {task_id!r}", hint=f"Its tasks are 1 to {len(self._assembled.plan.component_of)}.")

    def lose_tuple(self, task_id: int, tup: Tuple) -> None:
        """Make a bolt task drop an input without ack or fail, so that its trees time out. For tests of recovery."""
        self._check_loop("lose_tuple(task_id, tup)", is_async=False)
        for bolt in self._assembled.bolts:
            if bolt.info.task_id == task_id:
                bolt.core.lose(tup)
                if tup.roots or bolt.core.on_rootless_failure is not None:
                    bolt.lost_inputs.append(tup)

    def task_ids(self, component_id: str) -> tuple[int, ...]:
        """Return the task ids of a component, ascending. The component id of the ackers is `__acker`."""
        known = self._assembled.plan.task_ids
        if not isinstance(cast(object, component_id), str) or component_id not in known:
            raise UsageError(f"the run has no component {component_id!r}", hint=did_you_mean(component_id, known))
        return known[component_id]

    # Observation

    @property
    def state(self) -> RunState:
        """State of the run: waiting (on standby), starting, running, draining, then complete, drained, stopped or failed."""
        if self._supervisor is None:
            if self._opening.ended is not None:
                return self._opening.ended
            return "waiting" if self.config.standby else "starting"
        return self._supervisor.state

    @property
    def error(self) -> ComponentError | None:
        """Error of the component that ended the run, None if there is none."""
        return None if self._supervisor is None else self._supervisor.error

    def snapshot(self) -> Snapshot:
        """Return the current counts and latencies per component and task."""
        return Snapshot(
            topology_name=self.topology.name,
            state=self.state,
            uptime_secs=self._clock.now() - self._began if self._assembly is not None else 0.0,
            components=observe(self._assembly) if self._assembly is not None else {},
            edges=observe_edges(self._assembly) if self._assembly is not None else (),
            loop_cpu_secs=self._loop_cpu_secs(),
            errors=tuple(self._errors),
            failures=() if self._run_context is None else self._run_context.failures.read(),
            user_metrics=self._metrics.read(),
            undone=None if self._supervisor is None else self._supervisor.undone,
            entries=(*self._features.snapshot_entries(), *(() if self._event_time is None else (self._event_time.entry(),))),
            waits=self.waits,
        )

    @property
    def waits(self) -> tuple[LongWait, ...]:
        """What the run has been waiting for longer than 5 s and cannot hasten, such as a store or a broker (SV-11)."""
        return self._waits.long_waits()

    def owed_acks(self, most: int = 10) -> tuple[OwedAck, ...]:
        """Return the inputs that tasks have taken and neither acked nor failed, oldest first, at most `most`."""
        return oldest_owed_acks(self._assembled.bolts, most)

    def metrics_text(self) -> str:
        """Return the snapshot as OpenMetrics text."""
        from engine.metrics import render
        from engine.runtime.metric_families import families  # imported here, so that `import engine` stays fast

        return render(families(self.snapshot()))

    def _check_loop(self, call: str, *, is_async: bool = True) -> None:
        """Raise UsageError if a method that changes or awaits this run is called on another loop or thread (RUN-5).

        A run that has ended may be asked anywhere, because nothing changes any more.
        """
        if self.state not in END_STATES:
            self._home.check(f"run.{call}", is_async=is_async)

    @property
    def _supervised(self) -> Supervisor:
        if self._supervisor is None:
            raise self._not_begun()
        return self._supervisor

    @property
    def _assembled(self) -> Assembly:
        if self._assembly is None:
            raise self._not_begun()
        return self._assembly

    def _not_begun(self) -> UsageError:
        if self._opening.ended is not None:
            return UsageError(f"the run ended before its tasks began ({self._opening.ended})", hint="Call engine.run(topology) again.")
        return UsageError("the run has not begun", hint="Enter it first: async with engine.run(topology) as run: ...")
