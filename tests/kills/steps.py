"""Where a process dies by kill -9, as data; the product knows nothing of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.kills.moments import Moment, Trigger, put_deadly_call


def every(*arguments: Any) -> bool:
    """Count all calls."""
    return True


@dataclass(frozen=True)
class Step:
    """One place to die at."""

    name: str
    target: str
    """`module:Class.method`: the call."""
    moment: Moment
    counts: Callable[..., bool] = every
    """Which calls, by their arguments, the object first."""

    def arm(self, number: int, flight_secs: float) -> None:
        """Have this process die when it comes there for the n-th time."""
        put_deadly_call(self.target, self.moment, Trigger(self.counts, number, flight_secs))
