"""Rows on their way to PostgreSQL: their staged form, and the values that PostgreSQL cannot store. Runs on executors."""

import codecs
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_bridge.sinks.batch import SinkError
from spark_bridge.sinks.values import DAY_MICROS, date_text, json_converter, json_texts, plain, texts, timestamp_text

PART: Final = "stormcell_part"
ATTEMPT: Final = "stormcell_attempt"
"""Columns of the staging table. If Spark repeats a task after its commit, its rows are there twice, and one attempt is inserted."""
ROW: Final = "stormcell_row"
"""Column of the staging table with the number of a row in its task, if the sink has a key."""
REASON: Final = "stormcell_reason"
REJECTED: Final = "stormcell_rejected"
"""Columns of the staging table, if rows are rejected: why, and the row as JSON. The columns of the query are then NULL."""
FIRST_DAY: Final = -2_440_588
LAST_DAY: Final = 2_145_042_905
FIRST_MICROS: Final = FIRST_DAY * DAY_MICROS
MOST_SHOWN: Final = 100
"""Characters of a value in an error."""
HINT: Final = 'Change the value in the query, leave the row out with where(), or write Postgres(..., on_bad_row="reject").'


@dataclass(frozen=True)
class Staging:
    """Converts the rows of a task to their staged form."""

    names: tuple[str, ...]
    """Columns of the query."""
    encoding: str
    """Encoding of the database, as PostgreSQL calls it."""
    rejects: bool
    numbers: bool
    """Add the number of each row."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        ids, begin = (context.partitionId(), context.taskAttemptId()), 0
        for batch in batches:
            for staged in self._staged(batch):
                marks = [pa.repeat(pa.scalar(value, pa.int64()), staged.num_rows) for value in ids]
                if self.numbers:
                    marks.append(pa.array(range(begin, begin + staged.num_rows), pa.int64()))
                begin += staged.num_rows
                names = [*staged.schema.names, *self.marks()]
                yield pa.RecordBatch.from_arrays([*staged.columns, *marks], names=names)

    def marks(self) -> tuple[str, ...]:
        """Return the columns of numbers that are added."""
        return (PART, ATTEMPT, ROW) if self.numbers else (PART, ATTEMPT)

    def _staged(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the rows that PostgreSQL can store, and then the others, if they are rejected. Raise SinkError otherwise."""
        reasons: dict[int, str] = {}
        for name, column in zip(self.names, batch.columns, strict=True):
            for row, reason in faults(column, self.encoding):
                reasons.setdefault(row, f"column {name!r} has the value {reason}")
        if reasons and not self.rejects:
            raise SinkError(reasons[min(reasons)], hint=HINT)
        bad = sorted(reasons)
        good = batch.filter(pa.array([row not in reasons for row in range(batch.num_rows)])) if bad else batch
        columns = [stage(column) for column in good.columns]
        if not self.rejects:
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
            return
        names = [*batch.schema.names, REASON, REJECTED]
        yield pa.RecordBatch.from_arrays([*columns, *(pa.nulls(good.num_rows, pa.string()) for _ in range(2))], names=names)
        nothing = [pa.nulls(len(bad), column.type) for column in columns]
        rejected = batch.take(pa.array(bad, pa.int64()))
        why = [pa.array([reasons[row] for row in bad], pa.string()), pa.array(self._rows_as_json(rejected), pa.string())]
        yield pa.RecordBatch.from_arrays([*nothing, *why], names=names)

    def _rows_as_json(self, batch: pa.RecordBatch) -> Iterator[str]:
        converts = [json_converter(column.type) for column in batch.columns]
        columns = [plain(column).to_pylist() for column in batch.columns]
        for row in zip(*columns, strict=True):
            values = (None if value is None else convert(value) for convert, value in zip(converts, row, strict=True))
            yield json.dumps(dict(zip(self.names, values, strict=True)))


def stage(column: pa.Array) -> pa.Array:
    """Return a column in its staged form."""
    kind = column.type
    if is_json(kind):
        return pa.array(json_texts(column), pa.string())
    is_array = pa.types.is_nested(kind)
    inner = kind.value_type if is_array else kind
    if pa.types.is_time(inner) or (is_array and (pa.types.is_binary(inner) or pa.types.is_large_binary(inner))):
        return pa.array(texts(column), pa.list_(pa.string()) if is_array else pa.string())
    return plain(column)


def is_json(kind: pa.DataType) -> bool:
    """Tell whether a type becomes JSON: all nested types, but not an array of simple values."""
    is_array = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(pa.types.is_nested(kind) and not (is_array and not pa.types.is_nested(kind.value_type)))


def faults(column: pa.Array, encoding: str) -> Iterator[tuple[int, str]]:
    """Return the row of each value that PostgreSQL cannot store, with the value and the reason."""
    if is_json(column.type):
        return  # ASCII, without limits
    is_array = pa.types.is_nested(column.type)
    values = column.flatten() if is_array else column
    for is_refused, shown, reason in _limits(values, encoding):
        for place in pc.indices_nonzero(is_refused).to_pylist() if pc.any(is_refused).as_py() else ():
            row = pc.list_parent_indices(column)[place].as_py() if is_array else place
            yield row, f"{shown(values[place])}, and {reason}"


def _limits(values: pa.Array, encoding: str) -> Iterator[tuple[pa.Array, Any, str]]:
    """Return which values PostgreSQL cannot store, how to show one, and the reason."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield pc.match_substring(values, "\0"), _shown, "PostgreSQL's texts cannot have the character NUL ('\\x00')"
        if (codec := _codec(encoding)) is not None and not pc.all(pc.string_is_ascii(values)).as_py():
            is_refused = pa.array([value is not None and not _fits(value, codec) for value in values.to_pylist()])
            yield is_refused, _shown, f"the encoding of the database, {encoding}, does not have all of its characters"
    elif pa.types.is_date(kind):
        days = plain(values)
        is_refused = pc.or_(pc.less(days, FIRST_DAY), pc.greater(days, LAST_DAY))
        reason = "PostgreSQL's dates go from 4714-11-24 BC to 5874897-12-31"
        yield is_refused, lambda value: date_text(value.cast(pa.int32()).as_py()), reason
    elif pa.types.is_timestamp(kind):
        is_utc = kind.tz is not None
        reason = "PostgreSQL's timestamps begin with 4714-11-24 BC"
        is_refused = pc.less(plain(values), FIRST_MICROS)
        yield is_refused, lambda value: timestamp_text(value.cast(pa.int64()).as_py(), is_utc=is_utc), reason


def _codec(encoding: str) -> codecs.CodecInfo | None:
    """Return Python's codec of a database's encoding. None if it has all characters, or if Python does not know it."""
    try:
        return None if encoding == "UTF8" else codecs.lookup(encoding.replace("WIN", "cp"))
    except LookupError:
        return None


def _fits(text: str, codec: codecs.CodecInfo) -> bool:
    try:
        codec.encode(text)
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: pa.Scalar) -> str:
    text = repr(value.as_py()[: MOST_SHOWN + 1])
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
