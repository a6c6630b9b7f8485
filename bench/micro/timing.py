"""Nanoseconds per call, by `timeit`."""

from collections.abc import Callable, Mapping
from timeit import Timer
from typing import Any

SERIES = 5


def nanoseconds(statement: str, setup: Callable[[], Mapping[str, Any]], *, calls: int, per_call: int = 1, series: int = SERIES) -> float:
    """Return the minimum time per call of several series in nanoseconds, including the loop.

    Each series begins with a new `setup()`, and the statement uses its names. The minimum counts, because every disturbance makes a series
    longer. Runs in other processes show the spread. `per_call` is the number of operations in one statement.
    """
    namespace: dict[str, Any] = {"setup": setup}
    prepare = "globals().update(setup())"
    timer = Timer(statement, prepare, globals=namespace)
    timer.timeit(max(calls // 10, 1))
    return min(timer.repeat(series, calls)) * 1e9 / calls / per_call
