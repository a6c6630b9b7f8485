"""Plots as SVG text: areas, lines, bars, heat maps. The style sheet of page.html has their colours and fonts, by class."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Final

WIDTH: Final = 960
LEFT: Final = 52
"""Room for the numbers of the vertical axis."""
RIGHT: Final = 12
TOP: Final = 14
BOTTOM: Final = 26
DAY_MINUTES: Final = 24 * 60


def over_the_day(
    series: Mapping[str, Sequence[float]],
    tip: Callable[[int], str],
    *,
    height: int = 260,
    unit: str = "",
    note: tuple[int, str] | None = None,
) -> str:
    """Return stacked areas of values at even steps of a day. The keys of `series` are their classes.

    `tip` makes the text of a step that the mouse shows, `note` writes a text at a step.
    """
    totals = [sum(values) for values in zip(*series.values(), strict=True)]
    top = _nice(max(totals, default=0) or 1)
    step = (WIDTH - LEFT - RIGHT) / len(totals)

    def place(number: int, value: float) -> str:
        return f"{LEFT + number * step:.1f} {_y(value, top, height):.1f}"

    parts = [_hours(height), _levels(top, height, unit)]
    below = [0.0] * len(totals)
    for name, values in series.items():
        above = [low + value for low, value in zip(below, values, strict=True)]
        edge = "L".join(place(number + half, value) for number, value in enumerate(above) for half in (0, 1))
        back = "L".join(place(number + half, value) for number, value in reversed([*enumerate(below)]) for half in (1, 0))
        parts.append(f'<path class="area {name}" d="M{edge}L{back}Z"/><path class="edge {name}" d="M{edge}"/>')
        below = above
    if note is not None:
        at = min(max(LEFT + note[0] * step, LEFT + 60), WIDTH - 60)
        parts.append(f'<text class="note" x="{at:.1f}" y="{max(_y(totals[note[0]], top, height) - 7, 11):.1f}">{escape(note[1])}</text>')
    for number in range(len(totals)):
        x = LEFT + number * step
        parts.append(
            f'<rect class="tip" x="{x:.1f}" y="{TOP}" width="{step:.2f}" height="{height - TOP - BOTTOM}">{_title(tip(number))}</rect>'
        )
    return _svg(parts, height)


def columns(values: Sequence[tuple[str, float]], below: str) -> str:
    """Return vertical bars with labels and a title of the axis. The plot is half as wide as the others."""
    width, height = WIDTH // 2, 250
    top = _nice(max((value for _, value in values), default=0) or 1)
    step = (width - LEFT - RIGHT) / len(values)
    parts = [_levels(top, height, "", width), f'<text class="axis end" x="{width - RIGHT}" y="{height + 10}">{escape(below)}</text>']
    for number, (label, value) in enumerate(values):
        x, y = LEFT + number * step, _y(value, top, height)
        title = _title(f"{label} {below}: {value:,.0f}")
        parts.append(
            f'<rect class="bar" x="{x + 2:.1f}" y="{y:.1f}" width="{step - 4:.1f}" height="{height - BOTTOM - y:.1f}" rx="2">{title}</rect>'
        )
        parts.append(f'<text class="axis middle" x="{x + step / 2:.1f}" y="{height - 8}">{escape(label)}</text>')
    return _svg(parts, height + 16, width)


def heat_map(rows: Mapping[str, Sequence[float]], tip: Callable[[str, int, float], str]) -> str:
    """Return a row of 24 cells for each name. The opacity of a cell is its value relative to the largest of its row."""
    left, cell = 84, 24
    width = (WIDTH - left - RIGHT) / 24
    parts = []
    for line, (name, values) in enumerate(rows.items()):
        y, largest = line * cell, max(values) or 1
        parts.append(f'<text class="axis end" x="{left - 8}" y="{y + 16}">{escape(name)}</text>')
        for hour, value in enumerate(values):
            strength = 0.04 + 0.96 * value / largest
            place = f'x="{left + hour * width + 1:.1f}" y="{y + 1}" width="{width - 2:.1f}" height="{cell - 2}"'
            parts.append(f'<rect class="heat" {place} rx="3" fill-opacity="{strength:.2f}">{_title(tip(name, hour, value))}</rect>')
    bottom = len(rows) * cell
    parts.extend(
        f'<text class="axis middle" x="{left + (hour + 0.5) * width:.1f}" y="{bottom + 16}">{hour:02}</text>' for hour in range(0, 24, 3)
    )
    return _svg(parts, bottom + 22)


def bars(rows: Iterable[tuple[str, float, str]]) -> str:
    """Return horizontal bars as a table of HTML: a label, a length, and a text at the end."""
    rows = list(rows)
    longest = max((value for _, value, _ in rows), default=0) or 1
    lines = (
        f'<tr><th scope="row">{escape(label)}</th><td class="track"><i style="width:{100 * value / longest:.1f}%"></i></td>'
        f"<td>{escape(text)}</td></tr>"
        for label, value, text in rows
    )
    return f'<table class="bars">{"".join(lines)}</table>'


def _y(value: float, top: float, height: int) -> float:
    return height - BOTTOM - value / top * (height - TOP - BOTTOM)


def _nice(value: float) -> float:
    """Return the next round number for the end of an axis."""
    power: float = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value)


def _hours(height: int) -> str:
    width = (WIDTH - LEFT - RIGHT) / 24
    marks = []
    for hour in range(0, 25, 3):
        x = LEFT + hour * width
        marks.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        marks.append(f'<text class="axis middle" x="{min(x, WIDTH - 18):.1f}" y="{height - 8}">{hour:02}:00</text>')
    return "".join(marks)


def _levels(top: float, height: int, unit: str, width: int = WIDTH) -> str:
    marks = []
    for number in range(5):
        value, y = top * number / 4, _y(number / 4, 1, height)
        marks.append(f'<line class="grid" x1="{LEFT}" x2="{width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        marks.append(f'<text class="axis end" x="{LEFT - 8}" y="{y + 4:.1f}">{value:,g}{unit}</text>')
    return "".join(marks)


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _svg(parts: Iterable[str], height: int, width: int = WIDTH) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img">{"".join(parts)}</svg>'
