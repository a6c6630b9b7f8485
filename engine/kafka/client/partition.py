"""Plain values of Kafka's protocol (partition, committed offset, group membership)."""

from typing import NamedTuple


class PartitionId(NamedTuple):
    """A partition of a topic. Equal to aiokafka's `TopicPartition`, because both are tuples."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class CommittedOffset(NamedTuple):
    """Offset and metadata that a group has committed for a partition."""

    offset: int
    metadata: str


class BrokenRecord(NamedTuple):
    """Place of a record that cannot be decoded."""

    partition: PartitionId
    offset: int
    """Lowest possible offset of the record."""
    after: int | None
    """Offset after the batch of the record, None if it is unknown."""


class Membership(NamedTuple):
    """Generation and member id of this consumer in its group. Both change when the session is lost."""

    generation: int
    member: str

    @property
    def is_lost(self) -> bool:
        """True if the group no longer knows this member."""
        return self.generation < 0

    def follows(self, before: "Membership | None") -> bool:
        """Return True if this generation directly follows `before`, so the member missed no rebalance."""
        return before is not None and not before.is_lost and self == Membership(before.generation + 1, before.member)


def offsets_text(first: int, end: int) -> str:
    """Return the offsets from `first` to before `end` as a text.

    >>> offsets_text(7, 20), offsets_text(7, 7)
    ('offsets 7 to 19', 'no offsets')
    """
    return f"offsets {first} to {end - 1}" if end > first else "no offsets"
