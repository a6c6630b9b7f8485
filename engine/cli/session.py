"""A topology in a terminal, from start to exit status: its view, the errors of its components, a summary at the end."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from engine.cli.durations import duration_text
from engine.cli.output import tell
from engine.cli.show_error import show_error
from engine.cli.terminal import ShownRun, TerminalSession, refuse_running_loop
from engine.cli.view import Outcome, View, ViewName, make_view
from engine.cluster.snapshot import Snapshot
from engine.config import Config
from engine.errors import ComponentError, ConfigError
from engine.executor.error_report import LOGGER, ErrorReport
from engine.topology import Topology

RECENT_ERRORS: Final = 20
"""So many reports are shown at the end, where the log was told to leave them out."""


def run_in_terminal(
    topology: Topology, config: Config | None = None, *, view: ViewName | View = "auto", for_secs: float | None = None
) -> Outcome:
    """Run a topology until it is complete, failed or interrupted, and return how it ended; `sys.exit(outcome.exit_status)`.

    For the `main()` of a program. Without `config` the topology's own counts. After `for_secs` the run drains. Errors
    are printed, not raised. Takes SIGINT and SIGTERM while it runs (RUN-3). UsageError inside an event loop.
    """
    refuse_running_loop("run_in_terminal", "async with engine.run(topology) as run")
    settings = config or topology.config or Config()
    shown = make_view(view, settings.stats_interval_secs) if isinstance(view, str) else view
    patience = f"open trees get {duration_text(settings.drain_timeout_secs)}"
    session = TerminalSession[Snapshot](topology.name, shown, patience=patience, for_secs=for_secs)
    reports: deque[ErrorReport] = deque(maxlen=RECENT_ERRORS)
    ended = session.play(_started(topology, settings, shown, session, reports), lambda: _new_loop(settings))
    outcome = Outcome(ended.exit_status, ended.snapshot, ended.error)
    session.tell(shown.end, outcome)
    if outcome.error is not None:
        if isinstance(outcome.error, ComponentError) and not LOGGER.isEnabledFor(logging.ERROR):
            _show_reports(outcome.error, reports)
        show_error(outcome.error)
    return outcome


def _new_loop(config: Config) -> asyncio.AbstractEventLoop:
    """Return the loop that `event_loop` asks for; ConfigError where it is not installed."""
    if config.event_loop == "asyncio":
        return asyncio.new_event_loop()
    try:
        import uvloop
    except ImportError:
        if config.event_loop == "uvloop":
            fault = "event_loop is 'uvloop', which is not installed. Install stormcell[uvloop], or leave event_loop at auto."
            raise ConfigError([fault]) from None
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@asynccontextmanager
async def _started(
    topology: Topology, config: Config, view: View, session: TerminalSession[Snapshot], reports: deque[ErrorReport]
) -> AsyncIterator[ShownRun[Snapshot]]:
    """Start the run, and have the view hear of the errors of its components; `reports` hears of those of the start, too."""
    from engine.cluster.local_cluster import run

    begun = run(topology, config)
    begun.on_report.append(reports.append)
    async with begun as running:
        running.on_report.append(lambda report: session.tell(view.report, report))
        yield running


def _show_reports(error: ComponentError, reports: Iterable[ErrorReport]) -> None:
    """Write the reports of the task that ended the run, which the log was told to leave out."""
    for report in reports:
        if report.component_id == error.component_id:
            tell(report.describe())
