"""Every Spark type and every kind of Python value that a user may put there: `python -m tests.spark_bridge.writer.value_table`.

It prints the table of docs/SPARK.md. A test compares that table with what a hand-over stores.
"""

import enum
from array import array
from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy

from spark_bridge.handover import schema_of
from spark_bridge.writer.columns import Columns

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "SPARK.md"
BERLIN: Final = ZoneInfo("Europe/Berlin")
TYPES: Final = {
    "boolean": "boolean", "tinyint": "tinyint", "smallint": "smallint", "int": "int", "bigint": "bigint", "float": "float",
    "double": "double", "decimal(5,2)": "decimal(5,2)", "string": "string", "binary": "binary", "date": "date", "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz", "array": "array<int>", "map": "map<string,int>", "struct": "struct<a: int>",
}  # fmt: skip
"""Types in DDL, by their heading in the table."""
STORED: Final = "✓"
NEAREST: Final = "≈"
"""Stored as the nearest number of 32 bits, because that is what the type `float` means."""


class Level(enum.IntEnum):
    HIGH = 1


class Shade(enum.StrEnum):
    DARK = "dark"


class Colour(enum.Enum):
    RED = 1


Point = namedtuple("Point", "a")
Pair = namedtuple("Pair", "a b")


@dataclass
class Record:
    a: int


VALUES: Final = (
    "None", "True", "1", "-129", "2**15", "2**31", "2**53 + 1", "2**63", "10**5000", "Level.HIGH", "1.0", "1.5", "0.1", "-0.0", "1e300",
    "float('inf')", "float('nan')", "Decimal('1')", "Decimal('1.5')", "Decimal('1.500')", "Decimal('1.555')", "Decimal('1e3')",
    "Decimal('nan')", "'text'", "'1'", r"'\ud800'", "Shade.DARK", "b'bytes'", "bytearray(b'bytes')", "date(2026, 1, 2)",
    "datetime(2026, 1, 2, 3)", "datetime(2026, 1, 2, 3, tzinfo=UTC)", "datetime(2026, 1, 2, 3, tzinfo=BERLIN)",
    "datetime(1, 1, 1, tzinfo=BERLIN)", "time(3)", "timedelta(1)", "[]", "[1, None]", "(1,)", "[1.5]", "['a']", "{1}", "frozenset({1})",
    "range(1)", "array('i', [1])", "numpy.array([1])", "numpy.array([1.5])", "{}", "{'a': 1}", "{'a': None}", "{'a': 1.5}", "{'b': 1}",
    "{'a': 1, 'b': 2}", "{1: 1}", "{None: 1}", "[('a', 1)]", "[('a', 1), ('a', 1)]", "Point(1)", "Pair(1, 2)", "Record(1)", "Colour.RED",
    "numpy.bool_(True)", "numpy.int8(1)", "numpy.uint64(2**63)", "numpy.float32(0.1)", "numpy.float64(0.1)", "numpy.longdouble(1)",
    "numpy.str_('text')", "numpy.bytes_(b'bytes')", "numpy.datetime64('2026-01-02')", "numpy.datetime64('NaT')", "1j", "UUID(int=1)",
    "memoryview(b'bytes')", "object()",
)  # fmt: skip
"""Expressions of values, as the table shows them."""
NAMES: Final[dict[str, Any]] = {
    "array": array, "date": date, "datetime": datetime, "time": time, "timedelta": timedelta, "numpy": numpy, "Decimal": Decimal,
    "UTC": UTC, "UUID": UUID, "BERLIN": BERLIN, "Level": Level, "Shade": Shade, "Colour": Colour, "Point": Point, "Pair": Pair,
    "Record": Record,
}  # fmt: skip


def value_of(expression: str) -> Any:
    """Return a value of the table."""
    return eval(expression, dict(NAMES))


def cell(ddl: str, value: Any) -> str:
    """Return what the table says of a value in a column."""
    batches, bad = Columns(schema_of(f"x {ddl}"), [0]).convert([(value,)])
    if bad:
        return ""
    is_near = ddl == "float" and value is not None and value == value and batches[0].column(0)[0].as_py() != value
    return NEAREST if is_near else STORED


def table_lines() -> list[str]:
    """Return the table in Markdown."""
    rows = [["value", *TYPES], ["---"] * (len(TYPES) + 1)]
    for expression in VALUES:
        rows.append([f"`{expression}`", *(cell(ddl, value_of(expression)) for ddl in TYPES.values())])
    return [f"| {' | '.join(cells)} |" for cells in rows]


def published() -> dict[tuple[str, str], str]:
    """Return the cells of the table in docs/SPARK.md, by expression and heading."""
    lines = PAGE.read_text().splitlines()
    begin = lines.index(f"| value | {' | '.join(TYPES)} |") + 2
    cells: dict[tuple[str, str], str] = {}
    for line in lines[begin:]:
        if not line.startswith("|"):
            break
        expression, *texts = (text.strip() for text in line.strip("|").split("|"))
        cells |= {(expression.strip("`"), heading): text for heading, text in zip(TYPES, texts, strict=True)}
    return cells


if __name__ == "__main__":
    print("\n".join(table_lines()))
