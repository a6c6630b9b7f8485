"""A run's life: starts its actors in order, sees when it is complete, drains and closes it (RUN-1..3)."""

import asyncio
import contextvars
import inspect
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from engine.config import Config
from engine.errors import TASK_DIED, ComponentError, Failure, with_hint
from engine.names import ACKER_COMPONENT
from engine.runtime.acker_executor import AckerExecutor
from engine.runtime.assembly import Assembly
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.ending import end_all, is_cancelled_from_outside
from engine.runtime.executor import Executor
from engine.runtime.run_features import RunFeatures
from engine.runtime.waits import TreeClock

RunState: TypeAlias = Literal["waiting", "starting", "running", "draining", "complete", "drained", "stopped", "failed"]
LOGGER: Final = logging.getLogger("engine.runtime")
_INSIDE: contextvars.ContextVar["Supervisor | None"] = contextvars.ContextVar("_INSIDE", default=None)
"""The supervisor of the component that runs: it may stop its own run, and must not wait for its own end."""

_CLOSES: contextvars.ContextVar["Supervisor | None"] = contextvars.ContextVar("_CLOSES", default=None)
"""The supervisor whose components are just being closed by the running asyncio task, or by the one that created it."""


class Supervisor:
    """Starts, watches and ends the actors of one run. `state` says how far it is."""

    def __init__(self, name: str, assembly: Assembly, config: Config, features: RunFeatures) -> None:
        """name: of the topology. features: opened already, and closed after the actors."""
        self._assembly = assembly
        self._name = name
        self._features = features
        self._finishing: asyncio.Task[None] | None = None
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._at_rest = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._tree_clock: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._breaking: asyncio.Task[None] | None = None
        self._looks = False
        self._begun: Executor | None = None
        """The task that is being started."""
        self._on_end: list[Callable[[ComponentError | None], None]] = []
        self._over: asyncio.Future[None] = self._loop.create_future()
        self.state: RunState = "starting"
        self.error: ComponentError | None = None

    # Start

    async def start(self) -> None:
        """Prepare bolts, then open spouts, then set all of them off (RUN-1). Where one fails for good, close the rest and raise.

        A stop or a drain meanwhile ends the start, and the run with it.
        """
        self._starting = self._loop.create_task(self._begin_all(), name="start")
        try:
            await self._starting
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and not is_cancelled_from_outside():
                if self._closing is not None:  # `_close_all` cancelled the start
                    await self.close("stopped")
                    return
                error = self._cancelled_itself()
            self.error = error if isinstance(error, ComponentError) else None
            await self.close("stopped" if isinstance(error, asyncio.CancelledError) else "failed")
            raise error
        if self._closing is not None:
            await self.close("stopped")
            return
        self._set_off()

    async def _begin_all(self) -> None:
        _INSIDE.set(self)
        for bolt in self._assembly.bolts:
            self._begun = bolt
            await bolt.begin()
        for spout in self._assembly.spouts:
            self._begun = spout
            spout.active = True
            await spout.begin()

    def _cancelled_itself(self) -> ComponentError:
        """The error of a start whose asyncio task was cancelled by a component."""
        assert self._begun is not None
        place = self._begun.place
        message = "cancelled the asyncio task that starts the run"
        return ComponentError(place.component_id, place.task_id, None, message=message, hint="Let open() or prepare() raise instead.")

    def _set_off(self) -> None:
        assembly = self._assembly
        self._tree_clock = self._loop.create_task(TreeClock(self._config, assembly.bolts, assembly.ackers).run(), name="tree clock")
        self._tree_clock.add_done_callback(self._tree_clock_ended)
        self.state = "running"
        for acker in assembly.ackers:
            acker.start()
        inside = contextvars.copy_context()
        inside.run(_INSIDE.set, self)
        for task in (*assembly.bolts, *assembly.spouts):
            inside.run(task.start)
        for ticker in assembly.tickers:
            ticker.start()

    def _tree_clock_ended(self, aio_task: "asyncio.Task[None]") -> None:
        error = None if aio_task.cancelled() else aio_task.exception()
        if error is not None:
            hint = "This is a bug in the engine. Please report this text."
            self.give_up(ComponentError(ACKER_COMPONENT, None, error, message=f"the clock of trees failed: {error!r}", hint=hint))

    # Rest

    def came_to_rest(self) -> None:
        """An executor parked: look, once all that is ready has run, whether everything has."""
        if not self._looks and self.state in ("running", "draining") and self._may_be_over():
            self._looks = True
            self._loop.call_soon(self._look)

    def _may_be_over(self) -> bool:
        exhausted = True
        for spout in self._assembly.user_spouts:  # no generators: this is asked whenever an executor parks
            if spout.broken is not None:
                return True
            exhausted = exhausted and spout.exhausted
        return exhausted or self.state == "draining"

    def _broken(self) -> ComponentError | None:
        """What broke a spout for good, if one did (ACK-13)."""
        return next((spout.broken for spout in self._assembly.spouts if spout.broken is not None), None)

    def _look(self) -> None:
        self._looks = False
        if self.state == "draining" and self._is_quiet():
            self._at_rest.set()
        elif self.state == "running" and self._closing is None:
            broken = self._broken()
            if broken is not None:
                self._breaking = self._loop.create_task(self._end_broken(broken), name="end of a broken run")
                self.state = "draining"
            elif self._is_complete():
                self._complete()

    def _is_quiet(self) -> bool:
        """No tree is open, and no tuple is anywhere (RUN-2)."""
        assembly = self._assembly
        return (
            all(spout.is_empty for spout in assembly.user_spouts)
            and not any(spout.core.pending for spout in assembly.spouts)
            and all(bolt.is_empty for bolt in assembly.bolts)
            and all(acker.is_empty for acker in assembly.ackers)
        )

    def _is_complete(self) -> bool:
        return all(spout.is_done for spout in self._assembly.user_spouts) and self._is_quiet()

    def _complete(self) -> None:
        """End the run. If a feature has work, do that first and look again, since a tree may have failed meanwhile."""
        if not self._features.has_work:
            self.end("complete")
        elif self._finishing is None:
            self._finishing = self._loop.create_task(self._finish_and_complete(), name="last commit")

    async def _finish_and_complete(self) -> None:
        try:
            await self._features.finish()
        finally:
            self._finishing = None
        if self.state == "running" and self._is_complete():
            self.end("complete")
        else:
            self.came_to_rest()

    # End

    async def _end_broken(self, error: ComponentError) -> None:
        await self._settle_open_trees(self._config.drain_timeout_secs)
        self.give_up(error)

    def give_up(self, error: ComponentError) -> None:
        """A component failed for good: say so, and close everything; `completed` raises at once (SV-4)."""
        if self.error is None and not self._ended.done():
            self.error = error
            LOGGER.critical("the run of %r ends: %s", self._name, with_hint(error.message, error.hint))
            self.end("failed")
            self._settle_end()

    def on_end(self, callback: Callable[[ComponentError | None], None]) -> None:
        """Call back when the run ends; at once where it has."""
        if self._over.done():
            self._call_back(callback)
        else:
            self._on_end.append(callback)

    def _settle_end(self) -> None:
        """Release who waits for the end: at once where the run fails, else when all is closed."""
        if self._over.done():
            return
        self._over.set_result(None)
        callbacks, self._on_end = self._on_end, []
        for callback in callbacks:
            self._call_back(callback)

    def _call_back(self, callback: Callable[[ComponentError | None], None]) -> None:
        try:
            returned: object = callback(self.error)  # type: ignore[func-returns-value]
        except Exception as error:
            _forget_context(error, self.error)
            LOGGER.error("a callback of on_end raised", exc_info=error)
        else:
            if inspect.iscoroutine(returned):
                returned.close()
                LOGGER.error("a callback of on_end returned a coroutine, which nobody awaits: start it by asyncio.create_task()")

    @property
    def is_abandoned(self) -> bool:
        """True where the host's loop has cancelled this run's own tasks, though nobody has closed the run."""
        clock = self._tree_clock
        return clock is not None and (clock.done() or clock.cancelling() > 0)

    def end(self, state: RunState) -> None:
        """Close everything, soon."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._close_all(state), name=f"close ({state})")

    async def close(self, state: RunState) -> None:
        """Close everything now, to its end though the caller is cancelled; a second call waits for the first.

        A component of this run waits until it is cancelled itself; one that is just being closed does not wait.
        """
        self.end(state)
        closing = self._closing
        assert closing is not None
        if _CLOSES.get() is self:
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
        """Stop the spouts, give open trees their time, then close in order. Raises the ComponentError that ended the run meanwhile."""
        if self._closing is None and self.state != "starting":
            await self._settle_open_trees(self._config.drain_timeout_secs if timeout_secs is None else timeout_secs)
            broken = self._broken()
            if broken is not None:
                self.give_up(broken)
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
            spout.doorbell.ring()
        try:
            async with asyncio.timeout(timeout_secs):
                await self._at_rest.wait()
                if self._closing is None:
                    await self._features.finish()
        except TimeoutError:
            left = self._left_over()
            LOGGER.warning("drain: not finished after %g s (%s); open trees are for their sources to replay", timeout_secs, left)

    def _left_over(self) -> str:
        """What keeps a run from its rest, by component."""
        open_trees, waiting, calls = Counter[str](), Counter[str](), Counter[str]()
        for spout in self._assembly.spouts:
            open_trees[spout.place.component_id] += spout.core.pending
        for bolt in self._assembly.bolts:
            waiting[bolt.place.component_id] += len(bolt.core.mailbox)
            calls[bolt.place.component_id] += bolt.calls.in_flight
        kinds = (("open trees of", open_trees), ("tuples that wait at", waiting), ("unfinished calls of", calls))
        open_work = [f"{what} {component!r}: {count:,}" for what, counts in kinds for component, count in counts.items() if count]
        busy = [f"{spout.place.component_id!r} has more to finish" for spout in self._assembly.spouts if spout.is_busy]
        return ", ".join(open_work or busy)

    async def completed(self) -> None:
        """Wait for the end; raise the ComponentError that ended the run."""
        await asyncio.shield(self._over)
        self.raise_error()

    async def _close_all(self, state: RunState) -> None:
        """Close spouts, then bolts from the sources on, then ackers."""
        _CLOSES.set(self)
        assembly = self._assembly
        for task in assembly.tasks:
            task.core.closing = True
        for ticker in assembly.tickers:
            ticker.stop()
        for spout in assembly.spouts:
            if spout.inlet is not None:
                spout.inlet.abandon(self._why_ended(state))
        try:
            await end_all(
                each for each in (self._starting, self._breaking, self._finishing, self._tree_clock) if each is not None and not each.done()
            )
            actors: tuple[Executor | AckerExecutor, ...] = (*assembly.spouts, *self._bolts_from_sources_on(), *assembly.ackers)
            for actor in actors:
                try:
                    await actor.close()
                except Exception as error:
                    LOGGER.error("task %d of %r could not be closed", actor.place.task_id, actor.place.component_id, exc_info=error)
            await self._features.close(clean=state in ("complete", "drained"))
        finally:
            self.state = state
            self._at_rest.set()
            if not self._ended.done():
                self._ended.set_result(None)
            self._settle_end()

    def _bolts_from_sources_on(self) -> list[BoltExecutor]:
        bolts = self._assembly.bolts
        if not bolts:
            return []
        layers = bolts[0].around.topology.layers()
        return sorted(bolts, key=lambda bolt: layers[bolt.place.component_id])

    def _why_ended(self, state: RunState) -> Failure:
        if self.error is not None:
            failure = Failure(TASK_DIED, self.error.component_id, self.error.task_id)
            return failure.because(self.error.message.removeprefix(f"{self.error.place}: "))  # a Failure names the place itself
        return Failure(TASK_DIED, None, None, f"the run ended ({state})")


def _forget_context(error: BaseException, context: BaseException | None) -> None:
    """Let go of an error that was only being handled while a callback was called: it is told elsewhere, and is no cause."""
    inner = error
    while inner.__context__ is not None and inner.__context__ is not context:
        inner = inner.__context__
    inner.__context__ = None
