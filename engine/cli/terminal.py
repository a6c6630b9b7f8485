"""A run of any kind in a terminal: its figures while it runs, signals that drain it, how it ended."""

import asyncio
import inspect
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from engine.cli.durations import duration_text
from engine.cli.interrupts import STOPPED, Interrupts
from engine.cli.leftovers import BoundedRunner
from engine.cli.output import restore
from engine.errors import ConfigError, EngineError, FatalError, UsageError
from engine.raised import raised_text

LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]
_S = TypeVar("_S")
_S_co = TypeVar("_S_co", covariant=True)
_S_contra = TypeVar("_S_contra", contravariant=True)
_LOGGER: Final = logging.getLogger("engine.cli")


class ShownRun(Protocol[_S_co]):
    """What a session needs of a run; its snapshots are of any kind."""

    def snapshot(self) -> _S_co:
        """Return the figures of now."""

    async def completed(self) -> None:
        """Wait for the end."""

    async def drain(self, timeout_secs: float | None = None) -> None:
        """Let what is under way finish, then end."""


class Display(Protocol[_S_contra]):
    """What a session needs of a view; its methods are called on the loop's thread, and return soon."""

    interval_secs: float
    """How often `show` wants to be called."""

    async def begin(self, name: str) -> None:
        """Get ready; called once, when the run is on."""

    def show(self, before: _S_contra | None, now: _S_contra) -> None:
        """Show how things stand; `before` is what was shown last."""

    def note(self, text: str) -> None:
        """Tell something once, such as that the run drains."""


@dataclass(frozen=True, slots=True)
class Ending(Generic[_S]):
    """How a session ended: the status by RUN-4, the last figures, None where it never started, and what went wrong."""

    exit_status: int
    snapshot: _S | None
    error: EngineError | None = None


class TerminalSession(Generic[_S]):
    """One run, its view and its signals."""

    def __init__(self, name: str, view: Display[_S], *, patience: str, for_secs: float | None) -> None:
        self._name = name
        self._view = view
        self._patience = patience
        self._for_secs = for_secs
        self._interrupts = Interrupts()
        self._run: ShownRun[_S] | None = None
        self._is_read = True
        self._is_over = False
        self._last: _S | None = None
        self._drains = False
        self._own_task: asyncio.Task[object] | None = None
        self._background: set[asyncio.Task[None]] = set()

    def play(self, started: AbstractAsyncContextManager[ShownRun[_S]], loop_factory: LoopFactory = asyncio.new_event_loop) -> Ending[_S]:
        """Run to the end, in an event loop of its own; takes SIGINT and SIGTERM meanwhile (RUN-3). Nothing is raised."""
        with self._interrupts:
            playing = self._play(started)
            try:
                with closing(BoundedRunner(loop_factory)) as runner:
                    return runner.run(playing)
            except (KeyboardInterrupt, SystemExit) as error:
                if self._interrupts.count:
                    return self._ending(STOPPED)
                return self._ending(1, _ended_by(error))
            except ConfigError as error:
                return self._ending(error.exit_status, error)
            finally:
                if inspect.getcoroutinestate(playing) == inspect.CORO_CREATED:
                    playing.close()  # a signal came before its first step

    def tell(self, say: Callable[..., None], *values: object) -> None:
        """Let the view say something, as long as anybody reads it."""
        try:
            if self._is_read:
                say(*values)
        except BrokenPipeError:
            self._fall_silent()

    async def _play(self, started: AbstractAsyncContextManager[ShownRun[_S]]) -> Ending[_S]:
        self._own_task = asyncio.current_task()
        self._interrupts.attach(asyncio.get_running_loop(), drain=lambda: self._drain("Draining"), stop=self._cancel)
        try:
            async with started as run:
                await self._accompany(run)
        except EngineError as error:
            return self._ending(error.exit_status, error)
        except asyncio.CancelledError:
            if not self._drains:
                raise
            return self._ending(0 if self._interrupts.count < 2 else STOPPED)
        finally:
            self._interrupts.detach()
        return self._ending(0)

    def _ending(self, exit_status: int, error: EngineError | None = None) -> Ending[_S]:
        return Ending(exit_status, self._last, error)

    async def _accompany(self, run: ShownRun[_S]) -> None:
        """Show the run until it is complete; raises what it raises."""
        self._run = run
        try:
            await self._begin()
            self._in_background(self._show_figures(run))
            if self._for_secs is not None:
                self._in_background(self._drain_after(self._for_secs))
            await run.completed()
        finally:
            self._is_over, self._last = True, run.snapshot()
            for task in self._background:
                task.cancel()
            await asyncio.gather(*self._background, return_exceptions=True)

    async def _begin(self) -> None:
        try:
            await self._view.begin(self._name)
        except BrokenPipeError:
            self._fall_silent()

    async def _show_figures(self, run: ShownRun[_S]) -> None:
        before = None
        while True:
            await asyncio.sleep(self._view.interval_secs)
            now = run.snapshot()
            self.tell(self._view.show, before, now)
            before = now

    async def _drain_after(self, secs: float) -> None:
        await asyncio.sleep(secs)
        self._drain(f"{duration_text(secs)} have passed, draining")

    def _drain(self, reason: str) -> None:
        """Have the run drained, once; says so. While its components still get ready, it ends at once; nothing is lost."""
        if self._drains or self._is_over:
            return
        self._drains = True
        if self._run is None:
            self.tell(self._view.note, "Stopping before the start")
            self._cancel()
            return
        self.tell(self._view.note, f"{reason}: {self._patience}; Ctrl-C again stops at once")
        self._in_background(self._run.drain())

    def _cancel(self) -> None:
        if self._own_task is not None:
            self._own_task.cancel()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, EngineError):  # what ends a run, `completed` raises as well
            _LOGGER.error("the figures are not shown any more", exc_info=error)

    def _fall_silent(self) -> None:
        """Nobody reads the output any more, its pipe is closed: say nothing more, and drain."""
        _discard_output()
        self._is_read = False
        self._drain("nobody reads the output")


def _ended_by(error: BaseException) -> EngineError:
    """Return the error for what ended the program from within, without a signal; its notes name the component where that is known."""
    ending = FatalError(f"user code raised {raised_text(error)}", hint="Let it raise an Exception, or FatalError to end the run.")
    for note in getattr(error, "__notes__", ()):
        ending.add_note(note)
    return ending


def refuse_running_loop(caller: str, instead: str) -> None:
    """Raise UsageError inside an event loop: who runs something in a terminal makes one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(f"{caller}() makes an event loop, and was called inside one", hint=f"Use `{instead}`.")


def _discard_output() -> None:
    """Send what is still to be written to where nobody looks, so that the flush at exit does not fail again."""
    restore()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
