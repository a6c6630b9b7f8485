"""Runs a topology in a terminal session. Shows its view, the errors of its components, and the summary."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from engine.cli.console.file_limit import require_files
from engine.cli.console.formatting import duration_text
from engine.cli.console.live_display import is_terminal
from engine.cli.console.output import OutputLost, keep_streams, print_to_stderr, reader_has_gone, show_error, take_output_error
from engine.cli.console.session import UNDONE, SessionResult, ShownRun, TerminalSession, ViewName, refuse_running_loop
from engine.cli.run_views import JsonLines, Outcome, PlainLines, SilentView, View
from engine.cli.watched_run import HttpOptions, watched
from engine.config import Config
from engine.errors import ComponentError, ConfigError
from engine.installation import install_command
from engine.runtime.error_report import LOGGER, ErrorReport
from engine.runtime.snapshot import Snapshot
from engine.topology import Topology

LOOP_FILES: Final = 12
"""Files of an event loop with its signals, and a few more. libuv, the base of uvloop, aborts the process if it finds none for a signal."""
MOST_KEPT_REPORTS: Final = 20
"""Error reports kept for the end of a run whose log does not show errors."""


def run_in_terminal(
    topology: Topology,
    config: Config | None = None,
    *,
    view: ViewName | View = "auto",
    for_secs: float | None = None,
    http: str | HttpOptions | None = None,
) -> Outcome:
    """Run a topology until it is complete, failed or interrupted, and return its outcome.

    Call it in the `main()` of a program, and end the program with `sys.exit(outcome.exit_status)`. The default config is that of the
    topology. After `for_secs` the run drains. `http` is the address of the run's page, such as "127.0.0.1:8080" (extra `web`). Errors are
    printed, not raised. Handles SIGINT and SIGTERM meanwhile (RUN-3). Raises UsageError inside an event loop.
    """
    refuse_running_loop("run_in_terminal", "async with engine.run(topology) as run")
    settings = config or topology.config or Config()
    shown = make_view(view, settings.stats_interval_secs) if isinstance(view, str) else view
    grace_text = f"open trees have {duration_text(settings.drain_timeout_secs)} to finish"
    session = TerminalSession[Snapshot](topology.name, shown, grace_text=grace_text, for_secs=for_secs)
    reports: deque[ErrorReport] = deque(maxlen=MOST_KEPT_REPORTS)
    options = HttpOptions(http) if isinstance(http, str) else http
    started = _started(topology, settings, shown, session, reports, options)
    with keep_streams():
        outcome = session.finish(_outcome, session.run_until_end(started, lambda: _new_loop(settings)), shown.end)
        if outcome.snapshot is not None and outcome.snapshot.undone:
            print_to_stderr(f"{topology.name}: left undone: {outcome.snapshot.undone.describe()}.")
        for text in () if outcome.snapshot is None else (entry.end_text() for entry in outcome.snapshot.entries):
            if text is not None:
                print_to_stderr(f"{topology.name}: {text}.")
        if outcome.error is not None:
            if isinstance(outcome.error, ComponentError) and not LOGGER.is_enabled_for(logging.ERROR):
                _show_reports(outcome.error, reports)
            show_error(outcome.error)
    return outcome


def _outcome(result: SessionResult[Snapshot]) -> Outcome:
    """Return the outcome of a session. A run that ended in an orderly way, and left something undone, has status 3 (RUN-4)."""
    status, undone = result.exit_status, None if result.snapshot is None else result.snapshot.undone
    return Outcome(UNDONE if status == 0 and undone else status, result.snapshot, result.error)


def make_view(name: ViewName, interval_secs: float) -> View:
    """Return the view of a name. Plain lines and JSON lines are written every `interval_secs`."""
    if name == "auto":
        name = "live" if is_terminal() else "plain"
    if name == "live":
        from engine.cli.live_table import LiveTable  # rich takes long to import, and only a terminal needs it

        return LiveTable()
    if name == "json":
        return JsonLines(interval_secs)
    return PlainLines(interval_secs) if name == "plain" else SilentView()


def _new_loop(config: Config) -> asyncio.AbstractEventLoop:
    """Return a new loop of the kind `event_loop`. Raise ConfigError if it is not installed, and TooFewFiles if it cannot be opened."""
    require_files(LOOP_FILES)
    if config.event_loop == "asyncio":
        return asyncio.new_event_loop()
    try:
        import uvloop
    except ImportError:
        if config.event_loop == "uvloop":
            fault = f"event_loop is 'uvloop', which is not installed. Run {install_command('uvloop')}, or set event_loop to auto."
            raise ConfigError([fault]) from None
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@asynccontextmanager
async def _started(
    topology: Topology,
    config: Config,
    view: View,
    session: TerminalSession[Snapshot],
    reports: deque[ErrorReport],
    http: HttpOptions | None,
) -> AsyncIterator[ShownRun[Snapshot]]:
    """Start the run and pass its error reports to the view. `reports` also keeps the error reports of the start."""
    from engine.runtime.run import run

    begun = run(topology, config)
    begun.on_report.append(reports.append)
    async with watched(begun, http), begun as running:  # the port is open before anything starts (WEB-4)
        running.on_report.append(lambda report: session.call_view(view.report, report))
        running.on_report.append(lambda report: _drain_without_output(report, session))
        yield running


def _drain_without_output(report: ErrorReport, session: TerminalSession[Snapshot]) -> None:
    """Drain if a component cannot print, because the reader of standard output has gone or its disk is full.

    Its inputs would fail and be replayed, or what a child prints would be lost.
    """
    text = report.text + report.traceback
    if "BrokenPipeError" in text and reader_has_gone():
        session.lose_reader()
    elif "OSError" in text and (error := take_output_error()) is not None:
        session.lose_output(OutputLost(error))


def _show_reports(error: ComponentError, reports: Iterable[ErrorReport]) -> None:
    """Write the reports of the component that ended the run, because the log did not show them."""
    for report in reports:
        if report.component_id == error.component_id:
            print_to_stderr(report.describe())
