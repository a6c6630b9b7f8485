"""Formats results as tables, for a terminal and as the Markdown of `report`."""

import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from bench.results import Measured, Pairing, Results, Spread
from bench.targets import Verdict, verdicts

Row = Sequence[str]
MEASURED_HEADER = ("benchmark", "figure", "median", "min - max", "unit", "runs")
PAIRED_HEADER = ("work", "peer", "stormcell ns", "min - max", "peer ns", "min - max", "time ratio", "pairwise (min - max)", "speed ratio")


def show_table(title: str, header: Row, rows: Sequence[Row], left: int = 2) -> None:
    """Print a table. The first `left` columns are text, the others are numbers."""
    table = Table(title=title, title_justify="left")
    for index, name in enumerate(header):
        table.add_column(name, justify="left" if index < left else "right", no_wrap=index >= left, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False).print(table)


def show_results(results: Results) -> None:
    """Print a table for each kind of result, and the works that were not measured."""
    if results.measured:
        show_table("Measured", MEASURED_HEADER, [row for item in results.measured for row in _measured_rows(item)])
    if results.pairings:
        rows = [_pairing_row(item) for item in results.pairings]
        show_table("Beside peers, in alternating runs (ratio of medians)", PAIRED_HEADER, rows)
    for missing in results.missing:
        print(f"not measured: {missing.group} {missing.name}: {missing.reason}")


def markdown(results: Results, machine: Mapping[str, str], settings: Mapping[str, str], date: str, *, whole: bool = True) -> str:
    """Return the report with machine, targets with verdicts, and all figures. A partial report shows only measured targets."""
    judged = [_verdict_row(verdict) for verdict in verdicts(results) if whole or verdict.value is not None]
    parts = [f"Measured on {date}. " + "; ".join(f"{name} {value}" for name, value in (*machine.items(), *settings.items())) + ".", ""]
    parts += markdown_table(["work", "to reach", "bound", "measured", "verdict", "detail"], judged)
    if results.pairings:
        parts += ["", "Beside peers, alternating. Ratios are of medians.", ""]
        parts += markdown_table(PAIRED_HEADER, [_pairing_row(item) for item in results.pairings])
        notes = {item.peer: item.note for item in results.pairings}
        parts += ["", *(f"- {peer}: {note}" for peer, note in notes.items())]
    if results.measured:
        parts += ["", "Alone.", ""]
        parts += markdown_table(MEASURED_HEADER, [row for item in results.measured for row in _measured_rows(item)])
    parts += ["", *(f"- Not measured: {missing.name}: {missing.reason.splitlines()[0]}" for missing in results.missing)]
    return "\n".join(parts).rstrip() + "\n"


def markdown_table(header: Row, rows: Sequence[Row]) -> list[str]:
    """Return the lines of a Markdown table.

    >>> markdown_table(["a", "b"], [["1", "2"]])
    ['| a | b |', '|---|---|', '| 1 | 2 |']
    """
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *("| " + " | ".join(row) + " |" for row in rows)]


def number(value: float) -> str:
    """Return a number with three or four significant digits.

    >>> number(0.01234), number(7.5), number(412.34), number(2412345.6)
    ('0.0123', '7.50', '412', '2,412,346')
    """
    size = abs(value)
    if size >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 1 else f"{value:.3g}"


def _span(values: Spread) -> str:
    return f"{number(values.low)} - {number(values.high)}"


def _measured_rows(item: Measured) -> list[Row]:
    name = f"{item.group} {item.name}"
    return [(name, figure.label, number(s.median), _span(s), figure.unit, str(s.runs)) for figure, s in item.figures]


def _pairing_row(item: Pairing) -> Row:
    pairwise = f"{number(item.time.pairwise.median)} ({_span(item.time.pairwise)})"
    own, other = item.own_ns, item.peer_ns
    times = (number(own.median), _span(own), number(other.median), _span(other))
    return (f"{item.work} (per {item.unit})", item.peer, *times, number(item.time.of_medians), pairwise, number(item.speed))


def _verdict_row(verdict: Verdict) -> Row:
    target = verdict.target
    value = "" if verdict.value is None else f"{number(verdict.value)}{target.unit}"
    return (target.work, target.what, target.bound_text, value, verdict.text, verdict.detail)
