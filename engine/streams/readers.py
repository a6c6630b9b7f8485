"""Makes typed rows of the values of tuples, by the names of their fields, mostly without Python code for each row."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar, Final, TypeAlias, get_origin

from engine.api import Fields
from engine.api.fields import short_repr
from engine.errors import error_as_text
from engine.kernel import as_class
from engine.names import did_you_mean
from engine.streams.rows import ROW, Failed, RowMisfit
from engine.streams.shapes import Shape, shape_of, type_name
from engine.streams.steps import Batch, Step

VALUE: Final = "value"
"""Field of which `flow.stream(..., value=...)` makes a row, as Kafka spouts have it."""
Read: TypeAlias = Callable[[list[tuple[Any, ...]]], list[Any]]
"""Returns the rows for the values of tuples."""


def fields_fault(shape: Shape | None, row_type: Any, fields: Sequence[str]) -> str | None:
    """Return why the fields of a stream can never become this row, None if they can."""
    if len(fields) == 1 and (shape is None or not shape.required <= {*fields}):
        return None  # the one value may be the row
    if shape is None:
        if row_type is Any or row_type is object:
            return None
        return f"has the fields {', '.join(fields) or '(none)'}, which are no {type_name(row_type)}. Name a type with these fields."
    missing = sorted(shape.required - {*fields})
    if not missing:
        return None
    return f"has no field {missing[0]!r} for {type_name(row_type)} (it has: {', '.join(fields)}). {did_you_mean(missing[0], fields)}"


def value_fault(fields: Sequence[str]) -> str | None:
    """Return why a stream has no value to decode, None if it has."""
    if VALUE in fields or len(fields) == 1:
        return None
    return f"has no field {VALUE!r}, of which value=... could make a row (it has: {', '.join(fields)}). Leave value out."


def value_reader(where: str, value: Callable[[Any], Any], fields: Sequence[str]) -> Read:
    """Return a function that makes the rows of one field."""
    fault = value_fault(fields)
    if fault is not None:
        raise RowMisfit(f"{where} {fault}")
    at = fields.index(VALUE) if VALUE in fields else 0
    return partial(_decoded, f"{where}: field {fields[at]!r}", value, at)


def _decoded(where: str, value: Callable[[Any], Any], at: int, values: list[tuple[Any, ...]]) -> list[Any]:
    rows = []
    for each in values:
        try:
            rows.append(value(each[at]))
        except Exception as error:
            text = error.message if isinstance(error, RowMisfit) else f"{short_repr(each[at])}: {error_as_text(error)}"
            raise RowMisfit(f"{where}: {text}") from error
    return rows


def reader(where: str, row_type: Any, fields: Sequence[str]) -> Read:
    """Return a function that makes the rows. It raises RowMisfit for a value that does not fit. where: beginning of its text."""
    shape = shape_of(row_type)
    fault = fields_fault(shape, row_type, fields)
    if fault is not None:
        raise RowMisfit(f"{where} {fault}")
    if shape is None and (row_type is Any or row_type is object):
        return (lambda values: [value for (value,) in values]) if len(fields) == 1 else list
    if shape is None:
        return partial(_atoms, f"{where}: field {fields[0]!r}", row_type)
    if len(fields) == 1 and not shape.required <= {*fields}:
        return partial(_rows_in_field, f"{where}: field {fields[0]!r}", row_type, shape)
    by_name = _by_name(where, shape, fields)
    if len(fields) == 1:
        return partial(_rows_or_values, row_type, shape, by_name)
    return by_name


def _by_name(where: str, shape: Shape, fields: Sequence[str]) -> Read:
    """Return the reader of rows whose fields have the names of the stream's fields."""
    row_type = shape.row_type
    taken = [name for name in shape.names if name in fields]
    positions = [fields.index(name) for name in taken]
    if shape.is_tuple and len(taken) == len(shape.names):
        if positions == list(range(len(fields))):
            return partial(as_class, row_type)
        if len(positions) > 1:
            get = itemgetter(*positions)
            return lambda values: as_class(row_type, list(map(get, values)))
    return partial(_made, where, shape, taken, positions)


def _made(where: str, shape: Shape, names: list[str], positions: list[int], values: list[tuple[Any, ...]]) -> list[Any]:
    pick: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    pick = itemgetter(*positions) if len(positions) > 1 else lambda each: tuple([each[at] for at in positions])
    rows = []
    for each in values:
        try:
            rows.append(shape.make(dict(zip(names, pick(each), strict=True))))
        except (ValueError, TypeError) as error:
            raise RowMisfit(f"{where}: {short_repr(each)} is no {type_name(shape.row_type)}: {error}") from error
    return rows


def _atoms(where: str, row_type: Any, values: list[tuple[Any, ...]]) -> list[Any]:
    kind = get_origin(row_type) or row_type
    rows = [value for (value,) in values]
    if not isinstance(kind, type) or set(map(type, rows)) <= {kind}:
        return rows
    for row in rows:
        if not isinstance(row, kind):
            raise RowMisfit(f"{where} is {short_repr(row)} ({type(row).__name__}), which is no {type_name(row_type)}")
    return rows


def _rows_in_field(where: str, row_type: Any, shape: Shape, values: list[tuple[Any, ...]]) -> list[Any]:
    """Take the values of the only field as rows. Those of a TypedDict are dicts."""
    return _atoms(where, dict if shape.make is dict else row_type, values)


def _rows_or_values(row_type: Any, shape: Shape, by_name: Read, values: list[tuple[Any, ...]]) -> list[Any]:
    """Take the only value of a tuple as a row, or as the value of the row's only field."""
    kind = dict if shape.make is dict else shape.row_type
    if not any(isinstance(value, kind) for (value,) in values):
        return by_name(values)
    return [each[0] if isinstance(each[0], kind) else by_name([each])[0] for each in values]


class ReadStep(Step):
    """Makes rows of the values of foreign tuples. `function`: (fields) -> Read."""

    names_itself: ClassVar[bool] = True
    _fields: Fields | None = None
    _read: Read

    def set_fields(self, fields: Fields) -> None:
        """Set the fields of the next batch, whose rows are the values of tuples."""
        if fields is not self._fields:
            self._read = self.function(fields.names)
            self._fields = fields

    def apply(self, batch: Batch) -> None:
        batch.rows = self._read(batch.rows)


class FailedRows:
    """Returns the reader of the rows that a stage has diverted (SV-14). Can be pickled."""

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def __call__(self, fields: Sequence[str]) -> Read:
        return self._read

    def _read(self, values: list[tuple[Any, ...]]) -> list[Failed[Any]]:
        return [Failed(_row_of(given), error, attempts, self._stage) for _, _, error, attempts, given in values]


def _row_of(values: dict[str, Any]) -> Any:
    """Return the row of an input. The input of a source's rows is a dict of its fields."""
    return values.get(ROW, values)


class SourceRows:
    """Returns the reader of the rows of a source, or of a bolt in the middle of a flow. Can be pickled.

    A source whose values are decoded may be replaced in a test by one that has the fields of the rows.
    """

    def __init__(self, where: str, row_type: Any, value: Callable[[Any], Any] | None = None) -> None:
        self._where = where
        self._row_type = row_type
        self._value = value

    def __call__(self, fields: Sequence[str]) -> Read:
        if self._value is not None and value_fault(fields) is None:
            return value_reader(self._where, self._value, fields)
        return reader(self._where, self._row_type, fields)
