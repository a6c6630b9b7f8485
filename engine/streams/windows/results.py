"""What windows give out: results and late rows."""

from datetime import datetime, timedelta
from typing import Generic, NamedTuple, TypeVar

from engine.streams.times import datetime_of

Key = TypeVar("Key")
Value = TypeVar("Value")
Row = TypeVar("Row")


class Windowed(NamedTuple, Generic[Key, Value]):
    """Result of one key in one window, [start, end).

    >>> Windowed("home", 0, 60_000_000, 3).end
    datetime.datetime(1970, 1, 1, 0, 1, tzinfo=datetime.timezone.utc)
    """

    key: Key
    start_us: int
    end_us: int
    value: Value

    @property
    def start(self) -> datetime:
        """First time of the window."""
        return datetime_of(self.start_us)

    @property
    def end(self) -> datetime:
        """First time behind the window."""
        return datetime_of(self.end_us)


class Late(NamedTuple, Generic[Row]):
    """Row that came when every window that it belongs to was closed.

    >>> Late("row", 1_500_000, "late").late_by
    datetime.timedelta(seconds=1, microseconds=500000)
    """

    row: Row
    late_by_us: int
    reason: str

    @property
    def late_by(self) -> timedelta:
        """How far the row's time lies below the watermark."""
        return timedelta(microseconds=min(self.late_by_us, 86_399_999_999_999_999_999))
