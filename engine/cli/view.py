"""What a terminal session tells, and to whom: the contract of the live table, the plain lines and the JSON lines."""

import os
import sys
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from engine.cli.durations import duration_text
from engine.cli.figures import acked_trees, emitted_by_spouts, errors_of, failed_trees
from engine.cluster.snapshot import Snapshot
from engine.errors import EngineError
from engine.executor.error_report import ErrorReport

ViewName: TypeAlias = Literal["auto", "live", "plain", "json", "silent"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run in a terminal ended."""

    exit_status: int
    """RUN-4: 0 complete or drained, 1 a component failed for good, 2 something is wrong as it stands, 130 stopped."""
    snapshot: Snapshot | None
    """The last one; None where the run never started."""
    error: EngineError | None = None

    def summary(self) -> str:
        """Return one line: how it ended, after how long, and what was done."""
        if self.snapshot is None:
            return "the run did not start"
        now = self.snapshot
        state = {130: "stopped at once", 1: "failed"}.get(self.exit_status, now.state)
        counts = [f"{emitted_by_spouts(now):,} emitted", f"{acked_trees(now):,} acked", f"{failed_trees(now):,} failed"]
        if errors := errors_of(now):
            counts.append(f"{errors:,} {'error' if errors == 1 else 'errors'}")
        return f"{now.topology_name}: {state} after {duration_text(now.uptime_secs)}: {', '.join(counts)}"


class View(Protocol):
    """Shows a run. Every method is called on the loop's thread, and returns soon."""

    interval_secs: float
    """How often `show` wants to be called."""

    async def begin(self, topology_name: str) -> None:
        """Get ready; called once, when the run is on."""

    def show(self, before: Snapshot | None, now: Snapshot) -> None:
        """Show how things stand; `before` is what was shown last."""

    def report(self, report: ErrorReport) -> None:
        """Tell of an error of a component; the log has it too."""

    def note(self, text: str) -> None:
        """Tell something once, such as that the run drains."""

    def end(self, outcome: Outcome) -> None:
        """Show how it ended, and give the terminal back. Called also where `begin` was not."""


class SilentView:
    """Shows nothing."""

    interval_secs = 3600.0

    async def begin(self, topology_name: str) -> None:
        """Do nothing."""

    def show(self, before: Snapshot | None, now: Snapshot) -> None:
        """Do nothing."""

    def report(self, report: ErrorReport) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def end(self, outcome: Outcome) -> None:
        """Do nothing."""


def make_view(name: ViewName, interval_secs: float) -> View:
    """Return the view of a name; `auto` is the live table on a terminal, else plain lines every `interval_secs`."""
    if name == "auto":
        name = "live" if is_terminal() else "plain"
    if name == "live":
        from engine.cli.live_table import LiveTable

        return LiveTable()
    if name == "json":
        from engine.cli.json_lines import JsonLines

        return JsonLines(interval_secs)
    if name == "plain":
        from engine.cli.plain_line import PlainLines

        return PlainLines(interval_secs)
    return SilentView()


def is_terminal() -> bool:
    """Tell whether standard error is a terminal that can draw in place."""
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")
