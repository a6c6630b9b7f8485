"""When a task that died gets another instance, and when the run ends (ACK-12). Decides; does nothing."""

from collections import deque


class RestartPolicy:
    """Counts the deaths of one task within a sliding window of seconds."""

    def __init__(self, max_restarts: int, window_secs: float) -> None:
        self._max_restarts = max_restarts
        self._window_secs = window_secs
        self._deaths: deque[float] = deque()
        self.restarts = 0

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
