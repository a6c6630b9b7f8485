"""Keeps the latest failed trees of a run as text, at a bounded cost."""

from collections import deque
from typing import Final

from engine.clock import Clock
from engine.errors import Failure
from engine.names import is_reserved
from engine.runtime.failure_snapshot import FailureSnapshot
from engine.runtime.plan import TaskInfo
from engine.safe_text import safe_repr, shorten

MOST_FAILURES: Final = 20
"""Failed trees that a run keeps, and that it notes within PERIOD_SECS. Failures beyond this number are only counted by the spouts."""
PERIOD_SECS: Final = 1.0
LONGEST_ID: Final = 200
LONGEST_ERROR: Final = 2000
LONGEST_SHARE: Final = 0.01
"""Share of the time that the texts of message ids may take. A slow `__repr__` of user code is called less often."""


class LatestFailures:
    """The latest failed trees of one run. A storm of failures costs one reading of the clock for each failure.

    Holds text only, so it keeps no message id and no tuple alive (ACK-15).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: deque[FailureSnapshot] = deque(maxlen=MOST_FAILURES)
        self._period_ends = 0.0
        self._left = MOST_FAILURES
        """Failures that may still be noted in this period."""
        self._not_before = 0.0

    def note(self, info: TaskInfo, message_id: object, failure: Failure) -> None:
        """Note that a tree of a spout task failed. Leaves out the engine's own trees, because a rollback fails the user's trees too."""
        now = self._clock.now()
        if now >= self._period_ends:
            self._period_ends = now + PERIOD_SECS
            self._left = MOST_FAILURES
        if not self._left or now < self._not_before or is_reserved(info.component_id):
            return
        self._left -= 1
        text = safe_repr(message_id, LONGEST_ID)
        took = self._clock.now() - now
        if took > 0.001:
            self._not_before = now + took / LONGEST_SHARE
        error = None if failure.error is None else shorten(failure.error, LONGEST_ERROR)
        self._failures.append(
            FailureSnapshot(
                self._clock.wall(),
                info.component_id,
                info.task_id,
                text,
                failure.reason,
                failure.component_id,
                failure.task_id,
                error,
            )
        )

    def read(self) -> tuple[FailureSnapshot, ...]:
        """Return the failures, the newest last."""
        return tuple(self._failures)
