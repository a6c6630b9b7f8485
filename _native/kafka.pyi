from collections.abc import Callable, Hashable, Iterable
from typing import Any, final

@final
class Entry:
    """One record from its fetch until it is done. It is the message id of the record's tuple."""

    @property
    def offset(self) -> int: ...
    @property
    def record(self) -> Any: ...
    @property
    def failures(self) -> int: ...
    @property
    def is_done(self) -> bool:
        """True if the record was acked, given up or skipped."""

    @property
    def is_lost(self) -> bool:
        """True if its partition was given up, so another task decides about the record."""

    @property
    def manager(self) -> Any:
        """The offsets of its partition."""

class PartitionOffsets:
    """The entries of one partition. Base of `OffsetManager`, which has the methods that run once per commit."""

    partition: Any

    def __init__(self, start: int, skips: Iterable[int] = (), *, in_order: bool = False) -> None: ...
    @property
    def in_order(self) -> bool: ...
    @property
    def stopped(self) -> bool:
        """True if the next entry has to wait for an earlier one."""

    @property
    def position(self) -> int: ...
    @property
    def passed(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def held(self) -> int: ...
    @property
    def skipped(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def committable(self) -> int:
        """Offset that may be committed. All records below it are done, or never existed."""

    @property
    def waiting(self) -> int:
        """Number of entries that wait to be emitted."""

    @property
    def unpassed(self) -> int:
        """Number of entries that the head has not passed. These are open entries, and done entries behind an open one."""

    def feed(self, records: Iterable[Any]) -> int:
        """Add fetched records in the order of their offsets, and return their number. Records below `position` are already known."""

    def reach(self, position: int) -> None:
        """Advance `position`, because offsets below the new one do not exist, or must not be read."""

    def take(self) -> Entry | None:
        """Return the next entry to emit, and count it as in flight. None if there is none."""

    def take_again(self, entry: Entry) -> bool:
        """Count a failed entry as in flight once more.

        False if its partition was given up. With `in_order` also False if `take` will return the entry.
        """

    def fail(self, entry: Entry) -> bool:
        """Hold an entry whose tuple failed, with its record. False if the entry is not in flight."""

    def when_quiet(self, on_quiet: Callable[[], object] | None) -> None:
        """Call `on_quiet()` when the last entry in flight has its verdict. None cancels the request."""

    def close(self) -> None:
        """Give the partition up. Later verdicts have no effect, and the records are released."""

    def acked_runs(self) -> list[int]:
        """Return the done ranges above `committable`, as a flat ascending list: start, stop, start, stop…"""

def mark_done(entry: Entry) -> None:
    """Mark an entry as done, because it was acked or given up, or emitted without tracking."""

def mark_all_done(entries: list[Entry]) -> None:
    """Mark these entries as done, because their trees were acked."""

class RoundRobin:
    """The partitions of a task, which emit in turn. Base of `Partitions`."""

    suspended: bool

    def set_turns(self, partitions: Iterable[PartitionOffsets]) -> None:
        """Take turns among these partitions from now on."""

    def take(self) -> Entry | None:
        """Return the next entry to emit, or None."""

    def on_low(self, notify: Callable[[], object], *, below: int) -> None:
        """Call `notify()` once, when fewer than `below` records wait. Checked whenever the turn passes to another partition."""

    @property
    def waiting(self) -> int:
        """Number of records that wait and may be emitted."""

@final
class RecordFeed:
    """Emits the records of a Kafka spout. The spout uses its `next_tuples` directly."""

    has_retries: bool

    def __init__(
        self, partitions: RoundRobin, *, translate: Callable[[Any], Any] | None, to_stream: type, tracked: bool, spout: Any
    ) -> None: ...
    @property
    def partitions(self) -> RoundRobin: ...
    def emit_by(self, collector: Any) -> None:
        """Emit with this collector. None: the spout has ended."""

    def let_engine_track_rows(self) -> None:
        """Emit with (topic, partition, offset) as message id. A record is then done when it is emitted."""

    def partition_of(self, message_id: Any) -> Hashable:
        """Return the partition of a row by its message id. None: that of the record that is being emitted."""

    def next_tuples(self, limit: int) -> None:
        """Emit up to `limit` records: failed records that are due, and the next records."""
