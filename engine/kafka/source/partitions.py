"""The partitions of one spout task: which it keeps through a rebalance, which one emits next (KS-6). Decides; does nothing."""

from collections.abc import Collection, Iterable, Iterator

from engine.kafka.client.partition import Membership, PartitionId
from engine.kafka.source.offset_manager import Commit, OffsetManager
from engine.kernel import Rotation


def commits_of(managers: Iterable[OffsetManager], topology: str, most_bytes: int, *, carries_set: bool) -> dict[PartitionId, Commit]:
    """Return what there is to commit of these, by partition."""
    found = ((manager.partition, manager.commit(topology, most_bytes, carries_set=carries_set)) for manager in managers)
    return {partition: commit for partition, commit in found if commit is not None}


class Partitions(Rotation):
    """All that this task owns. Between a revoke and the next assignment it is suspended: nothing is emitted."""

    def __init__(self) -> None:
        super().__init__()
        self.owned: dict[PartitionId, OffsetManager] = {}
        self.opening: set[PartitionId] = set()
        """Assigned, but where to begin is not known yet."""
        self.membership: Membership | None = None
        self.suspensions = 0

    # Rebalances

    def suspend(self) -> None:
        """All partitions are revoked, or may be: emit nothing until it is known which come back."""
        self.suspended = True
        self.suspensions += 1

    def go_on(self, suspension: int) -> None:
        """Nothing was revoked: emit again, unless another suspension than this one has come."""
        if self.suspensions == suspension:
            self.suspended = False

    def assign(self, assigned: Collection[PartitionId], membership: Membership | None) -> tuple[list[OffsetManager], list[OffsetManager]]:
        """Take the new assignment; return what is kept and what was given up. What is new stands in `opening`.

        Kept is what this member held in the generation just before; without a group (None) whatever it held.
        """
        held_on = membership is None or membership.follows(self.membership)
        kept = [manager for partition, manager in self.owned.items() if held_on and partition in assigned]
        given_up = [manager for manager in self.owned.values() if manager not in kept]
        for manager in given_up:
            manager.close()
        self.owned = {manager.partition: manager for manager in kept}
        self.opening = set(assigned) - set(self.owned)
        self.membership, self.suspended = membership, False
        self._reorder()
        return kept, given_up

    def open(self, manager: OffsetManager) -> None:
        """Begin with a partition that was assigned."""
        self.opening.discard(manager.partition)
        self.owned[manager.partition] = manager
        self._reorder()

    def reopen(self, partition: PartitionId) -> None:
        """Give up what is known of a partition, and have it be opened anew: what was to be read is not there."""
        self.owned.pop(partition).close()
        self.opening.add(partition)
        self._reorder()

    def close(self) -> None:
        """Give all up."""
        for manager in self.owned.values():
            manager.close()
        self.owned, self.opening = {}, set()
        self._reorder()

    def _reorder(self) -> None:
        self.rotate(self.owned.values())

    # What there is

    @property
    def in_flight(self) -> int:
        """Records that are emitted and have no verdict."""
        return sum(manager.in_flight for manager in self.owned.values())

    @property
    def held(self) -> int:
        """Records that failed and wait to be emitted again."""
        return sum(manager.held for manager in self.owned.values())

    @property
    def have_ended(self) -> bool:
        """True where all is emitted that there is to read, and nothing waits for another try; for a spout that stops at the end."""
        return (
            not self.opening
            and not self.suspended
            and all(one.has_ended and not one.waiting and not one.held for one in self.owned.values())
        )

    def commits(self, topology: str, most_bytes: int, *, carries_set: bool) -> dict[PartitionId, Commit]:
        """Return what there is to commit, by partition."""
        return commits_of(self.owned.values(), topology, most_bytes, carries_set=carries_set)

    def note_committed(self, commits: dict[PartitionId, Commit]) -> None:
        """Note that the broker has these; what was opened anew meanwhile has committed nothing."""
        for partition, commit in commits.items():
            if self.owned.get(partition) is commit.manager:
                commit.manager.note_committed(commit)

    def to_pause(self) -> Iterator[OffsetManager]:
        """Yield what is full or stopped and not paused yet, and note that it will be."""
        for manager in self.owned.values():
            if manager.must_pause and not manager.is_paused:
                manager.is_paused = True
                yield manager

    def to_resume(self) -> Iterator[OffsetManager]:
        """Yield what is paused and may be fetched again, and note that it goes on."""
        for manager in self.owned.values():
            if manager.is_paused and not manager.must_pause:
                manager.is_paused = False
                yield manager

    def __iter__(self) -> Iterator[OffsetManager]:
        return iter(list(self.owned.values()))
