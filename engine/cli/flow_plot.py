"""Draws histories of flow control as an SVG. Each spout task has a block with lanes over a time axis.

The upper two lanes belong to the spout. Each bolt task has a lane, with the window as a line, the packs in flight as an area, and the state
as the background. Sizes are in pixels. States differ in colour and in hatching, so the picture is also readable without colours.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeVar

from engine.cli.console.formatting import amount_text, clipped, compact_text, count_text, duration_text, ms_text, plural
from engine.cli.flow_history import ABSENT, STATES, FlowHistory, TaskHistory, history_label, intervals, shares
from engine.flow.status import FlowState
from engine.svg import svg_document, svg_element, svg_number, svg_text

_Value = TypeVar("_Value")

MARGIN: Final = 24
LEFT: Final = 140
"""Left edge of the lanes. The names of the lanes are to the left of this edge."""
PLOT_WIDTH: Final = 800
COLUMNS: Final = ("service ms", "p99 ms", "records", "resends")
COLUMN_WIDTH: Final = 68
WIDTH: Final = LEFT + PLOT_WIDTH + len(COLUMNS) * COLUMN_WIDTH + MARGIN
HEADLINE: Final = 26
LEGEND: Final = 30
AXIS: Final = 22
SPOUT_LANE: Final = 46
GAP: Final = 5
LANE_HEIGHTS: Final = ((16, 40), (48, 28), (100, 20))
"""(largest number of bolt tasks, height of a lane). With more tasks, lanes have the height `LOWEST_LANE`."""
LOWEST_LANE: Final = 14
MOST_RATES: Final = 200
"""Largest number of time pieces in the lane of records per second."""
MOST_TICKS: Final = 10
TICKS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
HEADROOM: Final = 1.15
MOST_NAME_CHARACTERS: Final = 60

_STYLE: Final = """\
text { font-family: system-ui, sans-serif; font-size: 11px; fill: #44566a; dominant-baseline: central; }
.headline { font-size: 16px; font-weight: 600; fill: #1b2733; } .id { font-size: 12px; font-weight: 600; fill: #1b2733; }
.right { text-anchor: end; } .middle { text-anchor: middle; }
.lane { fill: #ffffff; stroke: #b9c4d0; stroke-width: 1; } .frame { fill: none; stroke: #8494a6; stroke-width: 1; }
.grid { stroke: #5b6f85; stroke-opacity: 0.25; stroke-width: 1; }
.SLOW { fill: url(#SLOW); } .BUSY { fill: url(#BUSY); }
.flight { fill: #2a78b8; fill-opacity: 0.42; } .rate { fill: #2a78b8; fill-opacity: 0.75; } .since { fill: #6b7c8f; fill-opacity: 0.75; }
.halo { fill: none; stroke: #ffffff; stroke-width: 4; stroke-opacity: 0.85; } .window { fill: none; stroke: #10181f; stroke-width: 1.6; }"""

_HATCHINGS: Final = """\
<defs>
<pattern id="SLOW" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">\
<rect width="6" height="6" fill="#fbe6a2"/><rect width="1.2" height="6" fill="#c08a00"/></pattern>
<pattern id="BUSY" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">\
<rect width="5" height="5" fill="#e08a74"/>\
<rect width="1.3" height="5" fill="#7a1f12"/><rect width="5" height="1.3" fill="#7a1f12"/></pattern>
</defs>"""


def flow_plot(histories: Sequence[FlowHistory]) -> str:
    """Return a complete SVG document."""
    blocks, top = [], float(MARGIN)
    for history in histories:
        block = _Block(history, history_label(history, histories), top)
        blocks.append("\n".join(block.drawing()))
        top = block.bottom + 2 * MARGIN
    title = f"Flow control of {', '.join(dict.fromkeys(history.component_id for history in histories))}"
    paper = svg_element("rect", width=WIDTH, height=top - MARGIN, fill="#ffffff")
    return svg_document(WIDTH, top - MARGIN, title, _STYLE, _HATCHINGS, paper, *blocks)


@dataclass(frozen=True, slots=True)
class _Lane:
    """Horizontal strip of the picture. `most` is the value at its upper edge."""

    top: float
    height: float
    most: float

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def y(self, value: float) -> float:
        return self.bottom - self.height * min(value / self.most, 1.0)


class _Block:
    """Block of one spout task, with the positions and the drawings of its lanes."""

    def __init__(self, history: FlowHistory, name: str, top: float) -> None:
        self._history = history
        self._name = name
        self._top = top
        self._lane_height = next((height for most, height in LANE_HEIGHTS if len(history.tasks) <= most), LOWEST_LANE)
        self._pieces = intervals(history.secs, PLOT_WIDTH, pieces=PLOT_WIDTH // 2)
        self._windows = {task_id: self._means(task.windows) for task_id, task in history.tasks.items()}
        self._in_flight = {task_id: self._means(task.in_flight) for task_id, task in history.tasks.items()}
        drawn = (*self._windows.values(), *self._in_flight.values())
        self._most_packs = max((max(values) for values in drawn), default=0.0) or 1.0
        self._lanes_top = top + HEADLINE + LEGEND + AXIS
        self._tasks_top = self._lanes_top + 2 * (SPOUT_LANE + GAP) + GAP
        self._lanes_bottom = self._tasks_top + len(history.tasks) * (self._lane_height + GAP) - GAP
        self.bottom = self._lanes_bottom + AXIS

    def drawing(self) -> Iterator[str]:
        """Return the SVG elements: headline, legend, lanes, time axis."""
        yield _label(MARGIN, self._top + 8, clipped(self._name, MOST_NAME_CHARACTERS), "headline")
        yield _label(WIDTH - MARGIN, self._top + 8, self._summary(), "right")
        yield from _legend(self._top + HEADLINE + 10, self._scale())
        yield from self._spout_lanes()
        for column, header in enumerate(COLUMNS):
            yield _label(_column(column), self._tasks_top - 9, header, "right")
        for row, (task_id, task) in enumerate(self._history.tasks.items()):
            yield from self._task_lane(task_id, task, self._tasks_top + row * (self._lane_height + GAP))
        yield from self._time()

    def _summary(self) -> str:
        history = self._history
        done = f"{count_text(round(history.done_records[-1]))} records in {duration_text(history.span_secs)}"
        return f"{done} · {plural(len(history.tasks), 'bolt task')} · {count_text(len(history.secs))} snapshots"

    def _scale(self) -> str:
        """Return the scale of the lanes of bolt tasks."""
        history, pieces = self._history, len(self._pieces)
        packs = f"one scale for all tasks, up to {amount_text(_rounded(self._most_packs))} packs"
        if pieces == len(history.secs) - 1:
            return packs
        return f"{packs} · each piece of {span_text(_rounded(history.span_secs / pieces))} shows means and the shares of the states"

    # The spout

    def _spout_lanes(self) -> Iterator[str]:
        history = self._history
        spans = intervals(history.secs, MOST_RATES, pieces=MOST_RATES)
        settled, secs = history.settled_records, history.secs
        rates = [max(settled[last] - settled[first], 0.0) / (secs[last] - secs[first]) for first, last in spans]
        since = [max(history.since_checkpoint[first:last]) for first, last in self._pieces]
        for row, (name, style, pieces, values) in enumerate(
            (("records/s", "rate", spans, rates), ("since checkpoint", "since", self._pieces, since))
        ):
            most = max(values, default=0.0)
            lane = _Lane(self._lanes_top + row * (SPOUT_LANE + GAP), SPOUT_LANE, most or 1.0)
            yield _frame(lane, "lane")
            yield svg_element("path", class_=style, d=self._area(lane, pieces, values))
            yield _label(LEFT - 10, lane.top + SPOUT_LANE / 2, name, "id right")
            yield _label(LEFT + PLOT_WIDTH + 8, lane.top + 7, f"at most {amount_text(_rounded(most), compact=True)}")

    # The bolt tasks

    def _task_lane(self, task_id: int, task: TaskHistory, top: float) -> Iterator[str]:
        lane = _Lane(top, self._lane_height, self._most_packs * HEADROOM)
        shown = self._history.shares(task)
        states = ", ".join(f"{state} {share:.0%}" for state, share in shown.items())
        yield f"<g><title>task {task_id}: {states}; window {self._history.mean(task.windows):.1f} on average</title>"
        yield _frame(lane, "lane")
        yield from (svg_element("path", class_=state, d=path) for state, path in self._states(lane, task) if path)
        yield svg_element("path", class_="flight", d=self._area(lane, self._pieces, self._in_flight[task_id]))
        line = self._line(lane, task, self._windows[task_id])
        yield svg_element("path", class_="halo", d=line) + svg_element("path", class_="window", d=line)
        yield f"{_frame(lane, 'frame')}</g>"
        middle = top + self._lane_height / 2
        yield _label(LEFT - 10, middle, f"task {task_id}", "id right")
        cells = (
            ms_text(task.last.service_ms),
            ms_text(task.last.service_p99_ms),
            compact_text(task.last.records),
            compact_text(task.last.resends),
        )
        for column, text in enumerate(cells):
            yield _label(_column(column), middle, text, "right")

    def _states(self, lane: _Lane, task: TaskHistory) -> Iterator[tuple[FlowState, str]]:
        """Return the background of the states SLOW and BUSY. The state NORMAL is white.

        Several states of one piece are stacked by their shares.
        """
        found = [shares(self._history.secs, task.states, first, last) for first, last in self._pieces]
        above = [0.0] * len(found)
        for state in ("BUSY", "SLOW"):
            ends = [share + piece[state] for share, piece in zip(above, found, strict=True)]
            path = []
            for first, last, (begin, end) in _merged(zip(self._pieces, zip(above, ends, strict=True), strict=True)):
                if end > begin:
                    left, right = svg_number(self._x(first)), svg_number(self._x(last))
                    upper, lower = svg_number(lane.top + lane.height * begin), svg_number(lane.top + lane.height * end)
                    path.append(f"M{left} {upper}H{right}V{lower}H{left}Z")
            yield state, "".join(path)
            above = ends

    def _means(self, values: Sequence[float]) -> list[float]:
        return [self._history.mean(values, first, last) for first, last in self._pieces]

    def _area(self, lane: _Lane, pieces: Sequence[tuple[int, int]], values: Sequence[float]) -> str:
        """Return the outline of the area below a step line."""
        path = [f"M{svg_number(self._x(0))} {svg_number(lane.bottom)}"]
        for _, last, value in _merged(zip(pieces, values, strict=True)):
            path.append(f"V{svg_number(lane.y(value))}H{svg_number(self._x(last))}")
        return "".join([*path, f"V{svg_number(lane.bottom)}Z"])

    def _line(self, lane: _Lane, task: TaskHistory, windows: Sequence[float]) -> str:
        """Return the window as a step line with gaps where the task was absent."""
        is_present = [any(state != ABSENT for state in task.states[first:last]) for first, last in self._pieces]
        values = [value if present else None for value, present in zip(windows, is_present, strict=True)]
        path, draws = [], False
        for first, last, value in _merged(zip(self._pieces, values, strict=True)):
            if value is not None:
                y = svg_number(lane.y(value))
                path.append(f"{f'V{y}' if draws else f'M{svg_number(self._x(first))} {y}'}H{svg_number(self._x(last))}")
            draws = value is not None
        return "".join(path)

    # The time

    def _time(self) -> Iterator[str]:
        begin, span = self._history.secs[0], self._history.span_secs
        for secs in ticks(begin, begin + span):
            x = LEFT + PLOT_WIDTH * (secs - begin) / span
            yield svg_element("path", class_="grid", d=f"M{svg_number(x)} {svg_number(self._lanes_top)}V{svg_number(self._lanes_bottom)}")
            for y in (self._lanes_top - 10, self._lanes_bottom + 12):
                yield _label(x, y, span_text(secs), "middle")

    def _x(self, sample: int) -> float:
        history = self._history
        return LEFT + PLOT_WIDTH * (history.secs[sample] - history.secs[0]) / history.span_secs


def ticks(begin: float, end: float) -> list[float]:
    """Return at most ten times for the labels of an axis, in round steps.

    >>> ticks(0, 95), ticks(3.1, 3.4)
    ([0, 10, 20, 30, 40, 50, 60, 70, 80, 90], [3.1, 3.15, 3.2, 3.25, 3.3, 3.35, 3.4])
    """
    days = 86400 * math.ceil((end - begin) / MOST_TICKS / 86400)
    step = next((step for step in TICKS if (end - begin) / step < MOST_TICKS), days)
    return [round(number * step, 2) for number in range(math.ceil(begin / step - 1e-9), math.floor(end / step + 1e-9) + 1)]


def span_text(secs: float) -> str:
    """Return a time for the label of an axis, without needless digits.

    >>> [span_text(secs) for secs in (0, 0.25, 5, 90, 3600, 5400)]
    ['0 s', '0.25 s', '5 s', '1 m 30 s', '1 h', '1 h 30 m']
    """
    parts, left = [], round(secs, 2)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        count, left = divmod(left, size)
        parts += [f"{count:.0f} {unit}"] if count else []
    seconds = f"{left:.2f}".rstrip("0").rstrip(".")
    return " ".join(parts if seconds == "0" and parts else [*parts, f"{seconds} s"])


def _legend(y: float, scale: str) -> Iterator[str]:
    x = float(LEFT)
    for state in STATES:
        for style in ("lane", *([] if state == "NORMAL" else [state]), "frame"):
            yield svg_element("rect", x=x, y=y - 6, width=20, height=12, class_=style)
        yield _label(x + 26, y, state)
        x += 90
    yield svg_element("path", class_="window", d=f"M{svg_number(x)} {svg_number(y + 4)}h8v-8h12") + _label(x + 26, y, "window")
    x += 90
    yield svg_element("rect", x=x, y=y - 4, width=20, height=10, class_="flight") + _label(x + 26, y, "in flight")
    yield _label(x + 100, y, scale)


def _merged(pieces: Iterable[tuple[tuple[int, int], _Value]]) -> Iterator[tuple[int, int, _Value]]:
    """Merge neighbours of the same value. Yield (first, last, value)."""
    for value, group in groupby(pieces, key=lambda piece: piece[1]):
        spans = [span for span, _ in group]
        yield spans[0][0], spans[-1][1], value


def _frame(lane: _Lane, style: str) -> str:
    return svg_element("rect", x=LEFT, y=lane.top, width=PLOT_WIDTH, height=lane.height, class_=style)


def _column(number: int) -> float:
    return LEFT + PLOT_WIDTH + (number + 1) * COLUMN_WIDTH


def _label(x: float, y: float, text: str, style: str = "") -> str:
    return svg_element("text", svg_text(text), x=x, y=y, class_=style)


def _rounded(value: float) -> float:
    return round(value) if value >= 10 else round(value, 1)
