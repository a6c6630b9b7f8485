"""Values of every type of Spark, as SQL, and how another reader finds them in each sink. `Refused` has the reason instead."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple


class Refused(NamedTuple):
    """The sink refuses the value. The error has this text."""

    reason: str


class Case(NamedTuple):
    """A value, and what pyarrow finds in a Parquet file, sqlite3 in a file of SQLite, and PostgreSQL shows as text."""

    sql: str
    parquet: Any
    sqlite: Any
    postgres: Any
    delta: Any = ...
    """If it differs from `parquet`."""


NO_DELTA: Final = Refused("doesn't support the column")
MAX: Final = 2**63 - 1
EVERY_TYPE: Final = "struct<f: double, b: binary, d: date, t: timestamp, n: decimal(3,2), i: interval day to second>"

NUMBERS: Final = (
    Case("true", True, 1, "true"),
    Case("cast(null as boolean)", None, None, None),
    Case("-128Y", -128, -128, "-128"),
    Case("32767S", 32767, 32767, "32767"),
    Case("-2147483648", -(2**31), -(2**31), "-2147483648"),
    Case(f"{MAX}L", MAX, MAX, str(MAX)),
    Case(f"-{MAX}L - 1L", -MAX - 1, -MAX - 1, str(-MAX - 1)),
    Case("float('nan')", "nan", "NaN", "NaN"),
    Case("float('-inf')", float("-inf"), float("-inf"), "-Infinity"),
    Case("float('0.1')", 0.10000000149011612, 0.10000000149011612, "0.1"),
    Case("float('1e-45')", 1.401298464324817e-45, 1.401298464324817e-45, "1e-45"),
    Case("double('nan')", "nan", "NaN", "NaN"),
    Case("double('inf')", float("inf"), float("inf"), "Infinity"),
    Case("double('-0.0')", -0.0, 0.0, "-0"),  # SQLite has no negative zero: the two are equal
    Case("double('5e-324')", 5e-324, 5e-324, "5e-324"),
    Case("double('1.7976931348623157e308')", 1.7976931348623157e308, 1.7976931348623157e308, "1.7976931348623157e+308"),
    Case("1.10BD", "1.10", "1.10", "1.10"),
    Case("cast('-1e-18' as decimal(38,18))", "-1E-18", "-1E-18", "-0.000000000000000001"),
    Case(f"cast('{'9' * 38}' as decimal(38,0))", "9" * 38, "9" * 38, "9" * 38),
)
TEXTS: Final = (
    Case("''", "", "", ""),
    Case("'é日本😀'", "é日本😀", "é日本😀", "é日本😀"),
    Case("""'q\\'"`.\\\\'""", "q'\"`.\\", "q'\"`.\\", "q'\"`.\\"),
    Case("'007'", "007", "007", "007"),
    Case(
        "concat('a', char(0), 'b')",
        "a\0b",
        "a\0b",
        Refused(r"has the value 'a\x00b', and PostgreSQL's texts cannot have the character NUL"),
    ),
    Case("X'00FFC3'", b"\0\xff\xc3", b"\0\xff\xc3", "\\x00ffc3"),
    Case("X''", b"", b"", "\\x"),
)
DATES: Final = (
    *(Case(f"date'{day}'", day, day, day) for day in ("0001-01-01", "1000-02-28", "1582-10-04", "1582-10-10", "1900-01-01", "9999-12-31")),
    Case("date'0000-12-31'", "0000-12-31", "0000-12-31", "0001-12-31 BC"),
    Case("date'-0044-03-15'", "-0044-03-15", "-0044-03-15", "0045-03-15 BC"),
    Case("date'+10000-01-01'", "10000-01-01", "+10000-01-01", "10000-01-01"),
    Case("date'-4713-11-24'", "-4713-11-24", "-4713-11-24", "4714-11-24 BC"),
    Case(
        "date'-4713-11-23'",
        "-4713-11-23",
        "-4713-11-23",
        Refused("has the value -4713-11-23, and PostgreSQL's dates go from 4714-11-24 BC"),
    ),
    Case("date_from_unix_date(2145042905)", ..., "+5874897-12-31", "5874897-12-31"),
    Case("date_from_unix_date(2145042906)", ..., "+5874898-01-01", Refused("has the value +5874898-01-01, and PostgreSQL's dates")),
)
MOMENTS: Final = ("0001-01-01 00:00:00", "1582-10-10 12:00:00.000001", "1883-11-18 12:00:00", "1969-12-31 23:59:59.999999")
LAST: Final = "9999-12-31 23:59:59.999999"
TIMES: Final = (
    *(Case(f"timestamp'{each}Z'", f"{each}Z", f"{each}+00:00", f"{each}+00") for each in (*MOMENTS, LAST)),
    *(Case(f"timestamp_ntz'{each}'", each, each, each) for each in (*MOMENTS, LAST)),
    Case("timestamp'+10000-01-01 00:00:00Z'", ..., "+10000-01-01 00:00:00+00:00", "10000-01-01 00:00:00+00"),
    Case("timestamp_ntz'-0044-03-15 01:02:03.4'", "-0044-03-15 01:02:03.400000", "-0044-03-15 01:02:03.400000", "0045-03-15 01:02:03.4 BC"),
    Case(
        "timestamp_micros(-210866803200000001)",
        ...,
        "-4713-11-23 23:59:59.999999+00:00",
        Refused("has the value -4713-11-23 23:59:59.999999+00:00, and PostgreSQL's timestamps begin with 4714-11-24 BC"),
    ),
    Case("time'23:59:59.999999'", Refused("has the type time(6), which Spark cannot write"), "23:59:59.999999", "23:59:59.999999"),
    Case("interval '-1 02:03:04.000005' day to second", -93784000005, -93784000005, "-1 days -02:03:04.000005", NO_DELTA),
    Case("interval '106751991 04:00:54.775807' day to second", MAX, MAX, "106751991 days 04:00:54.775807", NO_DELTA),
    Case("interval '-178956970-8' year to month", -(2**31), -(2**31), "-178956970 years -8 mons", NO_DELTA),
    Case("interval '14' month", 14, 14, "1 year 2 mons", NO_DELTA),
    *(
        Case(sql, refused, other, other)
        for sql, refused, other in (
            ("make_interval(1, 2, 3)", Refused("has the type interval"), Refused("has the type interval, which this sink cannot store")),
            ("parse_json('[1]')", ..., Refused("has the type variant, which this sink cannot store")),
        )
    ),
)
NESTED: Final = (
    Case("array(double('nan'), double('-0.0'), null)", ["nan", -0.0, None], '["NaN", -0.0, null]', "{NaN,-0,NULL}"),
    Case("array(true, null)", [True, None], "[true, null]", "{t,NULL}"),
    Case("array(1Y, -1Y)", [1, -1], "[1, -1]", "{1,-1}"),
    Case("array(X'00FF', X'', null)", [b"\0\xff", b"", None], '["AP8=", "", null]', r'{"\\x00ff","\\x",NULL}'),
    Case(
        "array('a,\"b', char(0))",
        ['a,"b', "\0"],
        '["a,\\"b", "\\u0000"]',
        Refused(r"has the value '\x00', and PostgreSQL's texts cannot have the character NUL"),
    ),
    Case(
        "array(date'0001-01-01', date'1582-10-10')", ["0001-01-01", "1582-10-10"], '["0001-01-01", "1582-10-10"]', "{0001-01-01,1582-10-10}"
    ),
    Case(
        "array(timestamp'1582-10-10 12:00:00Z')",
        ["1582-10-10T12:00:00+00:00"],
        '["1582-10-10 12:00:00+00:00"]',
        '{"1582-10-10 12:00:00+00"}',
    ),
    Case("array(timestamp_ntz'1582-10-10 12:00:00')", ["1582-10-10T12:00:00"], '["1582-10-10 12:00:00"]', '{"1582-10-10 12:00:00"}'),
    Case("array(1.10BD, null)", ["1.10", None], '["1.10", null]', "{1.10,NULL}"),
    Case("array(interval '1' day)", [86400000000], "[86400000000]", '{"1 day"}', NO_DELTA),
    Case("array(interval '1-2' year to month)", [14], "[14]", '{"1 year 2 mons"}', NO_DELTA),
    Case("cast(array() as array<int>)", [], "[]", "{}"),
    Case("cast(array() as array<date>)", [], "[]", "{}"),
    Case("cast(null as array<date>)", None, None, None),
    Case("array(array(1, 2), array(3), array(), null)", [[1, 2], [3], [], None], "[[1, 2], [3], [], null]", "[[1, 2], [3], [], null]"),
    Case("map('a', double('inf'), 'b', null)", [("a", float("inf")), ("b", None)], '[["a", "Infinity"], ["b", null]]', ...),
    Case("map(date'0000-01-01', X'00')", ..., '[["0000-01-01", "AA=="]]', ...),
    Case("named_struct('a', 1, 'A', 'x\\0')", {"a": 1, "A": "x\0"}, '{"a": 1, "A": "x\\u0000"}', ..., Refused("duplicate column")),
    Case("named_struct('a.b', 1, '`', 2)", {"a.b": 1, "`": 2}, '{"a.b": 1, "`": 2}', ...),
    Case(
        "cast(named_struct('f', 'NaN', 'b', X'FF', 'd', '0001-01-01', 't', timestamp'0001-01-01 00:00:00Z',"
        f" 'n', 1.1, 'i', interval '1' day) as {EVERY_TYPE})",
        {"f": "nan", "b": b"\xff", "d": "0001-01-01", "t": "0001-01-01T00:00:00+00:00", "n": "1.10", "i": 86400000000},
        '{"f": "NaN", "b": "/w==", "d": "0001-01-01", "t": "0001-01-01 00:00:00+00:00", "n": "1.10", "i": 86400000000}',
        ...,
        NO_DELTA,
    ),
    Case("named_struct('a', 1, 'a', 2)", ..., Refused("is a struct with two fields of one name"), ..., Refused("duplicate column")),
    Case("map('a', interval '1-2' year to month)", [("a", 14)], '[["a", 14]]', ..., NO_DELTA),
    Case("cast(null as void)", None, None, None, ...),
)
CASES: Final = (*NUMBERS, *TEXTS, *DATES, *TIMES, *NESTED)


def found_by(kind: str, case: Case) -> Any:
    """Return what another reader finds in a sink of this kind. `...` if it is not compared."""
    if kind == "delta" and case.delta is not ...:
        return case.delta
    if kind == "postgres" and case.postgres is ...:
        return case.sqlite  # the same JSON
    return {"parquet by batch": case.parquet, "delta": case.parquet, "sqlite": case.sqlite, "postgres": case.postgres}[kind]


def normal(value: Any) -> Any:
    """Return a value of pyarrow in a form that can be compared: with texts for times, decimals and NaN."""
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Decimal) or value != value:
        return str(value)
    if isinstance(value, dict):
        return {name: normal(each) for name, each in value.items()}
    return type(value)(map(normal, value)) if isinstance(value, (list, tuple)) else value
