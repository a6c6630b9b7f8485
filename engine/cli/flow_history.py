"""Reads flow control over time from the output of `run --json`. Each spout task and its bolt tasks have one history."""

import json
import math
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, get_args

from engine.cli.console.formatting import name_text
from engine.cli.console.output import print_to_stderr
from engine.cli.console.user_file import why_unreadable
from engine.errors import UsageError
from engine.flow.status import FlowState
from engine.names import did_you_mean

STATES: Final[tuple[FlowState, ...]] = get_args(FlowState)
ABSENT: Final = -1
"""State of a task that a snapshot does not contain."""


class TaskSample(NamedTuple):
    """One bolt task in one snapshot."""

    task_id: int
    state: FlowState
    window: float
    in_flight: float
    service_ms: float | None
    service_p99_ms: float | None
    records: int
    resends: int


class FlowSample(NamedTuple):
    """One spout task in one snapshot."""

    component_id: str
    task_id: int
    done_records: float
    settled_records: float
    """Number of sent records that are not in flight. Includes the done prefix, acked records above the prefix, and records to resend."""
    since_checkpoint: float
    tasks: Sequence[TaskSample]


@dataclass(slots=True)
class TaskHistory:
    """One bolt task, with a value for each sample of its spout. Each value is valid until the next sample."""

    last: TaskSample
    states: "array[int]" = field(default_factory=lambda: array("b"))
    """Indexes of `STATES`, or `ABSENT`."""
    windows: "array[float]" = field(default_factory=lambda: array("f"))
    in_flight: "array[float]" = field(default_factory=lambda: array("f"))


@dataclass(slots=True)
class FlowHistory:
    """One spout task in one run. Times are ascending seconds since the start of the run."""

    run_number: int
    component_id: str
    task_id: int
    secs: "array[float]" = field(default_factory=lambda: array("d"))
    done_records: "array[float]" = field(default_factory=lambda: array("d"))
    """Number of done records since the first sample. The sum continues when a restarted spout counts from 0 again."""
    settled_records: "array[float]" = field(default_factory=lambda: array("d"))
    """Like `done_records`, but grows steadily. `done_records` stands still behind the slowest record, and then jumps."""
    since_checkpoint: "array[float]" = field(default_factory=lambda: array("d"))
    tasks: dict[int, TaskHistory] = field(default_factory=dict)
    _before: FlowSample | None = None

    def add_sample(self, secs: float, sample: FlowSample) -> None:
        """Append the next sample."""
        before, self._before = self._before, sample
        if before is None:
            done = settled = 0.0
        elif sample.done_records < before.done_records:  # a new instance of the spout
            done, settled = sample.done_records, sample.settled_records
        else:
            done, settled = sample.done_records - before.done_records, sample.settled_records - before.settled_records
        self.done_records.append(done + (self.done_records[-1] if before else 0.0))
        self.settled_records.append(settled + (self.settled_records[-1] if before else 0.0))
        self.since_checkpoint.append(sample.since_checkpoint)
        here = {task.task_id: task for task in sample.tasks}
        for task_id, task in here.items():
            if task_id not in self.tasks:
                self.tasks[task_id] = TaskHistory(task)
                for _ in self.secs:
                    _append(self.tasks[task_id], None)
        for task_id, history in self.tasks.items():
            _append(history, here.get(task_id))
        self.secs.append(secs)

    @property
    def span_secs(self) -> float:
        """Seconds from the first sample to the last."""
        return self.secs[-1] - self.secs[0] if self.secs else 0.0

    def shares(self, task: TaskHistory) -> Mapping[FlowState, float]:
        """Return the share of the time that a task spent in each state, from 0 to 1."""
        return shares(self.secs, task.states, 0, len(self.secs) - 1)

    def mean(self, values: Sequence[float], first: int = 0, last: int | None = None) -> float:
        """Return the mean over time between two samples. Each value is valid until the next sample."""
        until = len(self.secs) - 1 if last is None else last
        span = self.secs[until] - self.secs[first]
        weighted = (values[number] * (self.secs[number + 1] - self.secs[number]) for number in range(first, until))
        return sum(weighted) / span if span > 0 else 0.0


def shares(secs: Sequence[float], states: Sequence[int], first: int, last: int) -> Mapping[FlowState, float]:
    """Return the share of the time in each state between two samples. The sum is below 1 if the task was absent."""
    spent = dict.fromkeys(STATES, 0.0)
    for number in range(first, last):
        if states[number] != ABSENT:
            spent[STATES[states[number]]] += secs[number + 1] - secs[number]
    span = secs[last] - secs[first]
    return {state: time / span for state, time in spent.items()} if span > 0 else spent


def intervals(secs: Sequence[float], most: int, *, pieces: int) -> list[tuple[int, int]]:
    """Return the indexes of the first and the last sample of each segment of a drawing.

    A segment joins two neighbouring samples. If there are more than `most` segments, return at most `pieces` segments of equal time.

    >>> intervals([0.0, 1.0, 2.0, 3.0, 4.0], 3, pieces=2)
    [(0, 2), (2, 4)]
    """
    end = len(secs) - 1
    if end <= most:
        return list(pairwise(range(len(secs))))
    span = secs[end] - secs[0]
    edges = (bisect_left(secs, secs[0] + span * number / pieces, 0, end) for number in range(pieces))
    return list(pairwise(sorted({*edges, end})))


def history_label(history: FlowHistory, histories: Sequence[FlowHistory]) -> str:
    """Return the name of the spout, with task and run if there are several."""
    name = name_text(history.component_id)
    of_spout = [each for each in histories if each.component_id == history.component_id]
    details = [f"task {history.task_id}"] if len({each.task_id for each in of_spout}) > 1 else []
    details += [f"run {history.run_number}"] if len({each.run_number for each in histories}) > 1 else []
    return f"{name} ({', '.join(details)})" if details else name


def _append(history: TaskHistory, task: TaskSample | None) -> None:
    history.states.append(ABSENT if task is None else STATES.index(task.state))
    history.windows.append(0.0 if task is None else task.window)
    history.in_flight.append(0.0 if task is None else task.in_flight)
    history.last = task or history.last


def histories_of(samples: Iterable[tuple[int, float, FlowSample]]) -> list[FlowHistory]:
    """Return the histories of (number of the run, seconds, sample), ordered by their first sample."""
    found: dict[tuple[int, str, int], FlowHistory] = {}
    for run_number, secs, sample in samples:
        history = found.setdefault(
            (run_number, sample.component_id, sample.task_id), FlowHistory(run_number, sample.component_id, sample.task_id)
        )
        if not history.secs or secs > history.secs[-1]:  # the last snapshot of a run may occur twice
            history.add_sample(secs, sample)
    return list(found.values())


MOST_LINE_BYTES: Final = 64 * 1024 * 1024
HOW: Final = "python -m engine run topology.py --json -c stats_interval_secs=0.25 > run.jsonl"
STANDARD_INPUT: Final = Path("-")


def read_histories(path: Path, spout: str | None = None) -> list[FlowHistory]:
    """Return the history of each spout task with flow control, or only of one spout's tasks.

    Raise UsageError for an unusable file or spout.
    """
    if path == STANDARD_INPUT:
        return _chosen(_LogReader("standard input"), sys.stdin.buffer, spout)
    try:
        with path.open("rb") as file:
            return _chosen(_LogReader(str(path)), file, spout)
    except OSError as error:
        why, hint = why_unreadable(path, path.suffix or ".jsonl") or (f"{path} cannot be read: {error.strerror}", "Check the file.")
        raise UsageError(why, hint=hint) from None


def _chosen(reader: "_LogReader", file: BinaryIO, spout: str | None) -> list[FlowHistory]:
    histories = histories_of(reader.samples(file))
    reader.check_whole()
    names = {history.component_id for history in histories}
    if spout is not None and spout not in names:
        raise UsageError(f"{reader.name}: the run has no spout {spout!r} with flow control", hint=did_you_mean(spout, names))
    chosen = [history for history in histories if spout in (None, history.component_id) and history.span_secs > 0]
    if not chosen:
        hint = f"Run longer, or write snapshots more often: {HOW}"
        raise UsageError(f"{reader.name}: a report needs at least two snapshots", hint=hint)
    return chosen


class _LogReader:
    """Reader of one file, with its line number and counts for error messages."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._line_number = 0
        self._run_number = 0
        self._secs = math.inf
        self._snapshots = 0
        self._with_flow = 0

    def samples(self, file: BinaryIO) -> Iterator[tuple[int, float, FlowSample]]:
        """Return (number of the run, seconds, sample) of each spout task in each snapshot."""
        for event in self._events(file):
            snapshot = event.get("snapshot") if event["event"] == "end" else event
            if event["event"] == "start":
                self._secs = math.inf  # the next snapshot is earlier, so it belongs to another run
            if event["event"] not in ("snapshot", "end") or snapshot is None:
                continue
            try:
                yield from self._of_snapshot(snapshot)
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
                reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
                raise self._fault(f"is not a snapshot of this version: {reason}", f"Write the file again: {HOW}") from None

    def check_whole(self) -> None:
        """Raise UsageError if the file contains no flow control."""
        if not self._line_number:
            raise UsageError(f"{self.name} is empty", hint=f"Write it with {HOW}")
        if not self._snapshots:
            hint = f"A run writes a snapshot every stats_interval_secs: {HOW}"
            raise UsageError(f"{self.name}: none of its {self._line_number} lines is a snapshot", hint=hint)
        if not self._with_flow:
            hint = "The report needs a topology with a FlowControlSpout."
            raise UsageError(f"{self.name}: none of its {self._snapshots} snapshots contains flow control", hint=hint)

    def _of_snapshot(self, snapshot: Mapping[str, Any]) -> Iterator[tuple[int, float, FlowSample]]:
        self._snapshots += 1
        secs = _amount(snapshot, "uptime_secs")
        if secs < self._secs:
            self._run_number += 1
        self._secs = secs
        flows = snapshot.get("flow") or ()
        self._with_flow += bool(flows)
        for flow in flows:
            yield self._run_number, secs, _sample(flow)

    def _events(self, file: BinaryIO) -> Iterator[dict[str, Any]]:
        for line in iter(lambda: file.readline(MOST_LINE_BYTES), b""):
            self._line_number += 1
            if line.strip():
                event = self._event(line)
                if event is not None:
                    yield event

    def _event(self, line: bytes) -> dict[str, Any] | None:
        """Return an event. Return None for an incomplete last line."""
        is_whole = line.endswith(b"\n")
        if not is_whole and len(line) >= MOST_LINE_BYTES:
            raise self._fault(f"is longer than {MOST_LINE_BYTES:,} bytes", f"This is no output of a run. Write it with {HOW}")
        try:
            event = json.loads(line.decode())
        except (ValueError, RecursionError) as error:
            if not is_whole:
                print_to_stderr(
                    f"Note: {self.name}, line {self._line_number} is incomplete and skipped. The run is writing it, or was killed."
                )
                return None
            raise self._json_fault(line, error) from None
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            raise self._fault("is JSON, but not an event of a run: it has no 'event'", f"Use the output of run --json: {HOW}")
        return event

    def _json_fault(self, line: bytes, error: Exception) -> UsageError:
        shown = repr(line[:40].decode(errors="replace").rstrip()) + ("…" if len(line.rstrip()) > 40 else "")
        hint = f"Use only the output of run --json: {HOW}. A topology that prints must print to standard error."
        return self._fault(f"is not JSON: {shown}", hint if not isinstance(error, UnicodeDecodeError) else f"{hint} The line is not UTF-8.")

    def _fault(self, problem: str, hint: str) -> UsageError:
        return UsageError(f"{self.name}, line {self._line_number} {problem}", hint=hint)


def _sample(flow: Mapping[str, Any]) -> FlowSample:
    tasks = [_task(task) for task in flow["tasks"]]
    done, pending = _amount(flow, "done_records"), _amount(flow, "pending_records")
    at_tasks = sum(_amount(task, "in_flight_records") for task in flow["tasks"])
    return FlowSample(
        _typed(flow, "component_id", str),
        _typed(flow, "task_id", int),
        done,
        done + pending - at_tasks,
        _amount(flow, "records_since_checkpoint"),
        tasks,
    )


def _task(task: Mapping[str, Any]) -> TaskSample:
    state = task["state"]
    if state not in STATES:
        raise ValueError(f"state is {state!r}, not {', '.join(STATES)}")
    return TaskSample(
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
    """Return a time. Return None before the first measurement, and for infinity and NaN, which are text in the file."""
    return None if values[name] is None or isinstance(values[name], str) else _amount(values, name)


def _amount(values: Mapping[str, Any], name: str) -> float:
    """Return a number that is not negative."""
    value = values[name]
    if type(value) not in (int, float) or not 0 <= value < 1e15:
        raise ValueError(f"{name} is {value!r}")
    return float(value)
