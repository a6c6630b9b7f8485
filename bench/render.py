"""Tables for a person: by rich where it is installed, else plain columns."""

import sys
from collections.abc import Sequence

from bench.results import Measured, Pairing, Results
from bench.spread import Spread

Row = Sequence[str]


def show_table(title: str, header: Row, rows: Sequence[Row], left: int = 2) -> None:
    """Print a table whose first `left` columns are text and whose others are numbers."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(plain_table(title, header, rows, left))
        return
    table = Table(title=title, title_justify="left")
    for index, name in enumerate(header):
        table.add_column(name, justify="left" if index < left else "right", no_wrap=index >= left)
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False).print(table)


def plain_table(title: str, header: Row, rows: Sequence[Row], left: int = 2) -> str:
    """Return a table in plain text.

    >>> print(plain_table("Times", ["what", "ns"], [["emit", "70"]], left=1))
    Times
    what  ns
    emit  70
    """
    widths = [max(len(row[index]) for row in [header, *rows]) for index in range(len(header))]

    def line(row: Row) -> str:
        cells = [cell.ljust(width) if i < left else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths, strict=True))]
        return "  ".join(cells).rstrip()

    return "\n".join([title, *(line(row) for row in [header, *rows])])


def number(value: float) -> str:
    """Return a number with three or four significant digits.

    >>> number(0.01234), number(7.5), number(412.34), number(2412345.6)
    ('0.0123', '7.50', '412', '2,412,346')
    """
    size = abs(value)
    if size >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 1 else f"{value:.3g}"


def span(values: Spread) -> str:
    """Return least and greatest.

    >>> span(Spread(2.0, 1.0, 3.0, 5))
    '1.00 - 3.00'
    """
    return f"{number(values.low)} - {number(values.high)}"


def show_results(results: Results) -> None:
    """Print a table for each kind of result, and what was left out."""
    if results.measured:
        rows = [row for item in results.measured for row in measured_rows(item)]
        show_table("Measured", ["benchmark", "figure", "median", "min - max", "unit", "runs"], rows)
    if results.pairings:
        header = ["work", "peer", "stormcell ns", "min - max", "peer ns", "min - max", "time ratio", "pairwise (min - max)", "speed ratio"]
        show_table("Beside peers, in alternating runs (ratio of medians)", header, [pairing_row(item) for item in results.pairings])
    for missing in results.missing:
        print(f"not measured: {missing.group} {missing.name}: {missing.reason}")


def measured_rows(item: Measured) -> list[Row]:
    """Return one row for each figure."""
    name = f"{item.group} {item.name}"
    return [(name, figure.label, number(s.median), span(s), figure.unit, str(s.runs)) for figure, s in item.figures]


def pairing_row(item: Pairing) -> Row:
    """Return the row of one pairing; times are nanoseconds per unit."""
    pairwise = f"{number(item.time.pairwise.median)} ({span(item.time.pairwise)})"
    own, other = item.own_ns, item.peer_ns
    times = (number(own.median), span(own), number(other.median), span(other))
    return (f"{item.work} (per {item.unit})", item.peer, *times, number(item.time.of_medians), pairwise, number(item.speed))
