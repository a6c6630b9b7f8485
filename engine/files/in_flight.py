"""Rows that were emitted and have no verdict, and the retries of failed ones (FI-7). Contains no I/O."""

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from itertools import count, repeat
from typing import Any, Final

from engine.backoff import Backoff

BACKOFF: Final = Backoff(0.004, 10.0)
"""Pauses before the second and later retries of a row. The first retry comes at once, as with Kafka (KS-4)."""


class RowsInFlight:
    """Values of the rows in flight, by message id."""

    def __init__(self, max_retries: int | None) -> None:
        self._max_retries = max_retries
        self._values: dict[Any, Any] = {}
        self._failures: dict[Any, int] = {}
        """Number of failures of rows that have failed."""
        self._heap: list[tuple[float, int, Any]] = []
        self.waiting_by_file: Counter[str] = Counter()
        """Number of rows that wait for a retry, for the files that have some."""
        self._numbers = count()

    def __len__(self) -> int:
        """Return the number of rows that are open or wait for a retry."""
        return len(self._values)

    def __getitem__(self, message_id: Any) -> Any:
        """Return the values of a row."""
        return self._values[message_id]

    @property
    def waiting(self) -> int:
        """Number of rows that wait for a retry."""
        return len(self._heap)

    def add(self, message_ids: Iterable[Any], values: Sequence[Any]) -> None:
        """Keep the values of rows that are emitted."""
        self._values.update(zip(message_ids, values, strict=True))

    def forget(self, message_ids: list[Any]) -> None:
        """Forget rows that are done."""
        deque(map(self._values.pop, message_ids, repeat(None)), 0)  # without a step of Python for each
        if self._failures:
            deque(map(self._failures.pop, message_ids, repeat(None)), 0)

    def fail(self, message_id: Any, now: float) -> bool | None:
        """Schedule the retry of a row. Return False if it has none left, and None if it is not in flight."""
        if message_id not in self._values:
            return None
        failures = self._failures[message_id] = self._failures.get(message_id, 0) + 1
        if self._max_retries is not None and failures > self._max_retries:
            return False
        heapq.heappush(self._heap, (now + BACKOFF.pause_secs(failures - 1), next(self._numbers), message_id))
        self.waiting_by_file[message_id[0]] += 1
        return True

    def failures(self, message_id: Any) -> int:
        """Return how often a row has failed."""
        return self._failures.get(message_id, 0)

    def next_due(self) -> float | None:
        """Return the time of the next retry. None if no row waits."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float, most: int) -> list[Any]:
        """Return the message ids of rows whose retry is due."""
        due: list[Any] = []
        while self._heap and self._heap[0][0] <= now and len(due) < most:
            due.append(heapq.heappop(self._heap)[2])
        if due:
            self.waiting_by_file -= Counter(key for key, _ in due)  # which drops the files that have none left
        return due

    def clear(self) -> None:
        """Forget all rows."""
        self._values.clear()
        self._failures.clear()
        self._heap.clear()
        self.waiting_by_file.clear()
