"""Spark's values for databases: the types that a database's sink takes, and the text of values for which SQL has no type.

Values travel as Arrow, where dates and times are plain numbers. The conversions work on these numbers, because Python's dates end at the
years 1 and 9999 and Spark's do not.
"""

import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from spark_bridge.sinks.batch import SinkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

Convert = Callable[[Any], Any]

EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
LAST_ORDINAL: Final = date.max.toordinal()
CYCLE_DAYS: Final = 146_097
"""Days of 400 years, after which the Gregorian calendar repeats itself."""
DAY_MICROS: Final = 86_400_000_000
EPOCH: Final = {True: datetime(1970, 1, 1, tzinfo=UTC), False: datetime(1970, 1, 1)}
SIMPLE_TYPES: Final = frozenset(
    {
        *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "char", "varchar", "binary"),
        *("date", "time", "timestamp", "timestamp_ntz", "interval day to second", "interval year to month", "void"),
    }
)
"""Names of the simple types that a database's sink takes."""


def simple_name(kind: "DataType") -> str:
    """Return the name of a type without its parameters. All intervals of days and shorter have one name, and all longer ones another."""
    from pyspark.sql.types import DayTimeIntervalType, YearMonthIntervalType

    if isinstance(kind, YearMonthIntervalType):
        return "interval year to month"
    if isinstance(kind, DayTimeIntervalType):
        return "interval day to second"
    return kind.simpleString().partition("(")[0].partition(" ")[0]


def with_arrow_types(df: "DataFrame", where: str) -> "DataFrame":
    """Return the rows with types that Arrow has. Raise SinkError for a column that the sink cannot store. `where`: sink, for the error.

    Intervals of months become integers. A type without values but NULL becomes a text.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import IntegerType, YearMonthIntervalType

    columns = {}
    for number, column in enumerate(df.schema):
        check_type(column.dataType, column.name, where)
        stored = _replaced(column.dataType, IntegerType())
        if stored != column.dataType:  # Spark casts an interval of months to an integer, but not one of years and months
            months = _replaced(column.dataType, YearMonthIntervalType(YearMonthIntervalType.MONTH))
            columns[number] = F.col(f"c{number}").cast(months).cast(stored)
    if not columns:
        return df
    numbered = df.toDF(*(f"c{number}" for number in range(len(df.columns))))  # a name in F.col would be parsed
    chosen = [columns.get(number, F.col(f"c{number}")) for number in range(len(df.columns))]
    return numbered.select(*chosen).toDF(*df.columns)


def check_type(kind: "DataType", column: str, where: str) -> None:
    """Raise SinkError if a type, or a type inside it, cannot be stored."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, ArrayType):
        check_type(kind.elementType, f"{column}.element", where)
    elif isinstance(kind, MapType):
        check_type(kind.keyType, f"{column}.key", where)
        check_type(kind.valueType, f"{column}.value", where)
    elif isinstance(kind, StructType):
        if len(set(kind.names)) < len(kind.names):
            text = f"{where}: column {column!r} is a struct with two fields of one name ({', '.join(kind.names)})"
            raise SinkError(text, hint="Rename one of them in the query.")
        for inner in kind:
            check_type(inner.dataType, f"{column}.{inner.name}", where)
    elif simple_name(kind) not in SIMPLE_TYPES:
        text = f"{where}: column {column!r} has the type {kind.simpleString()}, which this sink cannot store"
        raise SinkError(text, hint="Convert it in the query, to_json(column) for a variant, cast('string') otherwise, or leave it out.")


def _replaced(kind: "DataType", months: "DataType") -> "DataType":
    """Return a type with `months` in place of intervals of years and months, and with texts in place of types that have only NULL."""
    from pyspark.sql.types import ArrayType, MapType, NullType, StringType, StructField, StructType, YearMonthIntervalType

    if isinstance(kind, YearMonthIntervalType):
        return months
    if isinstance(kind, NullType):
        return StringType()
    if isinstance(kind, ArrayType):
        return ArrayType(_replaced(kind.elementType, months), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(_replaced(kind.keyType, months), _replaced(kind.valueType, months), kind.valueContainsNull)
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, _replaced(each.dataType, months), each.nullable) for each in kind])
    return kind


def plain(column: Any) -> Any:
    """Return an Arrow column with numbers in place of dates, times and durations: days, and otherwise microseconds (a time of day may
    have nanoseconds, as its type says)."""
    kind = plain_type(column.type)
    return column if kind == column.type else column.cast(kind)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of `plain`'s result."""
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_temporal(kind):
        return pa.int64()
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, plain_type(each.type), each.nullable) for each in kind])
    return kind


def json_texts(column: Any) -> Iterator[str | None]:
    """Return the values of an Arrow column as JSON. A map becomes a list of pairs, because its keys may have any type."""
    convert = json_converter(column.type)
    return (None if value is None else json.dumps(convert(value)) for value in plain(column).to_pylist())


def texts(column: Any) -> Iterator[Any]:
    """Return the values of an Arrow column without nested types as JSON has them, but not inside of JSON."""
    convert = json_converter(column.type)
    return (None if value is None else convert(value) for value in plain(column).to_pylist())


def json_converter(kind: pa.DataType) -> Convert:
    """Return the conversion of a plain value, not None, to one that JSON has. Durations stay numbers of microseconds."""
    if pa.types.is_map(kind):
        key, item = _or_none(kind.key_type), _or_none(kind.item_type)
        return lambda pairs: [[key(name), item(value)] for name, value in pairs]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _or_none(kind.value_type)
        return lambda values: [element(value) for value in values]
    if pa.types.is_struct(kind):
        fields = {each.name: _or_none(each.type) for each in kind}
        return lambda values: {name: convert(values[name]) for name, convert in fields.items()}
    return next((convert for is_kind, convert in CONVERSIONS if is_kind(kind)), _same)


def _or_none(kind: pa.DataType) -> Convert:
    convert = json_converter(kind)
    return convert if convert is _same else lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def number_or_name(value: float) -> float | str:
    """Return a number, or the name of a value that JSON has no number for.

    >>> number_or_name(1.5), number_or_name(math.nan), number_or_name(-math.inf)
    (1.5, 'NaN', '-Infinity')
    """
    if math.isfinite(value):
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def date_text(days: int) -> str:
    """Return a day, counted from 1970, in the form of ISO 8601. Years outside of 0000 to 9999 have a sign.

    >>> date_text(0), date_text(-719163), date_text(-800000), date_text(2932897)
    ('1970-01-01', '0000-12-31', '-0221-09-04', '+10000-01-01')
    """
    ordinal = days + EPOCH_ORDINAL
    if 0 < ordinal <= LAST_ORDINAL:
        return date.fromordinal(ordinal).isoformat()
    cycles, rest = divmod(ordinal - 1, CYCLE_DAYS)
    day = date.fromordinal(rest + 1)
    year = day.year + 400 * cycles
    return f"{year:04}-{day:%m-%d}" if 0 <= year <= 9999 else f"{year:+05}-{day:%m-%d}"


def timestamp_text(micros: int, *, is_utc: bool) -> str:
    """Return a time, in microseconds from 1970. `is_utc`: it is a moment, and the text ends with the offset of UTC.

    >>> timestamp_text(-1, is_utc=True), timestamp_text(253402300800000000, is_utc=False)
    ('1969-12-31 23:59:59.999999+00:00', '+10000-01-01 00:00:00')
    """
    try:
        return (EPOCH[is_utc] + timedelta(microseconds=micros)).isoformat(sep=" ")
    except OverflowError:
        days, rest = divmod(micros, DAY_MICROS)
        return f"{date_text(days)} {time_text(rest)}{'+00:00' if is_utc else ''}"


def time_text(micros: int) -> str:
    """Return a time of day, in microseconds from midnight.

    >>> time_text(1), time_text(DAY_MICROS - 1000000)
    ('00:00:00.000001', '23:59:59')
    """
    return (datetime.min + timedelta(microseconds=micros)).time().isoformat()


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


CONVERSIONS: Final[Iterable[tuple[Callable[[pa.DataType], bool], Convert]]] = (
    (pa.types.is_floating, number_or_name),
    (pa.types.is_decimal, str),
    (_is_binary, lambda value: b64encode(value).decode()),
    (pa.types.is_date32, date_text),
    (lambda kind: pa.types.is_time(kind) and kind.unit == "ns", lambda nanos: time_text(nanos // 1000)),
    (pa.types.is_time, time_text),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is None, lambda micros: timestamp_text(micros, is_utc=False)),
    (pa.types.is_timestamp, lambda micros: timestamp_text(micros, is_utc=True)),
)
"""Conversions of plain values by their Arrow type. Other values stay the same."""
