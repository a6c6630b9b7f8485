"""When a task gets another instance, after what pause, and when its deaths end the run (ACK-12, SV-1, SV-3). Decides; does nothing."""

from collections import deque
from typing import Final

FIRST_PAUSE_SECS: Final = 1.0
LONGEST_PAUSE_SECS: Final = 30.0
LIVED_SECS: Final = 10.0
"""An instance that lived for so long begins the pauses anew."""


class RestartPolicy:
    """Counts the deaths of one task within a sliding window of seconds."""

    def __init__(self, max_restarts: int, window_secs: float) -> None:
        self._max_restarts = max_restarts
        self._window_secs = window_secs
        self._deaths: deque[float] = deque()
        self.restarts = 0
        self._pause_secs = 0.0
        self._began_at: float | None = None
        """When the newest instance began, its pause included; None before the first death."""

    def may_restart(self, now: float, *, counts: bool) -> bool:
        """Note a death at `now`; False when the task has died too often.

        It counts if the task settled no tuple since its last death but the one that killed it; in prepare and open always.
        """
        if counts:
            self._deaths.append(now)
        while self._deaths and now - self._deaths[0] > self._window_secs:
            self._deaths.popleft()
        if len(self._deaths) > self._max_restarts:
            return False
        self.restarts += 1
        return True

    def pause_secs(self, now: float) -> float:
        """Note a death at `now`; return the pause before the next instance, in seconds: none, or after a short life twice the last."""
        if self._began_at is None or now - self._began_at >= LIVED_SECS:
            self._pause_secs = 0.0
        else:
            self._pause_secs = _grown(self._pause_secs)
        self._began_at = now + self._pause_secs
        return self._pause_secs

    def note_restart(self) -> None:
        """Count an instance that was replaced, where that ends no run."""
        self.restarts += 1


class FailureStreak:
    """Counts calls that raised in a row, and says when the instance is to be renewed (SV-1).

    While calls go on failing, renewals follow each other after pauses that double up to 30 s; one success starts anew.
    """

    def __init__(self, limit: int) -> None:
        """limit: `renew_after_failures`."""
        self._limit = limit
        self._successes = 0
        self._pause_secs = 0.0
        self._not_before = 0.0
        self.length = 0

    def note_failure(self, now: float, successes: int) -> bool:
        """Note a call that raised; True when a renewal is due. successes: calls that succeeded, since the task began."""
        if successes != self._successes:
            self._successes, self._pause_secs, self._not_before, self.length = successes, 0.0, now, 0
        self.length += 1
        return self.length >= self._limit and now >= self._not_before

    def note_renewal(self, now: float) -> None:
        """Begin to count anew."""
        self.length = 0
        self._pause_secs = _grown(self._pause_secs)
        self._not_before = now + self._pause_secs


def _grown(pause_secs: float) -> float:
    return min(LONGEST_PAUSE_SECS, max(FIRST_PAUSE_SECS, 2 * pause_secs))
