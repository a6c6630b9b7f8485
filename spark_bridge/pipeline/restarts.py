"""Decides whether and when a query or Spark's process is restarted. The caller provides the time."""

from collections.abc import Mapping
from typing import Final, Literal

from engine.backoff import Backoff

FaultKind = Literal["passing", "code", "final"]
"""`passing`: may not happen again (a lost executor, unavailable storage). `code`: raised by the user's code, or by the rows.
`final`: only a person can repair it (a deleted txid, a checkpoint of another query)."""

BACKOFF: Final = Backoff(1.0, 30.0)
MAX_CODE_FAULTS: Final = 2
"""A restart repeats the same batch. If user code fails twice on one batch, a third attempt would also fail."""


class Restarts:
    """Counts failures since the last finished batch. The first `most` failures each lead to a restart.

    >>> restarts = Restarts(most=2)
    >>> restarts.pause_after("passing"), restarts.pause_after("passing"), restarts.pause_after("passing")
    (1.0, 2.0, None)
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._faults = 0
        self._code_faults = 0

    def note_batch(self) -> None:
        """Reset the counts after a finished batch."""
        self._faults = self._code_faults = 0

    def pause_after(self, kind: FaultKind) -> float | None:
        """Count a failure. Return the seconds until the restart, or None for no restart."""
        self._faults += 1
        self._code_faults += kind == "code"
        if kind == "final" or self._code_faults >= MAX_CODE_FAULTS or self._faults > self._most:
            return None
        return BACKOFF.pause_secs(self._faults)


def next_to_start(due: Mapping[str, float], now: float, *, are_starting: bool) -> str | None:
    """Return the query that is due first, or None if none is due or another one is starting.

    Queries start one at a time. Each source needs its own Python processes. If many start at once, none answers within the ten seconds that
    Spark allows.
    """
    first = min(due, key=due.__getitem__, default=None)
    return None if first is None or are_starting or due[first] > now else first
