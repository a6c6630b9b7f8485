"""Computes the backoff and the due times of failed records (KS-4). Contains no I/O."""

import heapq
from dataclasses import dataclass
from itertools import count

from engine.kernel import Entry

_MOST_DOUBLINGS = 64


@dataclass(frozen=True, slots=True)
class RecordBackoff:
    """Pauses before the retries of one Kafka record (KS-4), like those of Storm's spout. Times are in seconds.

    `engine.backoff.Backoff` does not fit, because the first pause is a separate setting and the later pauses do not grow from it.
    """

    first_secs: float = 0.0
    period_secs: float = 0.002
    longest_secs: float = 10.0
    max_retries: int | None = None

    def wait_secs(self, failures: int) -> float | None:
        """Return the wait after the n-th failure. First it is `first_secs`, then 2^(n-1) periods up to `longest_secs`. None means give up.

        >>> [RecordBackoff().wait_secs(n) for n in (1, 2, 3, 40)]
        [0.0, 0.004, 0.008, 10.0]
        """
        if self.max_retries is not None and failures > self.max_retries:
            return None
        if failures == 1:
            return min(self.first_secs, self.longest_secs)
        doublings: int = min(failures - 1, _MOST_DOUBLINGS)
        return min(self.period_secs * (1 << doublings), self.longest_secs)


class RetryService:
    """Failed entries of a spout, in the order of their due times."""

    def __init__(self, backoff: RecordBackoff) -> None:
        self._backoff = backoff
        self._heap: list[tuple[float, int, Entry]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._heap)

    def has_retry(self, entry: Entry) -> bool:
        """Tell whether an entry that has failed is tried again."""
        return not entry.is_lost and self._backoff.wait_secs(entry.failures) is not None

    def schedule(self, entry: Entry, now: float) -> bool:
        """Schedule an entry after its backoff. Return False if the entry has no retry left."""
        wait = self._backoff.wait_secs(entry.failures)
        if wait is None:
            return False
        self._push(entry, now + wait)
        return True

    def postpone(self, entry: Entry, now: float) -> None:
        """Schedule an entry after the longest wait, whatever its number of retries."""
        self._push(entry, now + self._backoff.longest_secs)

    def _push(self, entry: Entry, due: float) -> None:
        heapq.heappush(self._heap, (due, next(self._numbers), entry))

    @property
    def next_due(self) -> float | None:
        """Due time of the next entry. None if no entry waits."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float) -> Entry | None:
        """Return a due entry, or None. Skip entries of partitions that were revoked."""
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)[2]
            if not entry.is_lost and not entry.is_done:
                return entry
        return None

    def forget_lost(self) -> None:
        """Drop the entries of partitions that were revoked."""
        self._heap = [item for item in self._heap if not item[2].is_lost]
        heapq.heapify(self._heap)
