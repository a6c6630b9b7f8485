"""Notices that a partition's log is not the one that was read before: its end was cut, or its topic was created again.

A log loses its end in an unclean leader election, or with a broker's disk. Other records then get the offsets of the lost ones. So an
offset alone does not say which records were read. `LogContinuity` looks at each answer to a fetch, before the consumer does:

- If the topic has another id, it was created again. The known ids may be old if the partition was not fetched for a while, as while it is
  full, or if a fetch failed. So the brokers are asked before the next records are handed out.
- If the first batch has another leader epoch than the batches before, or if the partition has a new leader, the leader is asked where the
  known epoch ends (KIP-320). An end below the position means that the log was cut there.

Then the answer is replaced by the error for an offset that does not exist, which every reader handles.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableSequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aiokafka import TopicPartition, errors
from aiokafka.protocol.fetch import FetchRequest

from engine.kafka.client.errors import KafkaWarning
from engine.kafka.client.log_ends import LogEnds, fetched_offsets
from engine.kafka.client.log_requests import EpochEndsRequest
from engine.kafka.client.partition import UNKNOWN_EPOCH, LogMark, PartitionId
from engine.kernel import leader_epochs

_PAUSE_SECS: Final = 0.1
"""Pause before a fetch is repeated, because the leader did not say whether its log was cut."""
_UNWATCHED_SECS: Final = 1.0
"""Time between two fetches after which the topic may have been created again unnoticed. A fetch in between would have failed."""
_NEVER: Final = float("-inf")
_OTHER_LOG: Final[int] = errors.OffsetOutOfRangeError.errno
_ASK_AGAIN: Final[int] = errors.NotLeaderForPartitionError.errno


class Divergence(NamedTuple):
    """A log that is another one than that of a position."""

    offset: int | None
    """First offset whose record was lost. None if the topic was created again, or has none of its records."""
    mark: LogMark
    """Mark of the log at this offset."""
    is_new_topic: bool = False
    """True if the topic has another id."""

    def text(self, partition: PartitionId, read_up_to: int) -> str:
        """Describe the loss. read_up_to: the offset of the position.

        >>> Divergence(95, LogMark(bytes(16), 0)).text(PartitionId("lines", 0), 100)
        'lines-0: the brokers have lost the records from offset 95 on, which were read up to offset 100'
        """
        if self.is_new_topic:
            return f"{partition}: the topic was deleted and created again since it was read up to offset {read_up_to}"
        if self.offset is None:
            return f"{partition}: the brokers have lost all records that were read, up to offset {read_up_to}"
        return f"{partition}: the brokers have lost the records from offset {self.offset} on, which were read up to offset {read_up_to}"

    def warning(self, partition: PartitionId, read_up_to: int, start: int) -> KafkaWarning:
        """Return the warning that reading continues at `start`."""
        cut = (
            "Other records may have these offsets now. min.insync.replicas=2, acks='all' of the producers and "
            "unclean.leader.election.enable=false prevent this."
        )
        hint = "The offsets of the old topic mean nothing in the new one." if self.is_new_topic else cut
        return KafkaWarning(f"{self.text(partition, read_up_to)}. Reading continues at {start}", hint=hint)


@dataclass(slots=True)
class _ReadLog:
    """What is known of the log of one partition."""

    topic_id: bytes
    epoch: int
    """Leader epoch of the newest batch."""
    end: int
    """Offset up to which the log had all its records in this epoch."""
    answered_at: float = _NEVER
    """Time of the last answer that was checked. `_NEVER` after a failed fetch."""
    leader_epoch: int | None = None
    """Leader epoch of the partition at the last check."""


class LogContinuity:
    """Logs of the partitions that one consumer reads. position: returns the consumer's position, None if it has none."""

    def __init__(self, client: Any, position: Callable[[PartitionId], int | None]) -> None:
        self._client, self._position = client, position
        self._logs: dict[PartitionId, _ReadLog] = {}
        self._refreshed_at = _NEVER
        """Time of the last lookup of topic ids. `_NEVER` after a failed fetch."""

    def begin(self, partition: PartitionId, offset: int, mark: LogMark | None) -> None:
        """Read a partition from this offset, which has this mark. None: nothing is known, so the current topic is the right one."""
        mark = mark or self.current(partition)
        if mark is None:
            self._logs.pop(partition, None)  # the brokers have no topic ids
        else:
            self._logs[partition] = _ReadLog(mark.topic_id, mark.leader_epoch, offset)

    def mark_at(self, partition: PartitionId, offset: int) -> LogMark | None:
        """Return the mark of an offset up to the position. None if the brokers have no topic ids."""
        log = self._logs.get(partition)
        return None if log is None else LogMark(log.topic_id, log.epoch if offset <= log.end else UNKNOWN_EPOCH)

    def current(self, partition: PartitionId, epoch: int = UNKNOWN_EPOCH) -> LogMark | None:
        """Return the mark of a position that nobody has read before. None if the brokers have no topic ids."""
        topic_id = self._client.cluster.topic_ids.get(partition.topic)
        return None if topic_id is None else LogMark(topic_id, epoch)

    def topic_id_of(self, partition: PartitionId) -> str | None:
        """Return the id of the topic whose records are read, as Kafka's tools show it. None if the brokers have no topic ids."""
        log = self._logs.get(partition)
        mark = self.current(partition) if log is None else LogMark(log.topic_id, log.epoch)
        return None if mark is None else mark.shown_topic_id

    def is_new_topic(self, partition: PartitionId, mark: LogMark) -> bool:
        """Return True if the newest metadata have another topic of this name."""
        return self._client.cluster.topic_ids.get(partition.topic, mark.topic_id) != mark.topic_id  # type: ignore[no-any-return]

    async def divergences(self, positions: Mapping[PartitionId, tuple[int, LogMark]]) -> dict[PartitionId, Divergence]:
        """Return the partitions whose logs are not those of these offsets and marks.

        Raise a transient error if a leader does not answer.
        """
        if not positions:
            return {}
        await self._refresh()
        return await self._divergences(positions)

    async def _refresh(self) -> None:
        """Ask for the topic ids and leaders, because the known ones may be old. Raise a transient error if no broker answers."""
        if not await self._client.force_metadata_update():
            raise errors.BrokerNotAvailableError("no broker tells the ids of the topics")
        self._refreshed_at = asyncio.get_running_loop().time()

    async def _divergences(self, positions: Mapping[PartitionId, tuple[int, LogMark]]) -> dict[PartitionId, Divergence]:
        found, same = {}, {}
        for partition, (offset, mark) in positions.items():
            if self.is_new_topic(partition, mark):
                found[partition] = Divergence(None, self.current(partition) or mark, is_new_topic=True)
            elif mark.leader_epoch != UNKNOWN_EPOCH:
                same[partition] = (offset, mark)
        ends = await self._epoch_ends({partition: mark.leader_epoch for partition, (_, mark) in same.items()})
        for partition, (epoch, end) in ends.items():
            offset, mark = same[partition]
            if end < offset:
                found[partition] = Divergence(None if end < 0 else end, LogMark(mark.topic_id, epoch))
        return found

    async def newest_marks(self, partitions: Mapping[PartitionId, int]) -> dict[PartitionId, LogMark]:
        """Return the marks of these offsets, which exist now. Nothing has to be read for them."""
        current = {one: self._client.cluster.leader_epochs.get(one, UNKNOWN_EPOCH) for one in partitions}
        ends = await self._epoch_ends({one: epoch for one, epoch in current.items() if epoch != UNKNOWN_EPOCH})
        found = {}
        for one, offset in partitions.items():
            epoch, end = ends.get(one, (UNKNOWN_EPOCH, -1))
            mark = self.current(one, epoch if offset <= end else UNKNOWN_EPOCH)
            if mark is not None:
                found[one] = mark
        return found

    async def _epoch_ends(self, epochs: Mapping[PartitionId, int]) -> dict[PartitionId, tuple[int, int]]:
        """Return for each partition the largest epoch up to the given one, and its end offset. -1 if the log has no such epoch.

        Leave out partitions whose leader cannot tell: it is older than Kafka 2.3, or refuses.
        """
        by_leader: dict[int, dict[PartitionId, int]] = {}
        for partition, epoch in epochs.items():
            leader = self._client.cluster.leader_for_partition(TopicPartition(*partition))
            if leader in (None, -1):
                raise errors.LeaderNotAvailableError(str(partition))
            by_leader.setdefault(leader, {})[partition] = epoch
        found = {}
        for leader, its in by_leader.items():
            try:
                answer = await self._client.send(leader, EpochEndsRequest(its))
            except (NotImplementedError, errors.IncompatibleBrokerVersion):
                continue
            for topic, rows in answer.topics:
                for code, number, epoch, end in rows:
                    error = errors.for_code(code)
                    if code and error.retriable:
                        raise error(f"{topic}-{number}")
                    if not code:
                        found[PartitionId(topic, number)] = (epoch, end)
        return found

    # Answers to fetches

    async def check(self, request: Any, answer: Any, sent_at: float) -> None:
        """Look at an answer to a fetch. Replace the rows of partitions whose log is another one than before."""
        now, is_unwatched = asyncio.get_running_loop().time(), False
        offsets = fetched_offsets(request)
        doubtful: dict[PartitionId, _Doubt] = {}
        for topic, rows in answer.topics:
            for number, code, *_, batches in rows:
                partition = PartitionId(topic, number)
                log = self._logs.get(partition)
                if log is not None and code:
                    log.answered_at = self._refreshed_at = _NEVER
                if code or log is None or self._position(partition) != offsets[partition]:
                    continue
                first, last, after = leader_epochs(batches or b"")
                was_watched = sent_at - max(log.answered_at, self._refreshed_at) < _UNWATCHED_SECS
                is_unwatched = is_unwatched or not was_watched
                if was_watched:
                    log.answered_at = now
                if not was_watched or not self._seems_same(partition, log, first):
                    doubtful[partition] = _Doubt(log, offsets[partition], self._client.cluster.leader_epochs.get(partition), last, after)
                elif last != UNKNOWN_EPOCH:
                    log.epoch, log.end = last, after
        if doubtful:
            await self._settle(doubtful, answer, is_unwatched=is_unwatched)

    def _seems_same(self, partition: PartitionId, log: _ReadLog, first: int) -> bool:
        if self.is_new_topic(partition, LogMark(log.topic_id, log.epoch)):
            return False
        if log.epoch == UNKNOWN_EPOCH:
            return True
        return first in (UNKNOWN_EPOCH, log.epoch) and log.leader_epoch == self._client.cluster.leader_epochs.get(partition)

    async def _settle(self, doubtful: Mapping[PartitionId, "_Doubt"], answer: Any, *, is_unwatched: bool) -> None:
        """Ask the leaders about these partitions. If one does not answer, their fetches are repeated."""
        try:
            if is_unwatched:
                await self._refresh()
            others = await self._divergences({partition: doubt.place for partition, doubt in doubtful.items()})
        except (errors.KafkaError, TimeoutError, OSError):
            await asyncio.sleep(_PAUSE_SECS)
            _replace(answer, dict.fromkeys(doubtful, _ASK_AGAIN))
            return
        _replace(answer, dict.fromkeys(others, _OTHER_LOG))
        for partition in doubtful.keys() - others.keys():
            doubtful[partition].resolve(asyncio.get_running_loop().time())


@dataclass(frozen=True, slots=True)
class _Doubt:
    """An answer to a fetch that may come from another log."""

    log: _ReadLog
    offset: int
    leader_epoch: int | None
    """Leader epoch of the partition before the leader is asked."""
    newest: int
    """Leader epoch of the last batch of the answer."""
    end: int

    @property
    def place(self) -> tuple[int, LogMark]:
        """Offset and mark to ask the leader about."""
        return min(self.offset, self.log.end), LogMark(self.log.topic_id, self.log.epoch)

    def resolve(self, now: float) -> None:
        """Record that the log is the same."""
        self.log.answered_at = now
        self.log.leader_epoch = self.leader_epoch
        if self.newest != UNKNOWN_EPOCH:
            self.log.epoch, self.log.end = self.newest, self.end


class CheckedClient:
    """Client of a fetcher whose answers are checked, and tell the ends of the logs."""

    def __init__(self, client: Any, continuity: LogContinuity, ends: LogEnds) -> None:
        self._client, self._continuity, self._ends = client, continuity, ends

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def send(self, node_id: int, request: Any, **options: Any) -> Awaitable[Any]:
        """Send a request."""
        sent: Awaitable[Any] = self._client.send(node_id, request, **options)
        return self._checked(request, sent) if isinstance(request, FetchRequest) else sent

    async def _checked(self, request: Any, sent: Awaitable[Any]) -> Any:
        now = asyncio.get_running_loop().time
        sent_at = now()
        try:
            answer = await sent
        except BaseException:
            self._ends.forget(fetched_offsets(request))
            raise
        answered_at = now()
        await self._continuity.check(request, answer, sent_at)
        self._ends.note(request, answer, answered_at)
        return answer


def _replace(answer: Any, codes: Mapping[PartitionId, int]) -> None:
    """Give these partitions of an answer an error, and no records."""
    for topic, rows in answer.topics:
        at: MutableSequence[Any] = rows
        for place, (number, _, *rest, _) in enumerate(rows):
            code = codes.get(PartitionId(topic, number))
            if code is not None:
                at[place] = (number, code, *rest, b"")
