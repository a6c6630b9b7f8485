"""Ends of logs, as the answers to fetches tell them, for a reader that must know whether it has read everything."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from engine.kafka.client.partition import PartitionId

_FETCHES: Final = 2
"""A partition may have to wait for the fetch that its broker is answering before its own fetch is sent."""
_GRACE_SECS: Final = 1.0
_LAST_STABLE_SINCE: Final = 4
"""First version of a fetch whose answer has the last stable offset."""


class LogEnds:
    """Ends of the logs that one consumer reads. position: returns the consumer's position, None if it has none."""

    def __init__(self, position: Callable[[PartitionId], int | None], longest_wait_secs: float, *, read_committed: bool) -> None:
        """longest_wait_secs: time for which a broker may keep a fetch that it has no records for."""
        self._position, self._read_committed = position, read_committed
        self._fresh_secs = _FETCHES * longest_wait_secs + _GRACE_SECS
        self._ends: dict[PartitionId, tuple[int, float]] = {}
        """End, and time of the answer."""

    def newest(self, partition: PartitionId) -> int | None:
        """Return the end up to which records can be read. None if it is unknown, or if the next answer is overdue."""
        end, answered_at = self._ends.get(partition, (None, 0.0))
        return end if end is not None and asyncio.get_running_loop().time() - answered_at <= self._fresh_secs else None

    def forget(self, partitions: Iterable[PartitionId]) -> None:
        """Forget these ends, because the position has changed, or a broker could not be reached."""
        for partition in partitions:
            self._ends.pop(partition, None)

    def note(self, request: Any, answer: Any, answered_at: float) -> None:
        """Note the ends in an answer. Ignore partitions whose position has changed since the fetch."""
        offsets = fetched_offsets(request)
        is_empty = not any(batches for _, rows in answer.topics for *_, batches in rows)
        for topic, rows in answer.topics:
            for number, code, high_watermark, *rest in rows:
                partition = PartitionId(topic, number)
                offset = offsets[partition]
                if code or self._position(partition) != offset:
                    self._ends.pop(partition, None)
                    continue
                end = rest[0] if self._read_committed and answer.API_VERSION >= _LAST_STABLE_SINCE else high_watermark
                # A broker without a record for the whole fetch has waited for one. So if compaction has removed the last records of a log,
                # its end is beyond all that can be read.
                self._ends[partition] = (min(offset, end) if is_empty else end, answered_at)


def fetched_offsets(request: Any) -> dict[PartitionId, int]:
    """Return the offsets from which a fetch reads."""
    return {PartitionId(topic, number): offset for topic, rows in request.topics for number, offset, *_ in rows}
