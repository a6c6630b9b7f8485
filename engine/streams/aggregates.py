"""Reductions of the rows of one key to a value: `initial`, `add`, `merge` and `result`, and the form in which a state keeps it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from engine.streams.calls import Call
from engine.streams.shapes import as_stored, converter


class Aggregate:
    """Reduces rows. A value between two rows is `None` before the first one."""

    kind: ClassVar[str]
    """Name of the method of the stream. It is stored, because values of another kind would mean nothing."""
    keeps_rows: ClassVar[bool] = False
    """True: the value has rows, which are stored as their fields."""

    def __init__(self, function: Callable[..., Any] | None) -> None:
        self.function: Any = function
        self._load = converter(Any, "stored")

    def set_row_type(self, row_type: Any) -> None:
        """Set the type of the rows that a stored value has."""
        self._load = converter(row_type, "stored")

    def add(self, value: Any, row: Any) -> Any:
        """Return the value with one more row."""
        raise NotImplementedError

    def merge(self, value: Any, other: Any) -> Any:
        """Return the value of the rows of two values."""
        raise NotImplementedError

    def result(self, value: Any) -> Any:
        """Return what the value means to the user."""
        return value

    def stored(self, value: Any) -> Any:
        """Return the form of a value that a state can store."""
        return as_stored(value) if self.keeps_rows else value

    def loaded(self, stored: Any) -> Any:
        """Return the value of a stored form. Raises Misfit if its rows are of another type."""
        return self._load(stored) if self.keeps_rows else stored


class Count(Aggregate):
    """The number of rows."""

    kind = "count"

    def add(self, value: int | None, row: Any) -> int:
        return (value or 0) + 1

    def merge(self, value: int, other: int) -> int:
        return value + other


class Reduce(Aggregate):
    """Rows reduced to one by the user's function."""

    kind = "reduce"
    keeps_rows = True

    def add(self, value: Any, row: Any) -> Any:
        return row if value is None else self.function(value, row)

    def merge(self, value: Any, other: Any) -> Any:
        return self.function(value, other)


class Sum(Aggregate):
    """The sum of a number of each row."""

    kind = "sum"

    def add(self, value: Any, row: Any) -> Any:
        number = self.function(row)
        return number if value is None else value + number

    def merge(self, value: Any, other: Any) -> Any:
        return value + other


class Mean(Aggregate):
    """The mean of a number of each row. Its value is (sum, number of rows)."""

    kind = "mean"

    def add(self, value: Any, row: Any) -> tuple[Any, int]:
        total, count = value or (0, 0)
        return total + self.function(row), count + 1

    def merge(self, value: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
        return value[0] + other[0], value[1] + other[1]

    def result(self, value: tuple[Any, int]) -> Any:
        return value[0] / value[1]


class Min(Aggregate):
    """The least value of each row."""

    kind = "min"

    def add(self, value: Any, row: Any) -> Any:
        each = self.function(row)
        return each if value is None or each < value else value

    def merge(self, value: Any, other: Any) -> Any:
        return other if other < value else value


class Max(Aggregate):
    """The greatest value of each row."""

    kind = "max"

    def add(self, value: Any, row: Any) -> Any:
        each = self.function(row)
        return each if value is None or each > value else value

    def merge(self, value: Any, other: Any) -> Any:
        return other if other > value else value


class MaxBy(Aggregate):
    """The row with the greatest value. Of equal ones the first."""

    kind = "max_by"
    keeps_rows = True

    def add(self, value: Any, row: Any) -> Any:
        return row if value is None or self.function(row) > self.function(value) else value

    def merge(self, value: Any, other: Any) -> Any:
        return other if self.function(other) > self.function(value) else value


class Collect(Aggregate):
    """All rows, in a list."""

    kind = "collect"
    keeps_rows = True

    def set_row_type(self, row_type: Any) -> None:
        super().set_row_type(list[row_type])

    def add(self, value: list[Any] | None, row: Any) -> list[Any]:
        return [*(value or ()), row]

    def merge(self, value: list[Any], other: list[Any]) -> list[Any]:
        return value + other


class Custom(Aggregate):
    """An aggregate of the user (`engine.streams.Aggregate`). Its accumulators are values that a state can store."""

    kind = "aggregate"

    def add(self, value: Any, row: Any) -> Any:
        return self.function.add(self.function.initial() if value is None else value, row)

    def merge(self, value: Any, other: Any) -> Any:
        return self.function.merge(value, other)

    def result(self, value: Any) -> Any:
        return self.function.result(value)


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """An aggregate before it has a task. It can be pickled if the user's function can."""

    kind: type[Aggregate]
    call: Call | None
    row_type: Any = None
    """Type of the rows that the value keeps. None: unknown."""

    def live(self, function: Callable[..., Any] | None) -> Aggregate:
        """Return the aggregate of a task that calls this function."""
        made = self.kind(function)
        if self.row_type is not None:
            made.set_row_type(self.row_type)
        return made
