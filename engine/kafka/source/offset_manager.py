"""One partition of a spout: what of it may be committed, and what travels with the commit (KS-2, KS-3, KS-7). Decides; does nothing."""

from typing import NamedTuple

from engine.kafka.client.partition import PartitionId
from engine.kafka.source import acked_set
from engine.kernel import OffsetWindow


class Commit(NamedTuple):
    """What is committed of one partition, and what will be noted once the broker has it."""

    offset: int
    metadata: str
    passed: int
    """How many entries the head had passed then."""
    left_out: int
    """Acked offsets that the metadata had no room for."""
    manager: "OffsetManager"
    """Whose it is: of another owner's window it says nothing."""


class OffsetManager(OffsetWindow):
    """The window of one partition, from its assignment to its revocation.

    `start`: where reading begins; `committed`: the offset that the broker has; `skips`: what the acked set of that commit names; `limit`:
    records beyond the commit, at most. `most_waiting`: a failed record stops the partition (KS-11), and so many wait behind it at most.
    """

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
        """What the broker has beside the offset, None where that is not ours to know."""
        self.stop_at: int | None = None
        """Where reading ends, for a spout that stops there."""
        self.is_paused = False
        """Paused at the client, since it is full."""
        self.retries = self.dead_letters = self.dropped = 0
        self._limit, self._most_waiting = limit, most_waiting
        self._committed_passed = 0
        self._is_ahead = False
        """A commit ahead was begun, and perhaps the broker has it."""

    @property
    def uncommitted(self) -> int:
        """How many records stand beyond the committed offset, in whatever state."""
        return self.passed - self._committed_passed + self.unpassed

    @property
    def is_full(self) -> bool:
        """True where nothing more may be fetched before a commit."""
        return self.uncommitted >= self._limit

    @property
    def must_pause(self) -> bool:
        """True where nothing more is to be fetched just now."""
        too_many_wait = self._most_waiting is not None and self.stopped and self.waiting >= self._most_waiting
        return self.is_full or self.has_ended or too_many_wait

    @property
    def wants_commit(self) -> bool:
        """True where a commit would free a full partition, or keep one from being full soon."""
        freed = self.passed - self._committed_passed
        return freed > 0 and (self.is_full or (4 * freed >= self._limit and 2 * self.uncommitted >= self._limit))

    @property
    def has_ended(self) -> bool:
        """True where all that is to be read was fetched."""
        return self.stop_at is not None and self.position >= self.stop_at

    def reach(self, position: int) -> None:
        """Note that there is nothing below this offset which was not fed; beyond `stop_at` nothing is fed, whatever was fetched."""
        super().reach(position if self.stop_at is None else min(position, self.stop_at))

    def commit(self, topology: str, most_bytes: int, *, carries_set: bool) -> Commit | None:
        """Return what there is to commit, None where the broker has all of it, or the partition was given up."""
        if self.closed:
            return None
        offset = self.end
        runs = self.acked_runs() if carries_set and most_bytes else []
        metadata, left_out = acked_set.encode(topology, offset, runs, most_bytes) if most_bytes else ("", 0)
        if not self._is_ahead and offset == self.committed and (metadata == self.metadata or (self.metadata is None and not runs)):
            return None
        return Commit(offset, metadata, self.passed, left_out, self)

    def commit_ahead(self, topology: str, offset: int, records: int) -> Commit:
        """Return the commit of what was fetched and is not fed yet (at most once); one that is cut off is taken back by the next."""
        self._is_ahead = True
        metadata = acked_set.encode(topology, offset, [], acked_set.PLENTY)[0]
        return Commit(offset, metadata, self.passed + self.unpassed + records, 0, self)

    def note_committed(self, commit: Commit) -> None:
        """Note that the broker has it."""
        self._is_ahead = False
        self.committed, self.metadata, self._committed_passed = commit.offset, commit.metadata, commit.passed
