"""Describes the offsets, lag and members of a group, and resets its commits, for the command line."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from engine.errors import UsageError
from engine.kafka.client.admin_client import AdminClient, Group, Member, nearest_of
from engine.kafka.client.partition import CommittedOffset, PartitionId
from engine.kafka.source import acked_set
from engine.kafka.source.undecodable import set_position

EMPTY: Final = "Empty"
DEAD: Final = "Dead"

ResetTarget: TypeAlias = int | Literal["earliest", "latest"] | tuple[Literal["timestamp"], int]
"""Target of a reset: an offset, `earliest` or `latest`, or a time in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """One partition of a group. A field is None if there is no commit, no topic or no owner."""

    partition: PartitionId
    committed: int | None
    metadata: str
    beginning: int | None
    end: int | None
    owner: Member | None

    @property
    def lag(self) -> int | None:
        """Number of existing records from the commit to the end, including acked records above the commit."""
        if self.committed is None or self.end is None or self.beginning is None:
            return None
        return max(0, self.end - max(self.committed, self.beginning))

    @property
    def note(self) -> acked_set.CommitNote | None:
        """Content of the commit's metadata. None if another program wrote the metadata."""
        return acked_set.decode(self.metadata) if self.committed is not None else None

    @property
    def topology(self) -> str | None:
        """Topology that committed."""
        note = self.note
        return None if note is None else acked_set.shown_name(note.topology)

    @property
    def acked_runs(self) -> tuple[int, ...]:
        """Acked offsets above the commit, as start, stop, start, stop… Empty if the metadata belong to another offset."""
        note = self.note
        return note.runs if note is not None and note.base == self.committed else ()

    @property
    def is_foreign(self) -> bool:
        """True if another program wrote the metadata."""
        return bool(self.metadata) and self.note is None

    @property
    def trouble(self) -> str | None:
        """Fault of the commit, or None."""
        if self.end is None or self.beginning is None:
            return "no such topic"
        if self.committed is not None and self.committed > self.end:
            return "beyond the end"
        if self.committed is not None and self.committed < self.beginning:
            return "below the beginning"
        return None


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """A group with all its partitions, ascending."""

    group: Group
    partitions: tuple[PartitionOffsets, ...]

    @property
    def state(self) -> str:
        """State of the group. `unknown` if the group has commits, but uses a protocol that the coordinator does not describe."""
        is_there = any(one.committed is not None for one in self.partitions)
        return "unknown" if self.group.state == DEAD and is_there else self.group.state

    @property
    def lag(self) -> int:
        """Sum of the known lags."""
        return sum(one.lag or 0 for one in self.partitions)


async def describe_group(admin: AdminClient, name: str, topics: Collection[str] = ()) -> GroupOffsets:
    """Return the offsets of a group for these topics. By default, these are all topics that the group reads or has commits of.

    Raises UsageError if the group does not exist.
    """
    group, commits = await admin.group(name), await admin.committed(name)
    if group.state == DEAD and not commits:
        names = await admin.group_names()
        raise UsageError(f"group {name!r} does not exist, or has no commits yet", hint=nearest_of(name, names))
    known = await admin.topics()
    for topic in topics:
        if topic not in known:
            await admin.partitions_of(topic)  # raises an error that names the existing topics
    owners = {partition: member for member in group.members for partition in member.partitions}
    chosen = set(topics) or {partition.topic for partition in (*commits, *owners)}
    there = {partition for topic in chosen for partition in known.get(topic, ())}
    beginnings, ends = await admin.bounds(there, "earliest"), await admin.bounds(there, "latest")
    gone = {partition for partition in commits if partition.topic in chosen} - there
    rows = (_offsets(one, commits.get(one), beginnings.get(one), ends.get(one), owners.get(one)) for one in sorted(there | gone))
    return GroupOffsets(group, tuple(rows))


def _offsets(
    partition: PartitionId, commit: CommittedOffset | None, beginning: int | None, end: int | None, owner: Member | None
) -> PartitionOffsets:
    offset, metadata = (None, "") if commit is None else commit
    return PartitionOffsets(partition, offset, metadata, beginning, end, owner)


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """One commit to set."""

    partition: PartitionId
    before: int | None
    after: CommittedOffset


async def plan_reset(admin: AdminClient, group: str, topic: str, numbers: Collection[int], target: ResetTarget) -> list[OffsetReset]:
    """Return the commits of a reset. Raise UsageError if the group has members, or a partition has no such offset.

    The metadata keep the name of the topology, so that this topology continues at the new offset. The acked set is dropped.
    """
    found = await admin.group(group)
    commits = await admin.committed(group)
    if found.members or found.state not in (EMPTY, DEAD) or (found.state == DEAD and commits):
        hint = "Stop the readers of this group (Ctrl-C drains a run). Then repeat the command."
        raise UsageError(
            f"group {group!r} is {found.state}, with {len(found.members)} members. Only an Empty group can be reset", hint=hint
        )
    partitions = _chosen(await admin.partitions_of(topic), topic, numbers)
    for partition in partitions:
        _check_is_read(group, partition, commits.get(partition))
    offsets = await _targets(admin, partitions, target)
    return [_reset(partition, commits.get(partition), offsets[partition]) for partition in partitions]


def _check_is_read(group: str, partition: PartitionId, commit: CommittedOffset | None) -> None:
    """Raise UsageError for a commit that no reader of the group reads."""
    note = None if commit is None else acked_set.decode(commit.metadata)
    if note is not None and note.spout is not None:
        topology = acked_set.shown_name(note.topology)
        text = (
            f"{partition}: topology {topology!r} keeps the positions of its spout {note.spout!r} in its state provider. "
            f"Group {group!r} only shows its progress, and a reset would change nothing"
        )
        hint = f"Run `{set_position(topology, note.spout, partition, 'OFFSET')}`, where URL is the state_provider."
        raise UsageError(text, hint=hint)
    if note is not None and note.is_copy:
        topology = acked_set.shown_name(note.topology)
        text = (
            f"{partition}: the transactional topology {topology!r} keeps its positions in its state provider. "
            f"Group {group!r} only shows its progress, and a reset would change nothing"
        )
        hint = (
            f"`python -m engine transactions URL --topology {topology}` shows them, where URL is the state_provider. "
            "To read the topic again, run the topology under another name, with other outputs."
        )
        raise UsageError(text, hint=hint)


async def commit_reset(admin: AdminClient, group: str, resets: Collection[OffsetReset]) -> None:
    """Commit the planned offsets."""
    await admin.commit(group, {one.partition: one.after for one in resets})


def _chosen(partitions: Collection[PartitionId], topic: str, numbers: Collection[int]) -> list[PartitionId]:
    there = [one.partition for one in partitions]
    for number in numbers:
        if number not in there:
            raise UsageError(f"topic {topic!r} has no partition {number}", hint=f"It has 0 to {len(there) - 1}.")
    return [one for one in partitions if not numbers or one.partition in numbers]


async def _targets(admin: AdminClient, partitions: Collection[PartitionId], target: ResetTarget) -> Mapping[PartitionId, int]:
    beginnings, ends = await admin.bounds(partitions, "earliest"), await admin.bounds(partitions, "latest")
    if target == "earliest":
        return beginnings
    if target == "latest":
        return ends
    if isinstance(target, tuple):
        return {**ends, **await admin.at_time(partitions, target[1])}  # the ends are older, so no record is skipped
    assert isinstance(target, int)
    for partition in partitions:
        if not beginnings[partition] <= target <= ends[partition]:
            hint = f"It has {beginnings[partition]} to {ends[partition]}; --partition chooses one."
            raise UsageError(f"partition {partition} has no offset {target}", hint=hint)
    return dict.fromkeys(partitions, target)


def _reset(partition: PartitionId, before: CommittedOffset | None, offset: int) -> OffsetReset:
    note = acked_set.decode(before.metadata) if before else None
    return OffsetReset(partition, before and before.offset, CommittedOffset(offset, acked_set.moved_to(note, offset) if note else ""))
