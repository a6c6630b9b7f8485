"""A run in a terminal, from start to exit status: figures while it runs, signals that drain it, a summary at the end."""

import asyncio
import inspect
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, TypeAlias

from engine.cli.durations import duration_text
from engine.cli.interrupts import STOPPED, Interrupts
from engine.cli.show_error import show_error
from engine.cli.view import Outcome, SilentView, View, ViewName, make_view
from engine.cluster.snapshot import Snapshot
from engine.config import Config
from engine.errors import ComponentError, ConfigError, EngineError, UsageError
from engine.executor.error_report import LOGGER, ErrorReport
from engine.topology import Topology


class ShownRun(Protocol):
    """What a session needs of a run."""

    @property
    def on_report(self) -> list[Callable[[ErrorReport], None]]:
        """Who hears of the errors of components."""

    def snapshot(self) -> Snapshot:
        """Return the figures of now."""

    async def completed(self) -> None:
        """Wait for the end."""

    async def drain(self, timeout_secs: float | None = None) -> None:
        """Let open trees finish, then end."""


Start: TypeAlias = Callable[[Topology, Config], AbstractAsyncContextManager[ShownRun]]
LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]
_LOGGER: Final = logging.getLogger("engine.cli")


def run_in_terminal(
    topology: Topology, config: Config | None = None, *, view: ViewName | View = "auto", for_secs: float | None = None
) -> Outcome:
    """Run a topology until it is complete, failed or interrupted, and return how it ended; `sys.exit(outcome.exit_status)`.

    For the `main()` of a program. Without `config` the topology's own counts. After `for_secs` the run drains. Errors
    are printed, not raised. Takes SIGINT and SIGTERM while it runs (RUN-3). UsageError inside an event loop.
    """
    _refuse_running_loop()
    settings = config or topology.config or Config()
    shown = make_view(view, settings.stats_interval_secs) if isinstance(view, str) else view
    with Interrupts() as interrupts:
        session = _Session(topology, settings, shown, interrupts, for_secs)
        playing = session.play(_start)
        try:
            with asyncio.Runner(loop_factory=loop_factory(settings)) as runner:
                outcome = runner.run(playing)
        except KeyboardInterrupt:
            outcome = session.outcome(STOPPED)
        except ConfigError as error:
            outcome = session.outcome(error.exit_status, error)
        finally:
            if inspect.getcoroutinestate(playing) == inspect.CORO_CREATED:
                playing.close()  # a signal came before its first step
    session.end(outcome)
    return outcome


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        "run_in_terminal() makes an event loop, and was called inside one", hint="Use `async with engine.run(topology) as run`."
    )


def loop_factory(config: Config) -> LoopFactory | None:
    """Return what makes the loop that `event_loop` asks for; None is the standard library's. ConfigError where it is not installed."""
    if config.event_loop == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        if config.event_loop == "uvloop":
            fault = "event_loop is 'uvloop', which is not installed. Install stormcell[uvloop], or leave event_loop at auto."
            raise ConfigError([fault]) from None
        return None
    return uvloop.new_event_loop


def _start(topology: Topology, config: Config) -> AbstractAsyncContextManager[ShownRun]:
    from engine.cluster.local_cluster import run

    return run(topology, config)


class _Session:
    """One run, its view and its signals."""

    def __init__(self, topology: Topology, config: Config, view: View, interrupts: Interrupts, for_secs: float | None) -> None:
        self._topology = topology
        self._config = config
        self._view = view
        self._interrupts = interrupts
        self._for_secs = for_secs
        self._run: ShownRun | None = None
        self._is_over = False
        self._last: Snapshot | None = None
        self._drains = False
        self._own_task: asyncio.Task[object] | None = None
        self._background: set[asyncio.Task[None]] = set()

    async def play(self, start: Start) -> Outcome:
        """Run to the end."""
        self._own_task = asyncio.current_task()
        self._interrupts.attach(asyncio.get_running_loop(), drain=lambda: self._drain("Draining"), stop=self._cancel)
        try:
            async with start(self._topology, self._config) as run:
                await self._accompany(run)
        except EngineError as error:
            return self.outcome(error.exit_status, error)
        except asyncio.CancelledError:
            if not self._drains:
                raise
            return self.outcome(0 if self._interrupts.count < 2 else STOPPED)
        finally:
            self._interrupts.detach()
        return self.outcome(0)

    def outcome(self, exit_status: int, error: EngineError | None = None) -> Outcome:
        """Return how it ended, with the last figures."""
        return Outcome(exit_status, self._last, error)

    def end(self, outcome: Outcome) -> None:
        """Show the last figures, then what went wrong."""
        self._tell(self._view.end, outcome)
        if outcome.error is not None:
            if isinstance(outcome.error, ComponentError) and not LOGGER.isEnabledFor(logging.ERROR):
                _show_reports(outcome)
            show_error(outcome.error)

    async def _accompany(self, run: ShownRun) -> None:
        """Show the run until it is complete; raises what it raises."""
        self._run = run
        run.on_report.append(lambda report: self._tell(self._view.report, report))
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
            await self._view.begin(self._topology.name)
        except BrokenPipeError:
            self._fall_silent()

    async def _show_figures(self, run: ShownRun) -> None:
        before = None
        while True:
            await asyncio.sleep(self._view.interval_secs)
            now = run.snapshot()
            self._tell(self._view.show, before, now)
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
            self._tell(self._view.note, "Stopping before the start")
            self._cancel()
            return
        hint = f"open trees get {duration_text(self._config.drain_timeout_secs)}; Ctrl-C again stops at once"
        self._tell(self._view.note, f"{reason}: {hint}")
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

    def _tell(self, say: Callable[..., None], *values: object) -> None:
        """Let the view say something."""
        try:
            say(*values)
        except BrokenPipeError:
            self._fall_silent()

    def _fall_silent(self) -> None:
        """Nobody reads the output any more, its pipe is closed: say nothing more, and drain."""
        _discard_output()
        self._view = SilentView()
        self._drain("nobody reads the output")


def _discard_output() -> None:
    """Send what is still to be written to where nobody looks, so that the flush at exit does not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _show_reports(outcome: Outcome) -> None:
    """Write the reports of the task that ended the run, which the log was told to leave out."""
    error, now = outcome.error, outcome.snapshot
    for report in now.errors if now is not None and isinstance(error, ComponentError) else ():
        if report.component_id == getattr(error, "component_id", None):
            print(report.describe(), file=sys.stderr)
