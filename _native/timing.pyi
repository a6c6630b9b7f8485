from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar, final

T = TypeVar("T")

@final
class LatencyHistogram:
    """Counts of seconds in buckets. They are exact below 32 microseconds, within 1/16 above, and reach about 100 days."""

    def __init__(self) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def total(self) -> float: ...
    @property
    def largest(self) -> float: ...
    def add(self, secs: float) -> None: ...
    def percentile(self, percent: float) -> float | None:
        """Return the percentile `percent` (0 to 100) in seconds, rounded up to the bound of its bucket. None if empty."""

    def mean(self) -> float | None:
        """Return the mean in seconds, None if the histogram is empty."""

    def counts(self) -> list[tuple[float, int]]:
        """Return (upper bound in seconds, number of values) of each bucket that is not empty, ascending."""

    def doublings(self) -> tuple[int, ...]:
        """Return the number of values below 1, 2, 4, … 2**27 microseconds (134 s), cumulated."""

    def merge(self, other: LatencyHistogram) -> None:
        """Add the values of another histogram."""

    def clear(self) -> None: ...

@final
class StepTimer:
    """Times coroutines: `await timer(coroutine)` is `await coroutine`, and calls `note(secs)` for each step of `limit_secs` or more."""

    def __init__(self, now: Callable[[], float], limit_secs: float, note: Callable[[float], object]) -> None: ...
    @property
    def resumed_at(self) -> float: ...
    @property
    def total_secs(self) -> float: ...
    def __call__(self, coroutine: Coroutine[Any, Any, T]) -> TimedSteps[T]: ...

@final
class TimedSteps(Generic[T]):
    """Awaitable of a StepTimer around one coroutine. May be awaited once."""

    def __await__(self) -> Generator[Any, Any, T]: ...
    def send(self, value: object) -> Any:
        """Resume with a value. Raises StopIteration with the coroutine's result."""

    def throw(self, *error: Any) -> Any:
        """Resume with an exception, like a coroutine's own throw()."""

    def close(self) -> None:
        """End the coroutine at its suspension."""
