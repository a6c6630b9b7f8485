"""Computes the pauses of an exponential backoff between the retries of one operation. Does not wait."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that grow with each consecutive failure, up to a bound. Has no state, so any number of operations can share it.

    >>> backoff = Backoff(0.1, 1.0)
    >>> [backoff.pause_secs(failures) for failures in (0, 1, 2, 3, 4, 5, 10_000)]
    [0.0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    """

    first_secs: float
    """Pause after the first failure."""
    longest_secs: float
    """Bound of every pause."""
    growth: float = 2.0
    """Factor from one pause to the next, at least 1."""
    jitter: float = 0.0
    """Largest share (0 to 1) that is randomly cut from a pause, so that many clients do not retry together."""

    def __post_init__(self) -> None:
        if not (0 <= self.first_secs <= self.longest_secs and self.growth >= 1 and 0 <= self.jitter <= 1):
            raise ValueError(f"{self} needs 0 <= first_secs <= longest_secs, growth >= 1, and 0 <= jitter <= 1")

    def pause_secs(self, failures: int, draw: Callable[[], float] | None = None) -> float:
        """Return the pause after this number of consecutive failures. Return 0 if there was no failure.

        draw: returns a random number from 0 to 1, for example `context.random.random`. Without `draw` there is no jitter.
        """
        if failures < 1:
            return 0.0
        try:
            pause = min(self.first_secs * self.growth ** (failures - 1), self.longest_secs)
        except OverflowError:
            pause = self.longest_secs
        return pause if draw is None else pause * (1 - self.jitter * draw())

    def pauses(self, draw: Callable[[], float] | None = None) -> Iterator[float]:
        """Yield the pauses after consecutive failures. The iterator has no end.

        >>> pauses = Backoff(0.1, 0.3).pauses()
        >>> next(pauses), next(pauses), next(pauses)
        (0.1, 0.2, 0.3)
        """
        return (self.pause_secs(failures, draw) for failures in count(1))
