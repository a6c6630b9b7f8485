"""Aggregates of windows: how rows become an accumulator, and an accumulator a result.

No method may change its arguments, because an accumulator lies in the state, which a rollback restores.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from engine.errors import UsageError

Row = TypeVar("Row")
Acc = TypeVar("Acc")
Out = TypeVar("Out")


class Aggregate(Generic[Row, Acc, Out]):
    """Base class of aggregates. `merge` must be associative, and its first argument covers the earlier rows of a sliding window.

    >>> class Longest(Aggregate[str, str, int]):
    ...     def initial(self): return ""
    ...     def add(self, acc, row): return max(acc, row, key=len)
    ...     def merge(self, a, b): return max(a, b, key=len)
    ...     def result(self, acc): return len(acc)
    >>> Longest().result(Longest().add("", "word"))
    4
    """

    counts = False
    """True if the accumulator is the number of rows: a burst is then one `add_many` of the state."""

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


class _Function(Aggregate[Any, Any, Any]):
    """Aggregate that is made of functions. None is the accumulator of no rows."""

    def __init__(self, lift: Callable[[Any], Any], merge: Callable[[Any, Any], Any], result: Callable[[Any], Any]) -> None:
        self._lift, self._merge, self._result = lift, merge, result

    def initial(self) -> Any:
        return None

    def add(self, acc: Any, row: Any) -> Any:
        return self.merge(acc, self._lift(row))

    def merge(self, a: Any, b: Any) -> Any:
        return b if a is None else a if b is None else self._merge(a, b)

    def result(self, acc: Any) -> Any:
        return self._result(acc)


class _Count(Aggregate[Any, int, int]):
    counts = True

    def initial(self) -> int:
        return 0

    def add(self, acc: int, row: Any) -> int:
        return acc + 1

    def merge(self, a: int, b: int) -> int:
        return a + b

    def result(self, acc: int) -> int:
        return acc


def _same(value: Any) -> Any:
    return value


def _getter(field: str | Callable[[Any], Any]) -> Callable[[Any], Any]:
    if callable(field):
        return field
    name = field
    return lambda row: row[name] if isinstance(row, dict) else getattr(row, name)


def count() -> Aggregate[Any, int, int]:
    """Count rows.

    >>> count().add(2, "row")
    3
    """
    return _Count()


def sum_of(field: str | Callable[[Any], Any]) -> Aggregate[Any, Any, Any]:
    """Add up a field of the rows, or what a function returns for each row.

    >>> sum_of("n").add(2, {"n": 5})
    7
    """
    return _Function(_getter(field), lambda a, b: a + b, _same)


def min_of(field: str | Callable[[Any], Any]) -> Aggregate[Any, Any, Any]:
    """Keep the least value of a field or function.

    >>> min_of(len).add(3, "ab")
    2
    """
    return _Function(_getter(field), min, _same)


def max_of(field: str | Callable[[Any], Any]) -> Aggregate[Any, Any, Any]:
    """Keep the greatest value of a field or function.

    >>> max_of(len).add(3, "ab")
    3
    """
    return _Function(_getter(field), max, _same)


def max_by(field: str | Callable[[Any], Any]) -> Aggregate[Any, Any, Any]:
    """Keep the row with the greatest value of a field or function; the earlier one of two equal ones.

    >>> max_by(len).add("abc", "abcd")
    'abcd'
    """
    by = _getter(field)
    return _Function(_same, lambda a, b: b if by(b) > by(a) else a, _same)


def mean(field: str | Callable[[Any], Any]) -> Aggregate[Any, Any, float]:
    """Return the mean of a field or function.

    >>> mean(len).result([6, 4])
    1.5
    """
    get = _getter(field)
    return _Function(lambda row: [get(row), 1], lambda a, b: [a[0] + b[0], a[1] + b[1]], lambda acc: acc[0] / acc[1])


def collect(limit: int = 1000) -> Aggregate[Any, Any, list[Any]]:
    """Keep the first rows that arrived, at most `limit` of each key and pane, as a list of at most `limit`.

    >>> collect(2).add(["a", "b"], "c")
    ['a', 'b']
    """
    if limit < 1:
        raise UsageError(f"collect(limit={limit}) keeps nothing", hint="Give a positive limit.")
    return _Function(lambda row: [row], lambda a, b: a if len(a) >= limit else (a + b)[:limit], list)


def reduce(function: Callable[[Any, Any], Any]) -> Aggregate[Any, Any, Any]:
    """Combine the rows, two at a time, with an associative function.

    >>> reduce(max).add("a", "b")
    'b'
    """
    return _Function(_same, function, _same)
