"""Columns of SQLite that change values without an error.

A column of an existing table has a type affinity, which converts values to its own kind even if digits get lost. And a key of one integer
column gets numbers in place of NULL.
"""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, Final

from spark_bridge.sinks.batch import SinkError

RULES: Final = (
    *(("INT", "INTEGER"), ("CHAR", "TEXT"), ("CLOB", "TEXT"), ("TEXT", "TEXT"), ("BLOB", "BLOB")),
    *(("REAL", "REAL"), ("FLOA", "REAL"), ("DOUB", "REAL")),
)
"""Parts of a declared type and the affinity that they give. The first one that matches counts."""
NUMBER: Final = re.compile(r"[ \t\n\v\f\r]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[ \t\n\v\f\r]*", re.ASCII)
"""A text that SQLite converts to a number in a column of numbers."""
EXACT_INTEGERS: Final = 2**53
MOST_SHOWN: Final = 100


def affinity_of(declared: str) -> str:
    """Return the affinity of a declared type.

    >>> affinity_of("varchar(9)"), affinity_of("STRING"), affinity_of("")
    ('TEXT', 'NUMERIC', 'BLOB')
    """
    return next((affinity for part, affinity in RULES if part in declared.upper()), "NUMERIC") if declared else "BLOB"


def kept_values(values: Iterable[Any], declared: str, where: str, *, is_decimal: bool) -> Iterator[Any]:
    """Return the values. Raise SinkError for one that a column would change. `where`: table and column. `is_decimal`: texts are numbers."""
    affinity = affinity_of(declared)
    for value in values:
        if value is not None and is_changed(value, affinity, is_decimal=is_decimal):
            shown = repr(value) if len(repr(value)) <= MOST_SHOWN else f"{repr(value)[:MOST_SHOWN]}..."
            text = f"{where} is declared as {declared or 'nothing'}, which would change the value {shown}"
            raise SinkError(text, hint="Write to a column with a fitting type, or convert the value in the query.")
        yield value


def numbered_column(columns: Iterable[tuple[Any, ...]]) -> str | None:
    """Return the column that names the rows, in which SQLite puts a new number for NULL. `columns`: the rows of PRAGMA table_info.

    >>> numbered_column([(0, "id", "INTEGER", 0, None, 1), (1, "word", "TEXT", 0, None, 0)])
    'id'
    """
    keys = [(name, declared) for _, name, declared, _, _, place in columns if place]
    return keys[0][0] if len(keys) == 1 and keys[0][1].upper() == "INTEGER" else None


def without_null(values: Iterable[Any], where: str) -> Iterator[Any]:
    """Return the values. Raise SinkError for NULL. `where`: table and column."""
    for value in values:
        if value is None:
            text = f"{where} is the key of the table, and its value NULL would become a number"
            raise SinkError(text, hint="Give it a value in the query with coalesce(), or leave the row out.")
        yield value


def is_changed(value: Any, affinity: str, *, is_decimal: bool) -> bool:
    """Tell whether a column with this affinity would give back another value than it got."""
    if isinstance(value, str):
        return (
            affinity in ("INTEGER", "REAL", "NUMERIC") and bool(NUMBER.fullmatch(value)) and _loses(value, affinity, is_decimal=is_decimal)
        )
    if isinstance(value, float):
        return affinity == "TEXT" and float(f"{value:.15g}") != value  # SQLite prints 15 digits
    return isinstance(value, int) and affinity == "REAL" and abs(value) > EXACT_INTEGERS


def _loses(text: str, affinity: str, *, is_decimal: bool) -> bool:
    number: float | int = float(text)
    if affinity != "REAL" and abs(number) < 2**63 and number == int(number):
        number = int(text) if text.strip().lstrip("+-").isdigit() else int(number)
    return Decimal(repr(number)) != Decimal(text.strip()) if is_decimal else str(number) != text
