"""Reads what `run --json` wrote, line by line: the moments of its flow control. What cannot be read is told with file, line and fix."""

import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from engine.cli.flow_course import STATES, FlowCourse, FlowMoment, TaskMoment, courses_of
from engine.cli.output import tell
from engine.cli.paths import why_unreadable
from engine.errors import UsageError
from engine.names import did_you_mean

MOST_LINE_BYTES: Final = 64 * 1024 * 1024
HOW: Final = "python -m engine run topology.py --json -c stats_interval_secs=0.25 > run.jsonl"
STANDARD_INPUT: Final = Path("-")


def read_courses(path: Path, spout: str | None = None) -> list[FlowCourse]:
    """Return the course of each spout task with flow control, of one spout if it is named; UsageError where that cannot be."""
    if path == STANDARD_INPUT:
        return _chosen(_LogReader("standard input"), sys.stdin.buffer, spout)
    try:
        with path.open("rb") as file:
            return _chosen(_LogReader(str(path)), file, spout)
    except OSError as error:
        why, hint = why_unreadable(path, path.suffix or ".jsonl") or (f"{path} cannot be read: {error.strerror}", "Check the file.")
        raise UsageError(why, hint=hint) from None


def _chosen(reader: "_LogReader", file: BinaryIO, spout: str | None) -> list[FlowCourse]:
    courses = courses_of(reader.moments(file))
    reader.check_whole()
    names = {course.component_id for course in courses}
    if spout is not None and spout not in names:
        raise UsageError(f"{reader.name}: no spout {spout!r} has flow control there", hint=did_you_mean(spout, names))
    chosen = [course for course in courses if spout in (None, course.component_id) and course.span_secs > 0]
    if not chosen:
        hint = f"Let the run last longer, or have it tell more often: {HOW}"
        raise UsageError(f"{reader.name}: one snapshot alone is no course of time", hint=hint)
    return chosen


class _LogReader:
    """Where the reading is, and what it has met."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._line_number = 0
        self._run_number = 0
        self._secs = math.inf
        self._snapshots = 0
        self._with_flow = 0

    def moments(self, file: BinaryIO) -> Iterator[tuple[int, float, FlowMoment]]:
        """Return (number of the run, seconds, moment) of each spout task in each snapshot."""
        for event in self._events(file):
            figures = event.get("snapshot") if event["event"] == "end" else event
            if event["event"] == "start":
                self._secs = math.inf  # whatever comes next is earlier: another run
            if event["event"] not in ("snapshot", "end") or figures is None:
                continue
            try:
                yield from self._of_snapshot(figures)
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
                what = f"there is no {error}" if isinstance(error, KeyError) else str(error)
                raise self._fault(f"is no snapshot as this version writes it: {what}", f"Write the file anew: {HOW}") from None

    def check_whole(self) -> None:
        """Raise UsageError where there is nothing to show."""
        if not self._line_number:
            raise UsageError(f"{self.name} is empty", hint=f"Write it by {HOW}")
        if not self._snapshots:
            hint = f"A run writes one every stats_interval_secs: {HOW}"
            raise UsageError(f"{self.name}: none of its {self._line_number} lines is a snapshot", hint=hint)
        if not self._with_flow:
            hint = "It is for topologies with a FlowControlSpout."
            raise UsageError(f"{self.name}: none of its {self._snapshots} snapshots has flow control in it", hint=hint)

    def _of_snapshot(self, figures: Mapping[str, Any]) -> Iterator[tuple[int, float, FlowMoment]]:
        self._snapshots += 1
        secs = _amount(figures, "uptime_secs")
        if secs < self._secs:
            self._run_number += 1
        self._secs = secs
        flows = figures.get("flow") or ()
        self._with_flow += bool(flows)
        for flow in flows:
            yield self._run_number, secs, _moment(flow)

    def _events(self, file: BinaryIO) -> Iterator[dict[str, Any]]:
        for line in iter(lambda: file.readline(MOST_LINE_BYTES), b""):
            self._line_number += 1
            if line.strip():
                event = self._event(line)
                if event is not None:
                    yield event

    def _event(self, line: bytes) -> dict[str, Any] | None:
        """Return an event; None for a last line that is cut."""
        is_whole = line.endswith(b"\n")
        if not is_whole and len(line) >= MOST_LINE_BYTES:
            raise self._fault(f"is longer than {MOST_LINE_BYTES:,} bytes", f"That is no output of a run. Write it by {HOW}")
        try:
            event = json.loads(line.decode())
        except (ValueError, RecursionError) as error:
            if not is_whole:
                tell(f"Note: {self.name}, line {self._line_number} is cut, and left out: the run was writing it, or was killed meanwhile.")
                return None
            raise self._no_json(line, error) from None
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            raise self._fault("is JSON, but no event of a run: it has no 'event'", f"Give the output of run --json: {HOW}")
        return event

    def _no_json(self, line: bytes, error: Exception) -> UsageError:
        shown = repr(line[:40].decode(errors="replace").rstrip()) + ("…" if len(line.rstrip()) > 40 else "")
        hint = f"Give the output of run --json alone: {HOW}. What a topology prints goes there too: have it print to standard error."
        return self._fault(f"is not JSON: {shown}", hint if not isinstance(error, UnicodeDecodeError) else f"{hint} It is not even UTF-8.")

    def _fault(self, what: str, hint: str) -> UsageError:
        return UsageError(f"{self.name}, line {self._line_number} {what}", hint=hint)


def _moment(flow: Mapping[str, Any]) -> FlowMoment:
    tasks = [_task(task) for task in flow["tasks"]]
    done, pending = _amount(flow, "done_records"), _amount(flow, "pending_records")
    at_tasks = sum(_amount(task, "in_flight_records") for task in flow["tasks"])
    return FlowMoment(
        _typed(flow, "component_id", str),
        _typed(flow, "task_id", int),
        done,
        done + pending - at_tasks,
        _amount(flow, "records_since_checkpoint"),
        tasks,
    )


def _task(task: Mapping[str, Any]) -> TaskMoment:
    state = task["state"]
    if state not in STATES:
        raise ValueError(f"state is {state!r}, not {', '.join(STATES)}")
    return TaskMoment(
        _typed(task, "task_id", int),
        state,
        _amount(task, "window"),
        _amount(task, "in_flight"),
        _measured(task, "service_ms"),
        _measured(task, "service_p99_ms"),
        _typed(task, "records", int),
        _typed(task, "resends", int),
    )


def _typed(values: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    value = values[name]
    if type(value) is not kind:
        raise TypeError(f"{name} is {value!r}")
    return value


def _measured(values: Mapping[str, Any], name: str) -> float | None:
    """Return a time; None for none yet, and for what JSON has no number for, which stands there as text."""
    return None if values[name] is None or isinstance(values[name], str) else _amount(values, name)


def _amount(values: Mapping[str, Any], name: str) -> float:
    """Return what is counted or measured: a number that is not below zero."""
    value = values[name]
    if type(value) not in (int, float) or not 0 <= value < 1e15:
        raise ValueError(f"{name} is {value!r}")
    return float(value)
