"""Decides which offsets of one partition may be committed, and with what metadata (KS-2, KS-3, KS-7). Contains no I/O."""

from typing import NamedTuple

from engine.kafka.client.partition import LogMark, PartitionId
from engine.kafka.source import acked_set
from engine.kernel import PartitionOffsets


class Commit(NamedTuple):
    """Commit of one partition, and the values to record after the broker has accepted it."""

    offset: int
    metadata: str
    passed: int
    """Number of entries of the window below the committed offset."""
    left_out: int
    """Number of acked offsets that did not fit into the metadata."""
    manager: "OffsetManager"
    """Window that made this commit. Another window of the same partition must ignore the commit."""


class OffsetManager(PartitionOffsets):
    """Window of one partition, from its assignment to its revocation.

    start: first offset to read. committed: committed offset at the broker. skips: acked set of that commit. limit: maximum number of
    records after the commit. most_waiting: set for strict order (KS-11), in which a failed record stops the partition. At most this number
    of records then wait behind the failed record.
    """

    partition: PartitionId

    def __init__(
        self,
        partition: PartitionId,
        start: int,
        *,
        limit: int,
        committed: int | None = None,
        skips: tuple[int, ...] = (),
        most_waiting: int | None = None,
    ) -> None:
        super().__init__(start, skips, in_order=most_waiting is not None)
        self.partition = partition
        self.committed = committed
        self.metadata: str | None = None
        """Metadata of the last commit at the broker. None if another program or topology wrote this commit."""
        self.foreign_metadata = ""
        """Metadata of the start position's commit, if another program or topology wrote it."""
        self.mark: LogMark | None = None
        """Mark of the log at the newest fetched record. None if the brokers have no topic ids."""
        self.stop_at: int | None = None
        """Offset at which reading ends, for `stop_at_end`."""
        self.is_paused = False
        """True while the client's fetches of this partition are paused."""
        self.counts_uncommitted = True
        """Whether finished records fill the partition until they are committed. False for an exact spout."""
        self.retries = self.dead_letters = self.dropped = 0
        self._limit, self._most_waiting = limit, most_waiting
        self._committed_passed = 0
        self._is_ahead = False
        """True after a commit of `commit_ahead`, which the broker may have accepted."""

    @property
    def uncommitted(self) -> int:
        """Number of records after the committed offset, in any state."""
        return (self.passed - self._committed_passed if self.counts_uncommitted else 0) + self.unpassed

    @property
    def is_full(self) -> bool:
        """True if a commit is needed before more records may be fetched."""
        return self.uncommitted >= self._limit

    @property
    def must_pause(self) -> bool:
        """True if no more records should be fetched now."""
        too_many_wait = self._most_waiting is not None and self.stopped and self.waiting >= self._most_waiting
        return self.is_full or self.has_ended or too_many_wait

    @property
    def wants_commit(self) -> bool:
        """True if a commit would free a full partition, or keep it from filling up soon."""
        freed = self.passed - self._committed_passed
        return freed > 0 and (self.is_full or (4 * freed >= self._limit and 2 * self.uncommitted >= self._limit))

    @property
    def has_ended(self) -> bool:
        """True if all records to read were fetched."""
        return self.stop_at is not None and self.position >= self.stop_at

    @property
    def is_exhausted(self) -> bool:
        """True if all records to read were emitted, and none waits for a retry."""
        return self.has_ended and not self.waiting and not self.held

    def reach(self, position: int) -> None:
        """Advance to a position, because all offsets below it were fed or do not exist. Never advance beyond `stop_at`."""
        super().reach(position if self.stop_at is None else min(position, self.stop_at))

    def next_commit(self, topology: str, most_bytes: int, *, carries_set: bool) -> Commit | None:
        """Return the next commit. Return None if the broker already has this commit, or if the partition was given up."""
        if self.closed:
            return None
        offset = self.committable
        runs = self.acked_runs() if carries_set and most_bytes else []
        metadata, left_out = acked_set.encode(topology, offset, runs, most_bytes, self.mark) if most_bytes else ("", 0)
        if not self._is_ahead and offset == self.committed and (metadata == self.metadata or (self.metadata is None and not runs)):
            return None
        return Commit(offset, metadata, self.passed, left_out, self)

    def last_commit(self) -> Commit | None:
        """Return the commit that the broker has, to repeat it unchanged. None if it is unknown, or if the partition was given up."""
        if self.closed or self.committed is None or self._is_ahead:
            return None
        metadata = self.foreign_metadata if self.metadata is None else self.metadata
        return Commit(self.committed, metadata, self._committed_passed, 0, self)

    def commit_ahead(self, topology: str, offset: int, records: int) -> Commit:
        """Return a commit of fetched records that are not fed yet, for at most once. The next commit corrects an interrupted commit."""
        self._is_ahead = True
        metadata = acked_set.encode(topology, offset, [], acked_set.PLENTY, self.mark)[0]
        return Commit(offset, metadata, self.passed + self.unpassed + records, 0, self)

    def note_committed(self, commit: Commit) -> None:
        """Record that the broker has accepted this commit."""
        self._is_ahead = False
        self.committed, self.metadata, self._committed_passed = commit.offset, commit.metadata, commit.passed
