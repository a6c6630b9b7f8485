"""What a batch took of a partition: the metadata of both spouts, and how partitions are named to the engine."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from engine.kafka.client.partition import PartitionId

Metadata: TypeAlias = list[int] | None
"""`[start, end, records]`; None: it is not known yet where reading begins."""


class OffsetRange(NamedTuple):
    """The offsets from `start` to before `end`. Fewer records may stand there: compaction, and markers of transactions, leave gaps."""

    start: int
    end: int
    records: int
    """How many were read, those that the translator skipped among them."""

    def metadata(self) -> list[int]:
        """Return it as the engine keeps it."""
        return list(self)


def range_of(metadata: Sequence[int] | None) -> OffsetRange | None:
    """Return what is kept as the range that it is."""
    return None if metadata is None else OffsetRange(*metadata)


def place_of(partition: int | str) -> PartitionId:
    """Return the partition of a name that `str(PartitionId)` made.

    >>> place_of("page-views-3")
    PartitionId(topic='page-views', partition=3)
    """
    topic, _, number = str(partition).rpartition("-")
    return PartitionId(topic, int(number))
