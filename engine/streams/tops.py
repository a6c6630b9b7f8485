"""The greatest results of each window, over all keys: the pieces of `WindowedStage.top`."""

from typing import Any

from engine.errors import UsageError
from engine.streams.aggregates import Aggregate
from engine.streams.windows import Calendar, Session, Sliding, Windowed


def windows_of_results(spec: Sliding | Calendar | Session) -> Sliding | Calendar:
    """Return windows that hold the results of one window each. A result has the last time of its window.

    Raise UsageError for sessions, because each key has others.
    """
    if isinstance(spec, Session):
        raise UsageError("top() compares the results of one window, and each key has sessions of its own", hint="Use tumbling windows.")
    if isinstance(spec, Calendar):
        return spec
    return Sliding(spec.every_us, spec.every_us, (spec.offset_us + spec.size_us) % spec.every_us)


def no_key(row: Any) -> None:
    """Return the key of all rows, which must come together."""


class Top(Aggregate[Windowed[Any, Any], list[list[Any]], list[Windowed[Any, Any]]]):
    """The `most` greatest results. Equal ones are in the order of their keys' texts, so that each run gives the same."""

    def __init__(self, most: int) -> None:
        self.most = most

    def initial(self) -> list[list[Any]]:
        return []

    def add(self, acc: list[list[Any]], row: Windowed[Any, Any]) -> list[list[Any]]:
        return self._greatest([*acc, list(row)])

    def merge(self, a: list[list[Any]], b: list[list[Any]]) -> list[list[Any]]:
        return self._greatest(a + b)

    def result(self, acc: list[list[Any]]) -> list[Windowed[Any, Any]]:
        return [Windowed(*each) for each in acc]

    def _greatest(self, results: list[list[Any]]) -> list[list[Any]]:
        results.sort(key=lambda each: repr(each[0]))
        results.sort(key=lambda each: each[3], reverse=True)
        return results[: self.most]


def with_own_window(row: Windowed[None, list[Windowed[Any, Any]]]) -> Windowed[None, list[Windowed[Any, Any]]]:
    """Return the results with the window that they are of."""
    first = row.value[0]
    return Windowed(None, first.start_us, first.end_us, row.value)
