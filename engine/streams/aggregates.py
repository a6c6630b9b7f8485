"""How the rows of one key become a value, running or in a window, and the form in which a state keeps the value."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

from engine.api.fields import short_repr
from engine.errors import FatalError, UsageError
from engine.state.codec import Codec
from engine.streams.calls import Call
from engine.streams.rows import RowMisfit
from engine.streams.shapes import Misfit, as_stored, converter, type_name

Row = TypeVar("Row")
Acc = TypeVar("Acc")
Out = TypeVar("Out")
ROWS_PER_PART: Final = 256
REMEDY: Final = "Give the stage another name, or remove its state: python -m engine state delete."


class Aggregate(Generic[Row, Acc, Out]):
    """Base class of the user's aggregates. No method may change its arguments, because an accumulator lies in the state.

    `merge` must be associative, and its first argument covers the earlier rows of a sliding window.

    >>> class Longest(Aggregate[str, str, int]):
    ...     def initial(self): return ""
    ...     def add(self, acc, row): return max(acc, row, key=len)
    ...     def merge(self, a, b): return max(a, b, key=len)
    ...     def result(self, acc): return len(acc)
    >>> Longest().result(Longest().add("", "word"))
    4
    """

    def initial(self) -> Acc:
        """Return the accumulator of no rows."""
        raise NotImplementedError

    def add(self, acc: Acc, row: Row) -> Acc:
        """Return the accumulator with one more row."""
        raise NotImplementedError

    def merge(self, a: Acc, b: Acc) -> Acc:
        """Return the accumulator of the rows of both."""
        raise NotImplementedError

    def result(self, acc: Acc) -> Out:
        """Return what a closed window gives out."""
        raise NotImplementedError


class Reduction:
    """Reduces the rows of a key to a value, which is None before the first one. No method changes its arguments."""

    kind: ClassVar[str]
    """Name of the method of the stream. It is stored, because values of another kind would mean nothing."""
    counts: ClassVar[bool] = False
    """True: the value is the number of rows, so a burst is one `add_many` of the state."""
    keeps_rows: ClassVar[bool] = False
    """True: the value has rows, which are stored as their fields."""

    codec: Codec | None = None
    """Codec of the state. None: the value has no encoded parts."""
    gives_stored: bool
    """True: the value is in the state what it is to the user."""

    def __init__(self, function: Callable[..., Any] | None = None, stage: str = "") -> None:
        self.gives_stored = type(self).result is Reduction.result and not self.keeps_rows
        self.function: Any = function
        self.stage = stage
        self.set_row_type(Any)

    def set_row_type(self, row_type: Any) -> None:
        """Set the type of the rows that a stored value has."""
        self._row_type = row_type
        self._load_row = converter(row_type, "stored")
        self._load = converter(self._type_of_value(row_type), "stored")

    def _type_of_value(self, row_type: Any) -> Any:
        return row_type

    def add(self, value: Any, row: Any) -> Any:
        """Return the value with one more row."""
        raise NotImplementedError

    def add_all(self, value: Any, rows: list[Any]) -> Any:
        """Return the value with more rows."""
        for row in rows:
            value = self.add(value, row)
        return value

    def merge(self, value: Any, other: Any) -> Any:
        """Return the value of the rows of two values."""
        raise NotImplementedError

    def result(self, value: Any) -> Any:
        """Return what the value means to the user."""
        return value

    def kept(self, row: Any) -> Any:
        """Return a row that the value will have. Raises RowMisfit if the state could not give it back as it is."""
        try:
            again = self._load_row(as_stored(row))
        except Misfit as error:
            raise RowMisfit(f"stage {self.stage!r} cannot keep the row {short_repr(row)}: {error}") from None
        if again != row or type(again) is not type(row):
            text = f"stage {self.stage!r} cannot keep the row {short_repr(row)}: the state would give it back as {short_repr(again)}"
            raise RowMisfit(text, hint="Declare the types of all its fields.")
        return row

    def measured(self, row: Any) -> Any:
        """Return what the user's function says of a row. Raises UsageError for None, which no other value can be compared with."""
        value = self.function(row)
        if value is None:
            raise UsageError(f"{self.kind}() got None for the row {short_repr(row)}", hint="Filter such rows out before.")
        return value

    def stored(self, value: Any) -> Any:
        """Return the form of a value that a state can store."""
        return as_stored(value) if self.keeps_rows else value

    def loaded(self, stored: Any) -> Any:
        """Return the value of a stored form. Raises FatalError if its rows are of another type."""
        if not self.keeps_rows:
            return stored
        try:
            return self._load(stored)
        except Misfit as error:
            row_type = type_name(self._row_type)
            text = f"stage {self.stage!r} has stored {_version(stored)}, which is no {row_type} now: {error}"
            hint = f"Give a new field of {row_type} a default, and keep the types of its fields. {REMEDY}"
            raise FatalError(text, hint=hint) from None


class Count(Reduction):
    """The number of rows."""

    kind = "count"
    counts = True

    def add(self, value: int | None, row: Any) -> int:
        return (value or 0) + 1

    def merge(self, value: int, other: int) -> int:
        return value + other


class Reduce(Reduction):
    """Rows reduced to one by the user's function."""

    kind = "reduce"
    keeps_rows = True

    def add(self, value: Any, row: Any) -> Any:
        return self.kept(row if value is None else self._reduced(value, row))

    def merge(self, value: Any, other: Any) -> Any:
        return self._reduced(value, other)

    def _reduced(self, value: Any, other: Any) -> Any:
        reduced = self.function(value, other)
        if reduced is None:
            raise UsageError("the function of reduce() returned None", hint="Return a row, as those that it is given.")
        return reduced


class Sum(Reduction):
    """The sum of a number of each row."""

    kind = "sum"

    def add(self, value: Any, row: Any) -> Any:
        number = self.measured(row)
        return number if value is None else value + number

    def merge(self, value: Any, other: Any) -> Any:
        return value + other


class Mean(Reduction):
    """The mean of a number of each row. Its value is (sum, number of rows)."""

    kind = "mean"

    def add(self, value: Any, row: Any) -> tuple[Any, int]:
        total, count = value or (0, 0)
        return total + self.measured(row), count + 1

    def merge(self, value: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
        return value[0] + other[0], value[1] + other[1]

    def result(self, value: tuple[Any, int]) -> Any:
        return value[0] / value[1]


class Min(Reduction):
    """The least value of each row."""

    kind = "min"

    def add(self, value: Any, row: Any) -> Any:
        each = self.measured(row)
        return each if value is None or each < value else value

    def merge(self, value: Any, other: Any) -> Any:
        return other if other < value else value


class Max(Reduction):
    """The greatest value of each row."""

    kind = "max"

    def add(self, value: Any, row: Any) -> Any:
        each = self.measured(row)
        return each if value is None or each > value else value

    def merge(self, value: Any, other: Any) -> Any:
        return other if other > value else value


class MaxBy(Reduction):
    """The row with the greatest value. Of equal ones the first."""

    kind = "max_by"
    keeps_rows = True

    def add(self, value: Any, row: Any) -> Any:
        each = self.measured(row)
        return self.kept(row) if value is None or each > self.function(value) else value

    def merge(self, value: Any, other: Any) -> Any:
        return other if self.function(other) > self.function(value) else value


class Collect(Reduction):
    """All rows, in a list. The value is a list of parts with rows as they are stored. Full parts are encoded, so bursts decode few rows."""

    kind = "collect"
    keeps_rows = True

    def _type_of_value(self, row_type: Any) -> Any:
        return list[row_type]

    def add(self, value: list[Any] | None, row: Any) -> list[Any]:
        return self.add_all(value, [row])

    def add_all(self, value: list[Any] | None, rows: list[Any]) -> list[Any]:
        return self.merge(value or [], [[as_stored(self.kept(row)) for row in rows]])

    def merge(self, value: list[Any], other: list[Any]) -> list[Any]:
        parts = [*value, *other]
        if value and other and type(value[-1]) is type(other[0]) is list:
            at = len(value) - 1
            parts[at : at + 2] = self._packed([*value[-1], *other[0]])
        return parts

    def _packed(self, rows: list[Any]) -> list[Any]:
        if self.codec is None or len(rows) < ROWS_PER_PART:
            return [rows]
        return [self.codec.encode(rows)]

    def result(self, value: list[Any]) -> list[Any]:
        rows: list[Any] = []
        for part in value:
            rows += self.codec.decode(part) if type(part) is bytes and self.codec is not None else part
        found: list[Any] = super().loaded(rows)
        return found

    def stored(self, value: list[Any]) -> dict[str, list[Any]]:
        return {"parts": value}

    def loaded(self, stored: Any) -> list[Any]:
        return stored["parts"] if isinstance(stored, dict) else [stored]  # a list of rows is what an earlier version has stored


class Custom(Reduction):
    """The user's aggregate. Its accumulators are values that a state can store."""

    kind = "aggregate"

    def add(self, value: Any, row: Any) -> Any:
        return self.function.add(self.function.initial() if value is None else value, row)

    def merge(self, value: Any, other: Any) -> Any:
        return self.function.merge(value, other)

    def result(self, value: Any) -> Any:
        return self.function.result(value)


def _version(value: Any) -> str:
    """Return the fields of a stored row with their types."""
    row = value[0] if isinstance(value, list) and value else value
    if not isinstance(row, dict):
        return f"a {type(row).__name__}"
    return f"a row with {', '.join(f'{name}: {type(each).__name__}' for name, each in row.items())}"


@dataclass(frozen=True, slots=True)
class ReductionPlan:
    """A reduction before it has a task. It can be pickled if the user's function can."""

    kind: type[Reduction]
    call: Call | None
    row_type: Any = None
    """Type of the rows that the value keeps. None: unknown."""

    @property
    def description(self) -> str:
        """What a stored value is of. An aggregate of the user is named by its class."""
        of = "" if self.kind is not Custom or self.call is None else type(self.call.given).__qualname__
        return f"{self.kind.kind}({of})"

    def live(self, function: Callable[..., Any] | None, stage: str) -> Reduction:
        """Return the reduction of a task of this stage, which calls this function."""
        made = self.kind(function, stage)
        if self.row_type is not None:
            made.set_row_type(self.row_type)
        return made
