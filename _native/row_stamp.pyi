"""What the core of a spout does to each row with an event time: it makes the row to emit, and notes its time (ET-1)."""

from collections.abc import Callable, Hashable
from typing import Any, final

@final
class PartitionTime:
    """The greatest time of a partition, and the number of its rows."""

    @property
    def partition(self) -> Hashable: ...
    @property
    def greatest(self) -> int:
        """Microseconds since 1970, of the rows that are not too far ahead."""

    @property
    def rows(self) -> int:
        """Number of rows since the source began, or went back."""

@final
class SourceTimes:
    """The times of one task of a spout, by partition."""

    limit: int
    """A later time is ahead, and does not move the watermark."""
    def __init__(self) -> None: ...
    @property
    def partitions(self) -> dict[Hashable, PartitionTime]: ...
    @property
    def ahead(self) -> int:
        """Number of rows with a time beyond `limit`."""

    def greatest(self) -> dict[Hashable, int]:
        """Return the greatest time of each partition."""

    def forget(self) -> None:
        """Start anew, because the source goes back."""

@final
class RowStamp:
    """Makes the rows of one stream, and notes their times.

    A row of a plain topology is emitted as it is, and has its time at an index. The tuple of a flow's row is (row, time) or
    (row, key, time), with the time in microseconds. per_unit: microseconds of one unit of an integer time. convert: any other time ->
    microseconds. It raises for what is no time, and gets the first time of all.
    """

    def __init__(
        self,
        times: SourceTimes,
        convert: Callable[[Any], int],
        *,
        per_unit: int = 0,
        partition_of: Callable[[Any], Hashable] | None = None,
        time_at: int = 0,
        parts: tuple[Any, ...] | None = None,
    ) -> None: ...
    def apply(self, values: tuple[Any, ...], message_id: Any = None) -> Any:
        """Return what is emitted for these values, for tests."""

def span_of(times: list[int]) -> tuple[int, int]:
    """Return the least and the greatest of some times, in microseconds."""
