"""Keeps the latest failed trees of a run as text, at a bounded cost."""

from collections import deque
from typing import Final

from engine.clock import Clock
from engine.errors import Failure
from engine.names import is_reserved
from engine.runtime.error_report import shorten
from engine.runtime.failure_snapshot import FailureSnapshot
from engine.runtime.plan import TaskInfo

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
        text = message_id_text(message_id)
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


def message_id_text(message_id: object) -> str:
    """Return the repr of a message id, shortened, even if its `__repr__` raises."""
    try:
        if isinstance(message_id, (str, bytes, bytearray)):
            message_id = message_id[: LONGEST_ID + 1]  # the repr of a long text would be made whole before it is cut
        text = str.__str__(repr(message_id))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a __repr__ of user code; the type of its error becomes the text
        return shorten(f"<{type(message_id).__name__} whose repr raised {type(error).__name__}>", LONGEST_ID)
    return shorten(text, LONGEST_ID)
