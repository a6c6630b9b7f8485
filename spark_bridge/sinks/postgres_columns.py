"""Columns on their way to PostgreSQL: the form in which Spark writes them to the staging table, and the SQL that makes the values of it.

Spark's own JDBC writer sends dates through Java's calendar, which knows no days from 1582-10-05 to 1582-10-14, and has no way for
intervals, times, maps, structs, or arrays of binary values. So these travel as numbers or as text, and PostgreSQL makes the values.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from spark_bridge.sinks.batch import SinkError
from spark_bridge.sinks.values import DAY_MICROS, simple_name

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

LONGEST_NAME: Final = 63
"""Bytes of a name that PostgreSQL keeps. It cuts longer names."""
LENGTH: Final = f"(({{0}} / {DAY_MICROS}) * interval '1 day' + ({{0}} % {DAY_MICROS}) * interval '1 microsecond')"
"""Interval of a number of microseconds. PostgreSQL multiplies intervals by floats, and both of these stay exact."""


class ColumnType(NamedTuple):
    """How values of a type of Spark reach PostgreSQL."""

    sql: str
    """Type in PostgreSQL, as `format_type` prints it."""
    staged: str | None = None
    """Spark's type in the staging table. None for the type itself."""
    value: str = "{0}"
    """SQL that makes the value of the staged column."""


TYPES: Final = {
    "boolean": ColumnType("boolean"),
    "tinyint": ColumnType("smallint"),
    "smallint": ColumnType("smallint"),
    "int": ColumnType("integer"),
    "bigint": ColumnType("bigint"),
    "float": ColumnType("real"),
    "double": ColumnType("double precision"),
    "string": ColumnType("text"),
    "char": ColumnType("text", "string"),
    "varchar": ColumnType("text", "string"),
    "void": ColumnType("text", "string"),
    "binary": ColumnType("bytea"),
    "date": ColumnType("date", "int", "(date '1970-01-01' + {0})"),
    "time": ColumnType("time without time zone", "string", "{0}::time"),
    "timestamp": ColumnType("timestamp with time zone", "bigint", f"((timestamp 'epoch' + {LENGTH}) AT TIME ZONE 'UTC')"),
    "timestamp_ntz": ColumnType("timestamp without time zone", "bigint", f"(timestamp 'epoch' + {LENGTH})"),
    "interval day to second": ColumnType("interval", "bigint", LENGTH),
    "interval year to month": ColumnType("interval", "int", "({0} * interval '1 month')"),
}
"""By Spark's name of a type."""
JSON: Final = ColumnType("json", "string", "{0}::json")
BINARY_IN_ARRAY: Final = ColumnType("bytea", "string", "decode({0}, 'base64')")


def staged_name(number: int) -> str:
    """Return the name of a column in the staging table. Names of the query may be too long for PostgreSQL, or differ in their case only."""
    return f"c{number}"


def staged_type(kind: "DataType") -> "DataType":
    """Return the type of a column in the staging table."""
    from pyspark.sql.types import ArrayType, DataType

    inner = _inner(kind)
    staged = inner if (name := _column_type(kind).staged) is None else DataType.fromDDL(name)
    return ArrayType(staged) if _is_simple_array(kind) else staged


def sql_type(kind: "DataType") -> str:
    """Return the type of a column in a new table.

    >>> from pyspark.sql.types import ArrayType, DecimalType
    >>> sql_type(ArrayType(DecimalType(3, 2)))
    'numeric(3,2)[]'
    """
    return f"{_column_type(kind).sql}[]" if _is_simple_array(kind) else _column_type(kind).sql


def expression(kind: "DataType", column: str) -> str:
    """Return the SQL that makes the value of a staged column.

    >>> from pyspark.sql.types import DateType, LongType
    >>> expression(LongType(), "c0"), expression(DateType(), "c1")
    ('c0', "(date '1970-01-01' + c1)")
    """
    value = _column_type(kind).value
    if value == "{0}" or not _is_simple_array(kind):
        return value.format(column)
    elements = f"SELECT {value.format('value')} FROM unnest({column}) WITH ORDINALITY AS staged (value, place) ORDER BY place"
    return f"CASE WHEN {column} IS NOT NULL THEN ARRAY({elements}) END"


def _column_type(kind: "DataType") -> ColumnType:
    """Return how a type is stored. For an array of simple values: how its elements are."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    inner = _inner(kind)
    if isinstance(inner, (ArrayType, MapType, StructType)):
        return JSON
    if isinstance(inner, DecimalType):
        return ColumnType(f"numeric({inner.precision},{inner.scale})")
    name = simple_name(inner)
    return BINARY_IN_ARRAY if name == "binary" and _is_simple_array(kind) else TYPES[name]


def _inner(kind: "DataType") -> "DataType":
    from pyspark.sql.types import ArrayType

    return kind.elementType if _is_simple_array(kind) and isinstance(kind, ArrayType) else kind


def _is_simple_array(kind: "DataType") -> bool:
    """Tell whether a type becomes an array. An array of arrays becomes JSON, because PostgreSQL's must be rectangular."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    return isinstance(kind, ArrayType) and not isinstance(kind.elementType, (ArrayType, MapType, StructType))


def check_names(where: str, names: list[str], key: tuple[str, ...]) -> None:
    """Raise SinkError for a column with a name that PostgreSQL would cut or refuse, and for a key that is no column."""
    for name in names:
        if not 0 < len(name.encode()) <= LONGEST_NAME or "\0" in name:
            text = f"{where}: {name!r} cannot be the name of a column: PostgreSQL's names have 1 to {LONGEST_NAME} bytes, none of them 0"
            raise SinkError(text, hint="Rename the column in the query.")
    if twice := [name for name in names if names.count(name) > 1]:
        raise SinkError(f"{where}: the query has two columns {twice[0]!r}", hint="Rename one of them, or leave it out.")
    if missing := [name for name in key if name not in names]:
        text = f"{where}: the key has the column {missing[0]!r}, and the query has not (its columns are {', '.join(names)})"
        raise SinkError(text, hint="Correct `key`, or add the column to the query.")
