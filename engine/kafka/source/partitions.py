"""Decides which partitions a spout task keeps after a rebalance, and which partition emits next (KS-6). Contains no I/O."""

from collections.abc import Collection, Iterable, Iterator

from engine.kafka.client.partition import Membership, PartitionId
from engine.kafka.source.offset_manager import Commit, OffsetManager
from engine.kernel import RoundRobin


def commits_of(managers: Iterable[OffsetManager], topology: str, most_bytes: int, *, carries_set: bool) -> dict[PartitionId, Commit]:
    """Return the next commits of these windows, by partition."""
    found = ((manager.partition, manager.next_commit(topology, most_bytes, carries_set=carries_set)) for manager in managers)
    return {partition: commit for partition, commit in found if commit is not None}


class Partitions(RoundRobin):
    """Partitions that this task owns. Between a revocation and the next assignment it is suspended and emits nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.owned: dict[PartitionId, OffsetManager] = {}
        self.opening: set[PartitionId] = set()
        """Assigned partitions that have no start position yet."""
        self.has_begun = False
        """True after the first assignment. `have_ended` is meaningless before."""
        self.membership: Membership | None = None
        self.suspensions = 0

    # Rebalances

    def suspend(self) -> None:
        """Emit nothing until the next assignment, because all partitions may be revoked."""
        self.suspended = True
        self.suspensions += 1

    def end_suspension(self, suspension: int) -> None:
        """Emit again after a suspension that revoked nothing, unless a later suspension has begun."""
        if self.suspensions == suspension:
            self.suspended = False

    def assign(self, assigned: Collection[PartitionId], membership: Membership | None) -> tuple[list[OffsetManager], list[OffsetManager]]:
        """Apply the new assignment. Return the kept and the given-up windows. New partitions are added to `opening`.

        A window is kept if this member owned it in the previous generation. Without a group (None) every window is kept.
        """
        held_on = membership is None or membership.follows(self.membership)
        kept = [manager for partition, manager in self.owned.items() if held_on and partition in assigned]
        given_up = [manager for manager in self.owned.values() if manager not in kept]
        for manager in given_up:
            manager.close()
        self.owned = {manager.partition: manager for manager in kept}
        self.opening = set(assigned) - set(self.owned)
        self.membership, self.suspended, self.has_begun = membership, False, True
        self._reorder()
        return kept, given_up

    def open_partition(self, manager: OffsetManager) -> None:
        """Start to read an assigned partition."""
        self.opening.discard(manager.partition)
        self.owned[manager.partition] = manager
        self._reorder()

    def reopen_partition(self, partition: PartitionId) -> None:
        """Close the window of a partition and open the partition again, because its next offset does not exist."""
        self.owned.pop(partition).close()
        self.opening.add(partition)
        self._reorder()

    def close_all(self) -> None:
        """Close all windows."""
        for manager in self.owned.values():
            manager.close()
        self.owned, self.opening = {}, set()
        self._reorder()

    def _reorder(self) -> None:
        self.set_turns(self.owned.values())

    # State

    @property
    def in_flight(self) -> int:
        """Number of emitted records without an ack or a fail."""
        return sum(manager.in_flight for manager in self.owned.values())

    @property
    def held(self) -> int:
        """Number of failed records that wait for their retry."""
        return sum(manager.held for manager in self.owned.values())

    @property
    def have_ended(self) -> bool:
        """True if all records to read are emitted and no retry waits, for `stop_at_end`."""
        return not self.opening and not self.suspended and all(one.is_exhausted for one in self.owned.values())

    @property
    def is_assignment_known(self) -> bool:
        """False before the first assignment, and during a rebalance, which may assign any partition."""
        return self.has_begun and not self.suspended

    @property
    def read_now(self) -> frozenset[PartitionId]:
        """Partitions that are assigned and not exhausted."""
        return frozenset(self.opening).union(partition for partition, one in self.owned.items() if not one.is_exhausted)

    def note_committed(self, commits: dict[PartitionId, Commit]) -> None:
        """Record that the broker has accepted these commits. Windows that were opened again meanwhile ignore them."""
        for partition, commit in commits.items():
            if self.owned.get(partition) is commit.manager:
                commit.manager.note_committed(commit)

    def to_pause(self) -> Iterator[OffsetManager]:
        """Yield windows to pause, and mark each as paused."""
        for manager in self.owned.values():
            if manager.must_pause and not manager.is_paused:
                manager.is_paused = True
                yield manager

    def to_resume(self) -> Iterator[OffsetManager]:
        """Yield paused windows that may continue, and mark each as not paused."""
        for manager in self.owned.values():
            if manager.is_paused and not manager.must_pause:
                manager.is_paused = False
                yield manager

    def __iter__(self) -> Iterator[OffsetManager]:
        return iter(list(self.owned.values()))
