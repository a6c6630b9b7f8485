"""Places of death by kill -9, as data. The product does not know them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.kills.moments import Moment, Trigger, put_deadly_call


def every(*arguments: Any) -> bool:
    """Count all calls."""
    return True


@dataclass(frozen=True)
class Step:
    """One place of death."""

    name: str
    target: str
    """The call, as `module:Class.method`."""
    moment: Moment
    counts: Callable[..., bool] = every
    """Selects calls by their arguments, the object first."""

    def arm(self, number: int, flight_secs: float) -> None:
        """Make this process die when it reaches the call for the n-th time."""
        put_deadly_call(self.target, self.moment, Trigger(self.counts, number, flight_secs))
