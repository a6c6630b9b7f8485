"""Decides the pause before a task gets a new instance, and when its deaths end the run (ACK-12, SV-1, SV-3)."""

from collections import deque
from typing import Final

from engine.backoff import Backoff

BACKOFF: Final = Backoff(1.0, 30.0)
LIVED_SECS: Final = 10.0
"""Lifetime of an instance after which the next pause is 0 again."""


class RestartPolicy:
    """Counts the deaths of one task within the last `window_secs`, and computes the pauses between its instances."""

    def __init__(self, max_restarts: int, window_secs: float) -> None:
        self._max_restarts = max_restarts
        self._window_secs = window_secs
        self._deaths: deque[float] = deque()
        self.restarts = 0
        self._short_lives = 0
        """Number of instances in a row that lived less than LIVED_SECS."""
        self._began_at: float | None = None
        """Start of the newest instance, after its pause. None before the first death."""

    def note_death(self, now: float, *, counts: bool) -> bool:
        """Note a death at `now`. Return False if the task has died too often.

        counts: True if the task made no progress since its last death. A death in prepare or open always counts.
        """
        if counts:
            self._deaths.append(now)
        while self._deaths and now - self._deaths[0] > self._window_secs:
            self._deaths.popleft()
        if len(self._deaths) > self._max_restarts:
            return False
        self.restarts += 1
        return True

    def next_pause_secs(self, now: float) -> float:
        """Note a death at `now`, and return the seconds until the next instance begins.

        The pause doubles after each instance that lived less than LIVED_SECS, and is 0 after any other one.
        """
        lived_long = self._began_at is None or now - self._began_at >= LIVED_SECS
        self._short_lives = 0 if lived_long else self._short_lives + 1
        pause_secs = BACKOFF.pause_secs(self._short_lives)
        self._began_at = now + pause_secs
        return pause_secs

    def note_restart(self) -> None:
        """Count a replaced instance in `restarts`, but not as a death."""
        self.restarts += 1


class FailureStreak:
    """Counts calls that raised in a row, and decides when to renew the instance (SV-1).

    While calls continue to fail, the pause between two renewals doubles up to 30 s. One success resets the pause and the count.
    """

    def __init__(self, limit: int) -> None:
        """limit: `renew_after_failures`."""
        self._limit = limit
        self._successes = 0
        self._renewals = 0
        self._not_before = 0.0
        self.length = 0

    def note_failure(self, now: float, successes: int) -> bool:
        """Note a call that raised. Return True if a renewal is due. successes: successful calls since the task began."""
        if successes != self._successes:
            self._successes, self._renewals, self._not_before, self.length = successes, 0, now, 0
        self.length += 1
        return self.length >= self._limit and now >= self._not_before

    def note_renewal(self, now: float) -> None:
        """Note a renewal at `now`. The count starts at 0 again."""
        self.length = 0
        self._renewals += 1
        self._not_before = now + BACKOFF.pause_secs(self._renewals)
