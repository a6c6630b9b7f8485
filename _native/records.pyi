from collections.abc import Iterator, Sequence
from typing import Any, final

@final
class Topic:
    """Name and id of a topic."""

    def __init__(self, name: str, id: str | None) -> None: ...

@final
class FetchedRecord:
    """One record, with the attributes of aiokafka's `ConsumerRecord`."""

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        checksum: int | None = None,
        topic_id: str | None = None,
    ) -> None: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def timestamp_type(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...
    @property
    def checksum(self) -> int | None: ...
    @property
    def topic_id(self) -> str | None: ...
    @property
    def serialized_key_size(self) -> int:
        """Number of bytes of the key, -1 without a key."""

    @property
    def serialized_value_size(self) -> int:
        """Number of bytes of the value, -1 without a value."""

    def fields(self) -> tuple[Any, ...]:
        """Return all fields in the order of the constructor."""

@final
class RecordReader:
    """Reads the records of one partition from the answer to a fetch, like aiokafka's `PartitionRecords`.

    aborted: pairs of a producer id and the first offset of an aborted transaction, ascending by offset. Skips records below
    `fetch_offset`, control batches and, with `read_committed`, aborted transactions. `next_fetch_offset` passes all of these.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        answer: bytes,
        fetch_offset: int,
        *,
        codec: Any,
        aborted: Sequence[tuple[int, int]] = (),
        read_committed: bool = False,
        checks_crcs: bool = True,
        topic_id: str | None = None,
    ) -> None: ...
    @property
    def next_fetch_offset(self) -> int: ...
    @property
    def is_broken(self) -> bool: ...
    @property
    def is_done(self) -> bool: ...
    @property
    def after_broken(self) -> int | None:
        """The offset after the batch that cannot be decoded. A fetch from within the batch would fail again. None if it is unknown."""

    def take(self, most: int) -> list[FetchedRecord]:
        """Return up to `most` records. Sets `is_done` after the last one.

        An error sets `is_broken`. `next_fetch_offset` is then the lowest possible offset of the record that cannot be decoded. The
        records of this call before it are lost, so the caller has to fetch them again.
        """

    def __iter__(self) -> Iterator[FetchedRecord]: ...
    def __next__(self) -> FetchedRecord: ...

def leader_epochs(answer: bytes) -> tuple[int, int, int]:
    """Return the leader epochs of the first and of the last whole batch, and the offset after that last one. -1 is an unknown value."""
