"""Plain values of Kafka's protocol (partition, committed offset, group membership)."""

import base64
from typing import Final, NamedTuple, Protocol, Self


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


class Committable(Protocol):
    """Offset and metadata to commit for one partition."""

    @property
    def offset(self) -> int: ...
    @property
    def metadata(self) -> str: ...


UNKNOWN_EPOCH: Final = -1


class LogMark(NamedTuple):
    """Identity of the log that a position belongs to. Kafka tells another log by it (KIP-516, KIP-320).

    A topic that is created again has another id. If a log loses its end, its next records have a higher leader epoch.
    """

    topic_id: bytes
    """The 16 bytes of the topic's UUID."""
    leader_epoch: int
    """An epoch in which the log had all records before the position. UNKNOWN_EPOCH: nobody can tell whether the log was cut."""

    def __str__(self) -> str:
        return f"{self.shown_topic_id}:{self.leader_epoch}"

    @property
    def shown_topic_id(self) -> str:
        """Topic id as Kafka's tools show it."""
        return base64.urlsafe_b64encode(self.topic_id).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the mark of a text that `str` made.

        >>> LogMark.parse(str(LogMark(bytes(16), 7))) == LogMark(bytes(16), 7)
        True
        """
        topic_id, _, epoch = text.partition(":")
        return cls(base64.urlsafe_b64decode(topic_id + "=="), int(epoch))


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
