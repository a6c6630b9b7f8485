"""A terminal session starts a run, shows its snapshots, handles signals, and returns the exit status."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from engine.cancellation import aio_task_error
from engine.cli.console.file_limit import TooFewFiles, as_too_few_files
from engine.cli.console.formatting import duration_text
from engine.cli.console.interrupts import STOPPED, Interrupts
from engine.cli.console.leftovers import BoundedRunner
from engine.cli.console.output import OutputLost, discard_unwritten, print_to_stderr, show_error
from engine.errors import ConfigError, EngineError, FatalError, UsageError
from engine.log import EngineLogger
from engine.raised import raised_text

ViewName: TypeAlias = Literal["auto", "live", "plain", "json", "silent"]
"""`auto` is the live table on a terminal, else plain lines."""
LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]
_S = TypeVar("_S")
_S_co = TypeVar("_S_co", covariant=True)
_O = TypeVar("_O", bound="_HasStatus")
_S_contra = TypeVar("_S_contra", contravariant=True)
LEAST_START_SECS: Final = 10.0
"""Time that a start has in any case. A shorter `--for` must not end a run only because its machine is slow."""
UNDONE: Final = 3
"""Exit status of a run that ended in an orderly way, and left something undone."""
_LOGGER: Final = EngineLogger("engine.cli")


class _HasStatus(Protocol):
    @property
    def exit_status(self) -> int: ...


class ShownRun(Protocol[_S_co]):
    """The part of a run that a session uses. Snapshots may be of any type."""

    def snapshot(self) -> _S_co:
        """Return the current state and counts."""

    async def completed(self) -> None:
        """Wait for the end of the run."""

    async def drain(self, timeout_secs: float | None = None) -> None:
        """Finish the work in progress, then end."""


class Display(Protocol[_S_contra]):
    """The part of a view that a session uses. The methods are called on the loop's thread and must return quickly."""

    interval_secs: float
    """Period of the calls of `show`."""

    async def begin(self, name: str) -> None:
        """Prepare the view. Called once, after the run has started."""

    def show(self, before: _S_contra | None, now: _S_contra) -> None:
        """Show the snapshot `now`. `before` is the previous snapshot, None at first."""

    def note(self, text: str) -> None:
        """Show a message, for example that the run drains."""


@dataclass(frozen=True, slots=True)
class SessionResult(Generic[_S]):
    """Result of a session, with the exit status of RUN-4, the last snapshot (None if nothing started), and the error."""

    exit_status: int
    snapshot: _S | None
    error: EngineError | None = None


class TerminalSession(Generic[_S]):
    """One run with its view and its signals.

    grace_text: time that the run may take to drain, for the message of the first signal. for_secs: drain after this time.
    """

    def __init__(self, name: str, view: Display[_S], *, grace_text: str, for_secs: float | None) -> None:
        self._name = name
        self._view = view
        self._grace_text = grace_text
        self._for_secs = for_secs
        self._interrupts = Interrupts()
        self._run: ShownRun[_S] | None = None
        self._has_reader = True
        self._lost_output: OutputLost | None = None
        self._is_over = False
        self._last: _S | None = None
        self._drains = self._is_late = False
        self._own_task: asyncio.Task[object] | None = None
        self._background: set[asyncio.Task[None]] = set()

    def run_until_end(
        self, started: AbstractAsyncContextManager[ShownRun[_S]], loop_factory: LoopFactory = asyncio.new_event_loop
    ) -> SessionResult[_S]:
        """Run to the end in a new event loop, with handlers of SIGINT and SIGTERM (RUN-3). The result contains the error."""
        with self._interrupts:
            running = self._run_and_watch(started)
            try:
                with as_too_few_files(), closing(BoundedRunner(loop_factory)) as runner:
                    return runner.run(running)
            except (KeyboardInterrupt, SystemExit) as error:
                if self._interrupts.count:
                    return self._result(STOPPED)
                return self._result(1, _exit_error(error))
            except (ConfigError, TooFewFiles) as error:
                return self._result(error.exit_status, error)
            finally:
                if inspect.getcoroutinestate(running) == inspect.CORO_CREATED:
                    running.close()  # a signal arrived before the first step of the coroutine

    def call_view(self, method: Callable[..., None], *values: object) -> None:
        """Call a method of the view, unless its output cannot be written any more."""
        try:
            if self._has_reader:
                method(*values)
        except (BrokenPipeError, OutputLost) as error:
            self._stop_showing(error)

    def finish(self, outcome_of: Callable[[SessionResult[_S]], _O], result: SessionResult[_S], end: Callable[[_O], None]) -> _O:
        """Show the outcome of a result, and return it. If standard output was lost, the outcome has its error instead of status 0.

        end: the method of the view that shows the outcome.
        """
        outcome = outcome_of(result)
        self.call_view(end, outcome)
        error = discard_unwritten()
        lost = self._lost_output
        if lost is None and error is not None and not isinstance(error, BrokenPipeError):
            lost = OutputLost(error)
        if lost is None:
            return outcome
        if outcome.exit_status != 0:
            show_error(lost)
            return outcome
        return outcome_of(replace(result, exit_status=lost.exit_status, error=lost))

    def lose_reader(self) -> None:
        """Drain, because nobody reads what the components print to standard output."""
        self._drain("The reader of standard output has gone, draining")

    def lose_output(self, error: OutputLost) -> None:
        """Drain, because nothing can be written to standard output. The outcome has this error, unless the run ends with another one."""
        self._lost_output = self._lost_output or error
        self._drain("Standard output cannot be written, draining")

    async def _run_and_watch(self, started: AbstractAsyncContextManager[ShownRun[_S]]) -> SessionResult[_S]:
        self._own_task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        self._interrupts.attach(loop, drain=lambda: self._drain("Draining"), stop=self._cancel)
        start_secs = None if self._for_secs is None else max(self._for_secs, LEAST_START_SECS)
        start_limit = None if start_secs is None else loop.call_later(start_secs, self._end_late_start, start_secs)
        try:
            try:
                async with started as run:
                    if start_limit is not None:
                        start_limit.cancel()
                    await self._watch(run)
            finally:  # only now everything is closed, and the state is final
                self._last = None if self._run is None else self._run.snapshot()
        except EngineError as error:
            return self._result(error.exit_status, error)
        except asyncio.CancelledError:
            if not self._drains:
                raise
            return self._result(STOPPED if self._interrupts.count >= 2 else UNDONE if self._is_late else 0)
        finally:
            self._interrupts.detach()
            if start_limit is not None:
                start_limit.cancel()
        return self._result(0)

    def _result(self, exit_status: int, error: EngineError | None = None) -> SessionResult[_S]:
        return SessionResult(exit_status, self._last, error)

    async def _watch(self, run: ShownRun[_S]) -> None:
        """Show the run until it is complete. Raise the error of the run."""
        self._run = run
        try:
            await self._begin()
            self._in_background(self._show_snapshots(run))
            if self._for_secs is not None:
                self._in_background(self._drain_after(self._for_secs))
            await run.completed()
        finally:
            self._is_over = True
            for task in self._background:
                task.cancel()
            await asyncio.gather(*self._background, return_exceptions=True)

    async def _begin(self) -> None:
        try:
            await self._view.begin(self._name)
        except (BrokenPipeError, OutputLost) as error:
            self._stop_showing(error)

    async def _show_snapshots(self, run: ShownRun[_S]) -> None:
        before = None
        while True:
            await asyncio.sleep(self._view.interval_secs)
            now = run.snapshot()
            self.call_view(self._view.show, before, now)
            before = now

    async def _drain_after(self, secs: float) -> None:
        await asyncio.sleep(secs)
        self._drain(f"{duration_text(secs)} have passed, draining")

    def _end_late_start(self, secs: float) -> None:
        """End a run that still waits or starts when the time of `--for` is over, because this time begins only when the run is running."""
        if not self._drains:
            self._drains = self._is_late = True
            self._note(f"{duration_text(secs)} have passed, and the run has not started. It ends without having processed anything")
            self._cancel()

    def _drain(self, reason: str) -> None:
        """Drain the run once, and show the reason. A run that is still starting ends at once, because it has no data yet."""
        if self._drains or self._is_over:
            return
        self._drains = True
        if self._run is None:
            self._note("Stopping before the start")
            self._cancel()
            return
        self._note(f"{reason}: {self._grace_text}; Ctrl-C again stops at once")
        self._in_background(self._run.drain())

    def _note(self, text: str) -> None:
        """Show a message in the view. If the reader of the view has gone, say it only in the log, as a filter ends in silence."""
        self.call_view(self._view.note, text)
        if self._has_reader:
            return
        if self._lost_output is not None:
            print_to_stderr(text)
        else:
            _LOGGER.info("%s", text)

    def _cancel(self) -> None:
        if self._own_task is not None:
            self._own_task.cancel()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        error = aio_task_error(task)
        if error is not None and not isinstance(error, EngineError):  # `completed` also raises the error that ends a run
            _LOGGER.error("the view failed and is switched off", exc_info=error)

    def _stop_showing(self, error: BrokenPipeError | OutputLost) -> None:
        """Stop showing and drain, because the view cannot write to standard output."""
        self._has_reader = False
        if isinstance(error, OutputLost):
            self.lose_output(error)
        else:
            self.lose_reader()


def _exit_error(error: BaseException) -> EngineError:
    """Return the error for a KeyboardInterrupt or SystemExit of user code. The notes of the error name the component if it is known."""
    fatal = FatalError(f"user code raised {raised_text(error)}", hint="Raise an Exception there, or FatalError to end the run.")
    for note in getattr(error, "__notes__", ()):
        fatal.add_note(note)
    return fatal


def refuse_running_loop(caller: str, instead: str) -> None:
    """Raise UsageError inside an event loop, because a terminal session creates its own loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(f"{caller}() creates an event loop, but was called inside one", hint=f"Use `{instead}`.")
