"""One JSON object a line on standard output, for programs.

Each has `event`: `start` (topology), `snapshot` (all figures), `error` (one error of a component), `note` (text), and at
last, once, `end` (exit_status, state, summary, error, and the last snapshot).
"""

import json
from typing import Any

from engine.cli.output import standard_output, write_line
from engine.cli.view import Outcome
from engine.cluster.snapshot import Snapshot, error_dict
from engine.errors import EngineError
from engine.executor.error_report import ErrorReport


class JsonLines:
    """The view of `--json`."""

    def __init__(self, interval_secs: float) -> None:
        self.interval_secs = interval_secs

    async def begin(self, topology_name: str) -> None:
        """Write `start`."""
        write_event("start", topology=topology_name)

    def show(self, before: Snapshot | None, now: Snapshot) -> None:
        """Write `snapshot`; its errors were written when they came."""
        write_event("snapshot", **_figures(now))

    def report(self, report: ErrorReport) -> None:
        """Write `error`."""
        write_event("error", **error_dict(report))

    def note(self, text: str) -> None:
        """Write `note`."""
        write_event("note", text=text)

    def end(self, outcome: Outcome) -> None:
        """Write `end`."""
        now = outcome.snapshot
        write_event(
            "end",
            exit_status=outcome.exit_status,
            state=None if now is None else now.state,
            summary=outcome.summary(),
            error=None if outcome.error is None else error_fields(outcome.error),
            snapshot=None if now is None else _figures(now),
        )


def write_refusal(error: EngineError) -> None:
    """Write the `end` of a run that could not be described, let alone started."""
    JsonLines(0).end(Outcome(error.exit_status, None, error))


def _figures(now: Snapshot) -> dict[str, Any]:
    figures = now.to_dict()
    del figures["errors"]
    return figures


def error_fields(error: EngineError) -> dict[str, Any]:
    """Return what went wrong, as plain values."""
    faults = getattr(error, "faults", None)
    shown = {"type": type(error).__name__, "message": error.message, "hint": error.hint, "notes": getattr(error, "__notes__", [])}
    return shown if faults is None else {**shown, "faults": list(faults)}


def write_event(event: str, **values: Any) -> None:
    """Write one object."""
    line = json.dumps({"event": event, **values}, ensure_ascii=False)
    text = line.encode(errors="backslashreplace").decode()  # a lone surrogate, which UTF-8 has not, as JSON escapes it
    write_line(text, standard_output())
