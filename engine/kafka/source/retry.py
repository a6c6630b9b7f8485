"""When a failed record is emitted again (KS-4). Decides; does nothing."""

import heapq
from dataclasses import dataclass
from itertools import count

from engine.kernel import Entry

_MOST_DOUBLINGS = 64


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a record waits after each of its failures, in seconds."""

    initial_secs: float = 0.0
    period_secs: float = 0.002
    most_secs: float = 10.0
    max_retries: int | None = None

    def wait_secs(self, failures: int) -> float | None:
        """Return the wait after so many failures (1, 2, …): initial, then 2^(n-1) periods, at most the most; None to give up.

        >>> [Backoff().wait_secs(n) for n in (1, 2, 3, 40)]
        [0.0, 0.004, 0.008, 10.0]
        """
        if self.max_retries is not None and failures > self.max_retries:
            return None
        if failures == 1:
            return min(self.initial_secs, self.most_secs)
        doublings: int = min(failures - 1, _MOST_DOUBLINGS)
        return min(self.period_secs * (1 << doublings), self.most_secs)


class RetryService:
    """The failed entries of a spout in the order of their due times."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._heap: list[tuple[float, int, Entry]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._heap)

    def schedule(self, entry: Entry, now: float) -> bool:
        """Have an entry be due after its backoff; False where it is to be given up."""
        wait = self._backoff.wait_secs(entry.failures)
        if wait is None:
            return False
        self._push(entry, now + wait)
        return True

    def postpone(self, entry: Entry, now: float) -> None:
        """Have an entry be due after the longest wait, whatever became of its retries."""
        self._push(entry, now + self._backoff.most_secs)

    def _push(self, entry: Entry, due: float) -> None:
        heapq.heappush(self._heap, (due, next(self._numbers), entry))

    @property
    def next_due(self) -> float | None:
        """When the next entry is due; None where none waits."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float) -> Entry | None:
        """Return an entry that is due, None where none is; those of partitions that were given up are left out."""
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)[2]
            if not entry.is_lost and not entry.is_done:
                return entry
        return None

    def forget_lost(self) -> None:
        """Let go of the entries of partitions that were given up."""
        self._heap = [item for item in self._heap if not item[2].is_lost]
        heapq.heapify(self._heap)
