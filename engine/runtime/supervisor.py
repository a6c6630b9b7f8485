"""Supervisor of a run: starts its actors in order, detects completion, drains and closes (RUN-1..3)."""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Final, Literal, TypeAlias

from engine.cancellation import aio_task_error, cancel_and_wait, was_cancelled
from engine.config import Config
from engine.errors import TASK_DIED, ComponentError, Failure, with_hint
from engine.log import EngineLogger
from engine.names import ACKER_COMPONENT, CHECKPOINT_COMPONENT
from engine.outward import call_outward
from engine.raised import headline
from engine.runtime.actor import BUG_HINT, CLOSER, Actor
from engine.runtime.assembly import Assembly
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.executor import Executor
from engine.runtime.rollback import Rollback
from engine.runtime.run_features import RunFeatures
from engine.runtime.tree_timeouts import TreeClock
from engine.runtime.undone_messages import count_undone
from engine.undone import Undone

RunState: TypeAlias = Literal["waiting", "starting", "running", "draining", "complete", "drained", "stopped", "failed"]
LOGGER: Final = EngineLogger("engine.runtime")
END_CALLBACK: Final = "a callback of on_end"
_INSIDE: contextvars.ContextVar["Supervisor | None"] = contextvars.ContextVar("_INSIDE", default=None)
"""Supervisor of the running component. If a component waits for the end of its own run, the end cancels this wait."""


class Supervisor:
    """Starts, watches and ends the actors of one run. `state` is the state of the run."""

    def __init__(
        self, name: str, assembly: Assembly, config: Config, features: RunFeatures, *, generator_errors: Sequence[ComponentError]
    ) -> None:
        """name: name of the topology. features: opened already. The supervisor closes them after the actors.

        generator_errors: of spouts whose generator has raised. Executors append to it. The run ends with the first one (ACK-13).
        """
        self._assembly = assembly
        self._name = name
        self._features = features
        self._generator_errors = generator_errors
        self._looked_at = 0
        """Index of the spout that was not exhausted when last looked at."""
        self._finishing_aio_task: asyncio.Task[None] | None = None
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._all_closed: asyncio.Future[None] = self._loop.create_future()
        """Done when everything is closed."""
        self._at_rest = asyncio.Event()
        self._closing_aio_task: asyncio.Task[None] | None = None
        self._tree_clock_aio_task: asyncio.Task[None] | None = None
        self._starting_aio_task: asyncio.Task[None] | None = None
        self._ending_by_error_aio_task: asyncio.Task[None] | None = None
        self._rolling_back: asyncio.Task[None] | None = None
        self._check_is_scheduled = False
        self._starting_executor: Executor | None = None
        """Executor whose instance is being made."""
        self._on_end: list[Callable[[ComponentError | None], None]] = []
        self._result_known: asyncio.Future[None] = self._loop.create_future()
        """Done when the result is known. If the run fails, this is at once, else when everything is closed."""
        self.state: RunState = "starting"
        self.error: ComponentError | None = None
        self.undone: Undone | None = None
        """What the run has left undone. None until it ends."""
        self._unfinished = ""

    # Start

    async def start(self) -> None:
        """Prepare the bolts, open the spouts, then start all executors (RUN-1).

        If a component fails for good, close the others and raise. A stop or a drain in the meantime ends the start and the run.
        """
        self._starting_aio_task = self._loop.create_task(self._begin_all(), name="start")
        try:
            await self._starting_aio_task
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and not was_cancelled(error):
                if self._closing_aio_task is not None:  # `_close_all` cancelled the start
                    await self._wait_until_closed(self._closing_aio_task)
                    return
                error = self._start_cancelled_error()
            self.error = error if isinstance(error, ComponentError) else None
            await self.close("stopped" if isinstance(error, asyncio.CancelledError) else "failed")
            raise error
        if self._closing_aio_task is not None:
            await self._wait_until_closed(self._closing_aio_task)
            return
        self._start_actors()

    async def _begin_all(self) -> None:
        _INSIDE.set(self)
        for bolt in self._assembly.bolts:
            self._starting_executor = bolt
            await bolt.begin()
        for spout in self._assembly.spouts:
            self._starting_executor = spout
            spout.active = True
            await spout.begin()

    def _start_cancelled_error(self) -> ComponentError:
        """Return the error for a component that cancelled the asyncio task of the start."""
        assert self._starting_executor is not None
        info = self._starting_executor.info
        message = "cancelled the asyncio task that starts the run"
        return ComponentError(info.component_id, info.task_id, None, message=message, hint="Let open() or prepare() raise instead.")

    def _start_actors(self) -> None:
        assembly = self._assembly
        self._tree_clock_aio_task = self._loop.create_task(
            TreeClock(self._config, assembly.bolts, assembly.ackers).run(), name="tree clock"
        )
        self._tree_clock_aio_task.add_done_callback(partial(self._end_by_bug, ACKER_COMPONENT, "the clock of trees"))
        self.state = "running"
        for acker in assembly.ackers:
            acker.start()
        for task in (*assembly.bolts, *assembly.spouts):  # their context variables are those of `_begin_all`
            task.start()
        for ticker in assembly.tickers:
            ticker.start()

    def _end_by_bug(self, component_id: str, what: str, ended: "asyncio.Task[None]") -> None:
        """End the run if an asyncio task of the engine itself has raised."""
        if (error := aio_task_error(ended)) is not None:
            self.end_run(ComponentError(component_id, None, error, message=f"{what} failed: {headline(error)}", hint=BUG_HINT))

    async def roll_back(self, failure: Failure, before_drop: Callable[[], Awaitable[None]]) -> None:
        """Take all bolts back to the last commit (EO-5). Goes on if the caller is cancelled; the next rollback waits for it then."""
        while self._rolling_back is not None:
            await asyncio.wait([self._rolling_back])
        if self._closing_aio_task is not None:
            return
        bolts, spouts = self._assembly.bolts, self._assembly.spouts
        rollback = Rollback((*bolts, *(spout for spout in spouts if spout.source is not None)), spouts, failure)
        running = self._rolling_back = self._loop.create_task(rollback.run(before_drop), name="rollback")
        running.add_done_callback(self._note_rolled_back)
        await asyncio.shield(running)

    def _note_rolled_back(self, running: "asyncio.Task[None]") -> None:
        self._rolling_back = None
        self._end_by_bug(CHECKPOINT_COMPONENT, "a rollback", running)  # else its tasks would wait for ever

    # Completion

    def note_idle(self) -> None:
        """Check whether the run is complete, after all ready callbacks have run. Called when an executor waits for work."""
        if not self._check_is_scheduled and self.state in ("running", "draining") and self._may_be_over():
            self._check_is_scheduled = True
            self._loop.call_soon(self._check_end)

    def _may_be_over(self) -> bool:
        """Tell whether a check is worth it. Runs whenever an executor waits for work, so it goes on where the last look ended."""
        if self.state == "draining" or self._generator_errors:
            return True
        spouts = self._assembly.user_spouts
        for _ in spouts:
            if not spouts[self._looked_at].exhausted:
                return False
            self._looked_at = (self._looked_at + 1) % len(spouts)
        return True

    def _check_end(self) -> None:
        self._check_is_scheduled = False
        if self.state == "draining" and self._is_quiet():
            self._at_rest.set()
        elif self.state == "running" and self._closing_aio_task is None:
            if self._generator_errors:
                error = self._generator_errors[0]
                self._ending_by_error_aio_task = self._loop.create_task(self._end_by_error(error), name="end of a failed run")
                self.state = "draining"
            elif self._is_complete():
                self._complete()

    def _is_quiet(self) -> bool:
        """Tell whether no tree is open, and no tuple waits or is in a call (RUN-2)."""
        assembly = self._assembly
        return (
            all(spout.is_empty for spout in assembly.user_spouts)  # the checkpoint spout goes on, but its open trees count
            and not any(spout.core.pending for spout in assembly.spouts)
            and all(bolt.is_empty for bolt in assembly.bolts)
            and all(acker.is_empty for acker in assembly.ackers)
        )

    def _is_complete(self) -> bool:
        return all(spout.is_done for spout in self._assembly.user_spouts) and self._is_quiet()

    def _complete(self) -> None:
        """End the run. If a feature has work, finish it first and check again, because a tree may have failed meanwhile."""
        try:
            has_work = self._features.has_work
        except ComponentError as error:
            self.end_run(error)
            return
        if not has_work:
            self.end("complete")
        elif self._finishing_aio_task is None:
            self._finishing_aio_task = self._loop.create_task(self._finish_and_complete(), name="last commit")

    async def _finish_and_complete(self) -> None:
        try:
            await self._features.finish()
        except ComponentError as error:
            self.end_run(error)
            return
        finally:
            self._finishing_aio_task = None
        if self.state == "running" and self._is_complete():
            self.end("complete")
        else:
            self.note_idle()

    # End

    async def _end_by_error(self, error: ComponentError) -> None:
        await self._settle_open_trees(self._config.drain_timeout_secs)
        self.end_run(error)

    def end_run(self, error: ComponentError) -> None:
        """End the run with the error of a component. `completed` raises it at once, before everything is closed (SV-4).

        An error during the close of a drained run is raised, too, but the state stays "drained".
        """
        if self.error is None and not self._all_closed.done():
            self.error = error
            self.end("failed")
            self._wake_waiters()
            LOGGER.critical("the run of %r ends: %s", self._name, with_hint(error.message, error.hint))
            self._call_back()

    def on_end(self, callback: Callable[[ComponentError | None], None]) -> None:
        """Call `callback` when the run ends, at once if it has ended."""
        if self._result_known.done():
            call_outward(END_CALLBACK, callback, self.error)
        else:
            self._on_end.append(callback)

    def _wake_waiters(self) -> None:
        """Wake the waiters for the end. Called when the run fails, and after everything is closed."""
        if not self._result_known.done():
            self._result_known.set_result(None)

    def _call_back(self) -> None:
        """Call the callbacks of `on_end`, each once."""
        while self._on_end:
            call_outward(END_CALLBACK, self._on_end.pop(0), self.error)

    @property
    def is_closed(self) -> bool:
        """True when everything is closed."""
        return self._all_closed.done()

    @property
    def is_abandoned(self) -> bool:
        """True if the clock of trees has ended. Before the close, only the end of the event loop cancels it."""
        clock = self._tree_clock_aio_task
        return clock is not None and (clock.done() or clock.cancelling() > 0)

    def end(self, state: RunState) -> "asyncio.Task[None]":
        """Begin to close everything, and return the asyncio task that does it.

        If an earlier call has begun, the state of that call remains.
        """
        if self._closing_aio_task is None:
            self._closing_aio_task = self._loop.create_task(self._close_all(state), name=f"close ({state})")
        return self._closing_aio_task

    async def close(self, state: RunState) -> None:
        """Close everything and wait for it, even if the caller is cancelled. A second call waits for the first.

        A component of this run waits until it is cancelled itself. A component that is being closed does not wait.
        """
        await self._wait_until_closed(self.end(state))

    async def _wait_until_closed(self, closing: "asyncio.Task[None]") -> None:
        if CLOSER.get() is self:
            return
        cancelled: asyncio.CancelledError | None = None
        while not closing.done():
            try:
                await asyncio.shield(closing)
            except asyncio.CancelledError as error:
                if _INSIDE.get() is self:
                    raise
                cancelled = error
        if cancelled is not None:
            raise cancelled
        closing.result()

    async def drain(self, timeout_secs: float | None) -> None:
        """Stop the spouts, wait for open trees, then close in order. Raises the ComponentError that ended the run."""
        if self._closing_aio_task is None and self.state != "starting":
            await self._settle_open_trees(self._config.drain_timeout_secs if timeout_secs is None else timeout_secs)
            if self._generator_errors:
                self.end_run(self._generator_errors[0])
        await self.close("drained")
        self.raise_error()

    def raise_error(self) -> None:
        """Raise the ComponentError that ended the run, if one did."""
        if self.error is not None:
            raise self.error

    async def _settle_open_trees(self, timeout_secs: float) -> None:
        self.state = "draining"
        for spout in self._assembly.user_spouts:
            spout.stop_polling()
            spout.wake()
        try:
            async with asyncio.timeout(timeout_secs):
                await self._at_rest.wait()
                if self._closing_aio_task is None:
                    await self._features.finish()
        except ComponentError as error:
            self.end_run(error)
        except TimeoutError:
            left = self._unfinished = (not self._at_rest.is_set() and self._left_over()) or "the last commit is not done"
            LOGGER.warning("drain: not finished after %g s (%s). Open trees are lost unless their sources replay them", timeout_secs, left)

    def _left_over(self) -> str:
        """Describe the open work of the run, by component."""
        open_trees, waiting, calls = Counter[str](), Counter[str](), Counter[str]()
        for spout in self._assembly.spouts:
            open_trees[spout.info.component_id] += spout.core.pending
            calls[spout.info.component_id] += spout.is_in_call
        for bolt in self._assembly.bolts:
            waiting[bolt.info.component_id] += len(bolt.core.mailbox)
            calls[bolt.info.component_id] += bolt.calls.in_flight
        kinds = (("open trees of", open_trees), ("tuples that wait at", waiting), ("unfinished calls of", calls))
        open_work = [f"{what} {component!r}: {count:,}" for what, counts in kinds for component, count in counts.items() if count]
        busy = [f"{spout.info.component_id!r} has more to finish" for spout in self._assembly.spouts if spout.is_busy]
        return ", ".join(open_work or busy)

    async def completed(self) -> None:
        """Wait for the end. Raises the ComponentError that ended the run."""
        await asyncio.shield(self._result_known)
        self.raise_error()

    async def _close_all(self, state: RunState) -> None:
        """Close the spouts, then the bolts in the direction of the stream, then the ackers.

        The tasks of a component are closed together.
        """
        CLOSER.set(self)
        assembly = self._assembly
        self.undone = count_undone(assembly.user_spouts, self._unfinished)
        for task in assembly.tasks:
            task.core.closing = True
        for ticker in assembly.tickers:
            ticker.stop()
        for spout in assembly.spouts:
            if spout.inlet is not None:
                spout.inlet.abandon(self._end_failure(state))
        try:
            own_tasks = (
                self._starting_aio_task,
                self._ending_by_error_aio_task,
                self._finishing_aio_task,
                self._tree_clock_aio_task,
                self._rolling_back,
            )
            await cancel_and_wait(each for each in own_tasks if each is not None and not each.done())
            actors: tuple[Actor, ...] = (*assembly.spouts, *self._bolts_in_stream_order(), *assembly.ackers)
            for _, tasks in groupby(actors, key=lambda actor: actor.info.component_id):
                await asyncio.gather(*map(_close, tasks))
            await self._features.close(clean=state in ("complete", "drained"))
        finally:
            self.state = state
            self._at_rest.set()
            if not self._all_closed.done():
                self._all_closed.set_result(None)
            self._wake_waiters()
            self._call_back()

    def _bolts_in_stream_order(self) -> list[BoltExecutor]:
        bolts = self._assembly.bolts
        if not bolts:
            return []
        layers = bolts[0].run_context.topology.layers()
        return sorted(bolts, key=lambda bolt: layers[bolt.info.component_id])

    def _end_failure(self, state: RunState) -> Failure:
        if self.error is not None:
            failure = Failure(TASK_DIED, self.error.component_id, self.error.task_id)
            return failure.because(self.error.message.removeprefix(f"{self.error.place}: "))  # a Failure names component and task by itself
        return Failure(TASK_DIED, None, None, f"the run ended ({state})")


async def _close(actor: Actor) -> None:
    try:
        await actor.close()
    except Exception as error:
        LOGGER.error("task %d of %r could not be closed", actor.info.task_id, actor.info.component_id, exc_info=error)
