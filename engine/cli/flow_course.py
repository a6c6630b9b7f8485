"""Flow control over time: for each spout task, and each bolt task behind it, what a run's snapshots said one after the other."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple, get_args

from engine.cli.figures import name_text
from engine.flow.status import FlowState

STATES: Final[tuple[FlowState, ...]] = get_args(FlowState)
NOT_THERE: Final = -1
"""Stands for the state of a task that a snapshot does not have."""


class TaskMoment(NamedTuple):
    """One bolt task in one snapshot."""

    task_id: int
    state: FlowState
    window: float
    in_flight: float
    service_ms: float | None
    service_p99_ms: float | None
    records: int
    resends: int


class FlowMoment(NamedTuple):
    """One spout task in one snapshot."""

    component_id: str
    task_id: int
    done_records: float
    settled_records: float
    """Sent, and at no task any more: what is done, though there be gaps, and what waits to be sent again."""
    since_checkpoint: float
    tasks: Sequence[TaskMoment]


@dataclass(slots=True)
class TaskCourse:
    """One bolt task: a value for each moment of its spout's course, which holds until the next one."""

    last: TaskMoment
    states: "array[int]" = field(default_factory=lambda: array("b"))
    """Numbers of `STATES`, or `NOT_THERE`."""
    windows: "array[float]" = field(default_factory=lambda: array("f"))
    in_flight: "array[float]" = field(default_factory=lambda: array("f"))


@dataclass(slots=True)
class FlowCourse:
    """One spout task in one run. Times are seconds since the run began, ascending."""

    run_number: int
    component_id: str
    task_id: int
    secs: "array[float]" = field(default_factory=lambda: array("d"))
    done_records: "array[float]" = field(default_factory=lambda: array("d"))
    """Since the first moment, through restarts of the spout's instance, which counts anew."""
    settled_records: "array[float]" = field(default_factory=lambda: array("d"))
    """Likewise. They grow steadily, where the done ones wait for the slowest record and then leap."""
    since_checkpoint: "array[float]" = field(default_factory=lambda: array("d"))
    tasks: dict[int, TaskCourse] = field(default_factory=dict)
    _before: FlowMoment | None = None

    def add(self, secs: float, moment: FlowMoment) -> None:
        """Take the next moment."""
        before, self._before = self._before, moment
        if before is None:
            done = settled = 0.0
        elif moment.done_records < before.done_records:  # another instance
            done, settled = moment.done_records, moment.settled_records
        else:
            done, settled = moment.done_records - before.done_records, moment.settled_records - before.settled_records
        self.done_records.append(done + (self.done_records[-1] if before else 0.0))
        self.settled_records.append(settled + (self.settled_records[-1] if before else 0.0))
        self.since_checkpoint.append(moment.since_checkpoint)
        here = {task.task_id: task for task in moment.tasks}
        for task_id, task in here.items():
            if task_id not in self.tasks:
                self.tasks[task_id] = TaskCourse(task)
                for _ in self.secs:
                    _add(self.tasks[task_id], None)
        for task_id, course in self.tasks.items():
            _add(course, here.get(task_id))
        self.secs.append(secs)

    @property
    def span_secs(self) -> float:
        """The time from the first moment to the last."""
        return self.secs[-1] - self.secs[0] if self.secs else 0.0

    def shares(self, task: TaskCourse) -> Mapping[FlowState, float]:
        """Return the share of the time that a task spent in each state, 0 to 1."""
        return shares(self.secs, task.states, 0, len(self.secs) - 1)

    def mean(self, values: Sequence[float], first: int = 0, last: int | None = None) -> float:
        """Return the mean, from one moment to another, of what holds from each moment to the next."""
        until = len(self.secs) - 1 if last is None else last
        span = self.secs[until] - self.secs[first]
        weighted = (values[number] * (self.secs[number + 1] - self.secs[number]) for number in range(first, until))
        return sum(weighted) / span if span > 0 else 0.0


def shares(secs: Sequence[float], states: Sequence[int], first: int, last: int) -> Mapping[FlowState, float]:
    """Return the share of the time between two moments that was spent in each state; in all less than 1 where the task was not there."""
    spent = dict.fromkeys(STATES, 0.0)
    for number in range(first, last):
        if states[number] != NOT_THERE:
            spent[STATES[states[number]]] += secs[number + 1] - secs[number]
    span = secs[last] - secs[first]
    return {state: time / span for state, time in spent.items()} if span > 0 else spent


def intervals(secs: Sequence[float], most: int, *, pieces: int) -> list[tuple[int, int]]:
    """Return (first, last) moments of what is drawn as one: two that follow each other, or, where these are more than `most`, equal times.

    >>> intervals([0.0, 1.0, 2.0, 3.0, 4.0], 3, pieces=2)
    [(0, 2), (2, 4)]
    """
    end = len(secs) - 1
    if end <= most:
        return list(pairwise(range(len(secs))))
    span = secs[end] - secs[0]
    edges = (bisect_left(secs, secs[0] + span * number / pieces, 0, end) for number in range(pieces))
    return list(pairwise(sorted({*edges, end})))


def course_name(course: FlowCourse, courses: Sequence[FlowCourse]) -> str:
    """Return the spout; its task and its run only where there are several of them."""
    name = name_text(course.component_id)
    of_spout = [each for each in courses if each.component_id == course.component_id]
    told = [f"task {course.task_id}"] if len({each.task_id for each in of_spout}) > 1 else []
    told += [f"run {course.run_number}"] if len({each.run_number for each in courses}) > 1 else []
    return f"{name} ({', '.join(told)})" if told else name


def _add(course: TaskCourse, task: TaskMoment | None) -> None:
    course.states.append(NOT_THERE if task is None else STATES.index(task.state))
    course.windows.append(0.0 if task is None else task.window)
    course.in_flight.append(0.0 if task is None else task.in_flight)
    course.last = task or course.last


def courses_of(moments: Iterable[tuple[int, float, FlowMoment]]) -> list[FlowCourse]:
    """Return the courses of (number of the run, seconds, moment), in the order in which they begin."""
    found: dict[tuple[int, str, int], FlowCourse] = {}
    for run_number, secs, moment in moments:
        course = found.setdefault(
            (run_number, moment.component_id, moment.task_id), FlowCourse(run_number, moment.component_id, moment.task_id)
        )
        if not course.secs or secs > course.secs[-1]:  # the last snapshot of a run may come twice
            course.add(secs, moment)
    return list(found.values())
