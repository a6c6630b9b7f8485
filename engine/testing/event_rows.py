"""Values of the rows that a test feeds: typed rows, or tuples of values."""

from collections.abc import Mapping
from typing import Any, Final

from engine.api import Fields, declare_streams
from engine.errors import UsageError
from engine.names import DEFAULT_STREAM, did_you_mean
from engine.streams.shapes import shape_of, type_name

VALUE: Final = "value"
"""Field of rows that have no fields, such as `str`."""


class EventRows:
    """Turns the rows of a test into the values of tuples."""

    def __init__(self, row: tuple[Any, ...], time: str | None) -> None:
        """row: the type of the rows, or the names of their fields. time: the field that `at` sets."""
        self._type = row[0] if len(row) == 1 and not isinstance(row[0], str | Fields) else None
        self._is_atom = False
        declared: Any = row[0] if len(row) == 1 else row
        if self._type is not None:
            shape = shape_of(self._type)
            self._is_atom = shape is None
            declared = (VALUE,) if shape is None else shape.names
        self.fields: Final = declare_streams(declared)[DEFAULT_STREAM]
        if time is not None and time not in self.fields.names:
            raise UsageError(f"the rows have no field {time!r} for their times", hint=did_you_mean(time, self.fields.names))
        self._time = time

    def values(self, row: Any, at: Any) -> tuple[Any, ...]:
        """Return the values of a row. at: what stands in its field for the time. None: what the row has there."""
        values = self._values(row)
        if at is None:
            return values
        if self._time is None:
            raise UsageError("feed(at=...) does not know the field for the time", hint="Name it: Events(..., time='at').")
        index = self.fields.names.index(self._time)
        return (*values[:index], at, *values[index + 1 :])

    def _values(self, row: Any) -> tuple[Any, ...]:
        names = self.fields.names
        if self._is_atom:
            return (row,)
        if isinstance(row, tuple):
            if len(row) != len(names):
                raise UsageError(f"{row!r} has {len(row)} values, and the rows have {len(names)}: {', '.join(names)}")
            return tuple(row)
        if self._type is None:
            raise UsageError(f"{row!r} is no tuple with the values {', '.join(names)}", hint="To feed rows of a class, write Events(Row).")
        missing = [name for name in names if not (name in row if isinstance(row, Mapping) else hasattr(row, name))]
        if missing:
            raise UsageError(f"{row!r} is no {type_name(self._type)}: it has no field {missing[0]!r}")
        return tuple(row[name] if isinstance(row, Mapping) else getattr(row, name) for name in names)
