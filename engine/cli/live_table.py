"""The live table redraws the metrics in place on a terminal, with errors below and logs above."""

import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from engine.cli import snapshot_text
from engine.cli.console.formatting import name_text
from engine.cli.console.live_display import FIRST_COLUMN_WIDTH, LiveDisplay, empty_table
from engine.cli.label_tables import label_tables
from engine.cli.run_views import Outcome
from engine.cli.snapshot_text import FRAME_LINES, STATE_STYLES, TextTable, flow_tables, least_flow_lines
from engine.names import is_reserved
from engine.runtime.bottleneck import find_bottleneck
from engine.runtime.error_report import ErrorReport
from engine.runtime.snapshot import Snapshot

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

SHOWN_ERRORS: Final = 5
WIDE: Final = 104
"""Minimum width of a terminal, in columns, for counts in full and wide gaps."""
_FIXED_LINES: Final = 8
"""Lines of the headline, the headers and rules of two tables, and two blank lines. The bottleneck has one for each line of its text."""
_BUSY, _OVERLOADED, _HALF_FULL = 0.8, 0.95, 0.5
_NARROW_HEADERS: Final = {"execute ms": "exec\nms", "process ms": "proc\nms", "capacity": "capa-\ncity"}
_LEAST_NEEDED: Final = ("queue", "execute ms", "tasks", "process ms", "emitted", "failed")
"""Columns of the components that a narrow terminal leaves out, in this order."""
_LIMITS: Final = ("loop", "component", "mailbox", "pending", "feature", "wait")
"""Kinds of bottlenecks that are shown in colour. The others limit nothing."""


class LiveTable(LiveDisplay):
    """View of a terminal. Draws on standard error, so the output of the topology can be redirected."""

    def show(self, before: Snapshot | None, now: Snapshot) -> None:
        """Redraw the table."""
        self.draw(lambda width, height: render(before, now, width, height))

    def report(self, report: ErrorReport) -> None:
        """Do nothing, because the log above and the next snapshot show the error."""

    def end(self, outcome: Outcome) -> None:
        """Leave the metrics of the whole run and the summary on the screen."""
        now = outcome.snapshot
        if now is not None:
            self.finish(lambda width: render(None, now, width), outcome.summary(), succeeded=outcome.exit_status == 0)


def render(before: Snapshot | None, now: Snapshot, width: int, height: int | None = None) -> "Group":
    """Return headline, components, bottleneck, spouts, checkpoint or transactions, latest errors, flow control, and labelled user metrics.

    width, height: columns and lines of the terminal. Lines beyond the height are cut. height None: the terminal may scroll.
    """
    from rich.console import Group
    from rich.text import Text

    errors = [_error_line(report) for report in now.errors[-SHOWN_ERRORS:]]
    if errors:
        errors.insert(0, Text("latest errors", style="bold red"))
    headline = Text(snapshot_text.headline(before, now), style="bold", no_wrap=True, overflow="ellipsis")
    blank = Text("")  # also ends the table: the terminal writes ^C in the last line, and a full line would wrap and disturb the redraw
    state = [line for text in snapshot_text.state_texts(before, now) for line in (blank, Text(text, no_wrap=True, overflow="ellipsis"))]
    limit = _limit(before, now, width)
    above = _FIXED_LINES + len(now.components) + len(limit) + len(now.spouts) + len(state) + len(errors)
    own = _own_tables(now, width, None if height is None else height - above)
    return Group(headline, _components(before, now, width), *limit, blank, _spouts(now), *state, *errors, *own, blank)


def _limit(before: Snapshot | None, now: Snapshot, width: int) -> "list[Text]":
    """Return the lines that say what limits the run."""
    from rich.text import Text

    found = find_bottleneck(before, now)
    style = "bold yellow" if found.kind in _LIMITS else "dim"
    lines = textwrap.wrap(name_text(found.text), max(width, FIRST_COLUMN_WIDTH))
    return [Text(line, style=style, no_wrap=True, overflow="ellipsis") for line in lines]


def _own_tables(now: Snapshot, width: int, lines: int | None) -> "list[Text | Table]":
    """Return the tables of flow control and of user metrics. Flow control gets the lines that the metrics leave."""
    from rich.text import Text

    compact = width < WIDE
    metrics = label_tables(now, compact=compact, lines=None if lines is None else lines - least_flow_lines(now))
    taken = sum(FRAME_LINES + len(table.rows) for table in metrics)
    flows = flow_tables(now, compact=compact, lines=None if lines is None else lines - taken)
    titled = [_titled(table, width, STATE_STYLES, compact=compact) for table in flows]
    titled += [_titled(table, width, {}, compact=compact) for table in metrics]
    return [line for table in titled for line in (Text(""), *table)]


def _components(before: Snapshot | None, now: Snapshot, width: int) -> "Table":
    """Return the table of the components, with the columns that fit."""
    from rich.text import Text

    compact, gap = width < WIDE, 0 if width < WIDE else 1
    names = snapshot_text.COMPONENT_COLUMNS
    headers = tuple(_NARROW_HEADERS.get(name, name) if compact else name for name in names)
    rows = snapshot_text.component_rows(before, now, compact=compact)
    shown = list(range(len(names)))
    for name in _LEAST_NEEDED:
        if _fitting([[row[column] for column in shown] for row in (headers, *rows)], width, least=1, gap=gap) == len(shown):
            break
        shown.remove(names.index(name))
    table = empty_table(tuple(headers[column] for column in shown), text_columns=(0,), gap=gap)
    for row, (component_id, component) in zip(rows, now.components.items(), strict=True):
        cells = {name: Text(cell) for name, cell in zip(names, row, strict=True)}
        cells["failed"].stylize("red" if component.failed else "")
        for share in ("loop", "capacity"):
            cells[share].stylize(_load_style(cells[share].plain))
        cells["queue"].stylize("yellow" if component.queue_fill >= _HALF_FULL else "")
        table.add_row(*(cells[names[column]] for column in shown), style="dim" if is_reserved(component_id) else None)
    return table


def _spouts(now: Snapshot) -> "Table":
    from rich.text import Text

    table = empty_table(snapshot_text.SPOUT_COLUMNS, text_columns=(0, 4), gap=1)
    for row in snapshot_text.spout_rows(now):
        table.add_row(*map(Text, row))
    return table


def _titled(shown: TextTable, width: int, styles: Mapping[str, str], *, compact: bool) -> "tuple[Text, Table]":
    """Return title and table. The title names the columns that do not fit. `styles` maps cell texts to styles."""
    from rich.text import Text

    gap = 0 if compact else 1
    headers = tuple(header.replace(" ", "\n") for header in shown.headers) if compact else shown.headers
    fitting = _fitting([headers, *shown.rows], width, least=shown.text_columns + 1, gap=gap)
    left_out = shown.headers[fitting:]
    title = Text(shown.title, style="bold", no_wrap=True, overflow="ellipsis")
    title.append(f" · no room for {', '.join(left_out)}" if left_out else "", style="dim")
    table = empty_table(headers[:fitting], text_columns=tuple(range(shown.text_columns)), gap=gap)
    for row in shown.rows:
        table.add_row(
            *(Text(cell, style=styles.get(cell, "") if column < shown.text_columns else "") for column, cell in enumerate(row[:fitting]))
        )
    return title, table


def _fitting(rows: Sequence[Sequence[str]], width: int, *, least: int, gap: int) -> int:
    """Return the number of columns that fit side by side, at least `least`."""
    from rich.cells import cell_len

    widths = [max(cell_len(line) for cell in column for line in cell.split("\n")) + gap for column in zip(*rows, strict=True)]
    widths[0] = max(widths[0], FIRST_COLUMN_WIDTH + gap)
    ends = accumulate(column + 1 for column in widths)  # one character between two columns; the last column has no gap
    return max(least, sum(end - 1 - gap <= width for end in ends))


def _error_line(report: ErrorReport) -> "Text":
    from rich.text import Text

    clock = datetime.fromtimestamp(report.wall).strftime("%H:%M:%S")
    return Text(f"{clock} {report.component_id!r} (task {report.task_id}) {report.text}", no_wrap=True, overflow="ellipsis")


def _load_style(percent: str) -> str:
    share = float(percent.rstrip("%")) / 100 if percent.endswith("%") else 0.0
    return "bold red" if share >= _OVERLOADED else "yellow" if share >= _BUSY else ""
