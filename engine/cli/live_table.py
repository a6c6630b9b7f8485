"""The live table on a terminal: figures in place, errors under them, logs above."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from engine.cli import figures
from engine.cli.flow_tables import STATE_STYLES, flow_tables, least_lines
from engine.cli.label_tables import FRAME_LINES, LabelTable, label_tables
from engine.cli.live_display import FIRST_COLUMN, LiveDisplay, figure_table
from engine.cli.view import Outcome
from engine.cluster.snapshot import Snapshot
from engine.executor.error_report import ErrorReport
from engine.names import is_reserved

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

SHOWN_ERRORS: Final = 5
WIDE: Final = 104
"""Columns of a terminal that show every count in full."""
_FIXED_LINES: Final = 8
"""The headline, the headers and rules of two tables, two blank lines."""
_BUSY, _OVERLOADED, _FILLING = 0.8, 0.95, 0.5
_NARROW_HEADERS: Final = {"transferred": "trans-\nferred", "execute ms": "execute\nms", "process ms": "process\nms"}


class LiveTable(LiveDisplay):
    """The view of a terminal. On standard error, so that what a topology prints can go elsewhere."""

    def show(self, before: Snapshot | None, now: Snapshot) -> None:
        """Draw the table anew."""
        self.draw(lambda width, height: render(before, now, width, height))

    def report(self, report: ErrorReport) -> None:
        """Leave it to the log, which scrolls by above, and to the next snapshot."""

    def end(self, outcome: Outcome) -> None:
        """Leave the figures of the whole run on the screen, and the summary below."""
        now = outcome.snapshot
        if now is not None:
            self.leave(lambda width: render(None, now, width), outcome.summary(), succeeded=outcome.exit_status == 0)


def render(before: Snapshot | None, now: Snapshot, width: int, height: int | None = None) -> "Group":
    """Return the picture: headline, components, spouts, checkpoint or transactions, latest errors, flow control, the users' own metrics.

    It is for a terminal of so many columns and lines; where the lines do not do, its end is cut off. None: it may scroll.
    """
    from rich.console import Group
    from rich.text import Text

    errors = [_error_line(report) for report in now.errors[-SHOWN_ERRORS:]]
    if errors:
        errors.insert(0, Text("latest errors", style="bold red"))
    headline = Text(figures.headline(before, now), style="bold", no_wrap=True, overflow="ellipsis")
    blank = Text("")  # the last line too: the terminal's own ^C would wrap a full one, and the table would not be drawn over
    told = [text for text in (figures.checkpoint_text(now), figures.transactions_text(before, now), figures.failures_text(now)) if text]
    state = [line for text in told for line in (blank, Text(text, no_wrap=True, overflow="ellipsis"))]
    above = _FIXED_LINES + len(now.components) + len(now.spouts) + len(state) + len(errors)
    own = _own_tables(now, width, None if height is None else height - above)
    return Group(headline, _components(before, now, compact=width < WIDE), blank, _spouts(now), *state, *errors, *own, blank)


def _own_tables(now: Snapshot, width: int, lines: int | None) -> "list[Text | Table]":
    """Return the tables of flow control and of the users' metrics, for so many lines: those of flow control take what the others leave."""
    from rich.text import Text

    compact = width < WIDE
    labels = label_tables(now, compact=compact, lines=None if lines is None else lines - least_lines(now))
    taken = sum(FRAME_LINES + len(table.rows) for table in labels)
    flows = flow_tables(now, compact=compact, lines=None if lines is None else lines - taken)
    titled = [_titled(table, width, STATE_STYLES, compact=compact) for table in flows]
    titled += [_titled(table, width, {}, compact=compact) for table in labels]
    return [line for table in titled for line in (Text(""), *table)]


def _components(before: Snapshot | None, now: Snapshot, *, compact: bool) -> "Table":
    from rich.text import Text

    headers = tuple(_NARROW_HEADERS.get(column, column) if compact else column for column in figures.COMPONENT_COLUMNS)
    table = figure_table(headers, text_columns=(0,), gap=0 if compact else 1)
    rows = figures.component_rows(before, now, compact=compact)
    for row, (component_id, component) in zip(rows, now.components.items(), strict=True):
        cells = [Text(cell) for cell in row]
        cells[5].stylize("red" if component.failed else "")
        cells[8].stylize(_load_style(row[8]))
        cells[9].stylize("yellow" if component.queue_fill >= _FILLING else "")
        table.add_row(*cells, style="dim" if is_reserved(component_id) else None)
    return table


def _spouts(now: Snapshot) -> "Table":
    from rich.text import Text

    table = figure_table(figures.SPOUT_COLUMNS, text_columns=(0, 4), gap=1)
    for row in figures.spout_rows(now):
        table.add_row(*map(Text, row))
    return table


def _titled(shown: LabelTable, width: int, styles: Mapping[str, str], *, compact: bool) -> "tuple[Text, Table]":
    """Return title and table; figures that the terminal has no room for are named instead. `styles` are of labels, by their text."""
    from rich.text import Text

    gap = 0 if compact else 1
    headers = tuple(header.replace(" ", "\n") for header in shown.headers) if compact else shown.headers
    fitting = _fitting([headers, *shown.rows], width, least=shown.labels + 1, gap=gap)
    left_out = shown.headers[fitting:]
    title = Text(shown.title, style="bold", no_wrap=True, overflow="ellipsis")
    title.append(f" · no room for {', '.join(left_out)}" if left_out else "", style="dim")
    table = figure_table(headers[:fitting], text_columns=tuple(range(shown.labels)), gap=gap)
    for row in shown.rows:
        table.add_row(
            *(Text(cell, style=styles.get(cell, "") if column < shown.labels else "") for column, cell in enumerate(row[:fitting]))
        )
    return title, table


def _fitting(rows: Sequence[Sequence[str]], width: int, *, least: int, gap: int) -> int:
    """Return how many columns fit side by side, but no fewer than `least`."""
    from rich.cells import cell_len

    widths = [max(cell_len(line) for cell in column for line in cell.split("\n")) + gap for column in zip(*rows, strict=True)]
    widths[0] = max(widths[0], FIRST_COLUMN + gap)
    ends = accumulate(column + 1 for column in widths)  # one between two columns; behind the last there is neither it nor the gap
    return max(least, sum(end - 1 - gap <= width for end in ends))


def _error_line(report: ErrorReport) -> "Text":
    from rich.text import Text

    clock = datetime.fromtimestamp(report.wall).strftime("%H:%M:%S")
    return Text(f"{clock} {report.component_id!r} (task {report.task_id}) {report.text}", no_wrap=True, overflow="ellipsis")


def _load_style(percent: str) -> str:
    share = float(percent.rstrip("%")) / 100 if percent.endswith("%") else 0.0
    return "bold red" if share >= _OVERLOADED else "yellow" if share >= _BUSY else ""
