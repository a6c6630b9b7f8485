"""Whether what died is started again, and after how long: a plain object that is told what happened."""

from collections.abc import Mapping
from typing import Final, Literal

FaultKind = Literal["passing", "code", "final"]
"""`passing`: it may do better by itself (a lost executor, storage that is away). `code`: the user's, or what the rows make of it.
`final`: nothing but a person can help (a deleted txid, a checkpoint of something else)."""

FIRST_PAUSE_SECS: Final = 1.0
LONGEST_PAUSE_SECS: Final = 30.0
CODE_TRIES: Final = 2
"""The same batch comes again after a restart; where it fails again in the user's code, a third time would not help."""


class Restarts:
    """Counts the deaths since something was last done; `most` of them in a row are survived.

    >>> restarts = Restarts(most=2)
    >>> restarts.pause_after("passing"), restarts.pause_after("passing"), restarts.pause_after("passing")
    (1.0, 2.0, None)
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._deaths = 0
        self._code_faults = 0

    def progressed(self) -> None:
        """Note that a batch was finished: what came before is past."""
        self._deaths = self._code_faults = 0

    def pause_after(self, kind: FaultKind) -> float | None:
        """Return how many seconds to wait before the next start; None where there is to be none."""
        self._deaths += 1
        self._code_faults += kind == "code"
        if kind == "final" or self._code_faults >= CODE_TRIES or self._deaths > self._most:
            return None
        return float(min(FIRST_PAUSE_SECS * 2 ** (self._deaths - 1), LONGEST_PAUSE_SECS))


def next_to_start(due: Mapping[str, float], now: float, *, are_starting: bool) -> str | None:
    """Return the query whose time has come, None where it has for none, or while another one is starting: the sources of a query have
    Python processes of their own, and where many start at once none has answered within the ten seconds that Spark gives each.
    """
    first = min(due, key=due.__getitem__, default=None)
    return None if first is None or are_starting or due[first] > now else first
