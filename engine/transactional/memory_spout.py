"""Transactional spouts that read from memory, for tests, examples and benchmarks (TX-10)."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from engine.api import OutputFields, SpoutExhausted, Values, declare_streams
from engine.api.arguments import checked_count
from engine.errors import FatalError, UsageError
from engine.names import DEFAULT_STREAM
from engine.safe_text import safe_repr
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_bolt import BatchCollector
from engine.transactional.spouts import (
    OpaqueEmitter,
    OpaquePartitionedTransactionalSpout,
    Partition,
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
)

Rows: TypeAlias = Sequence[Values]
"""The tuples of one partition, in order."""
Range: TypeAlias = list[int]
"""Metadata: the index of the first row of a batch, and the index after the last."""


class MemoryTransactionalSpout(PartitionedTransactionalSpout[Range]):
    """Emits rows from memory, up to `take` of each partition in a batch. The run is complete when all are committed.

    `data` is a dict from partition names to lists of tuples, a list of such lists (partitions 0, 1, 2, …), or a list of tuples (partition
    0). `data` must not change, except that rows may be appended.

    >>> MemoryTransactionalSpout([("to",), ("be",)], "word", take=1000).data
    {0: [('to',), ('be',)]}
    """

    def __init__(self, data: Mapping[Any, Rows] | Sequence[Rows] | Rows, fields: OutputFields, take: int) -> None:
        self.data = _partitions_of(data, fields, f"{type(self).__name__}(data)")
        self.output_fields = fields
        self.take = checked_count(f"{type(self).__name__}: take", take, 1)

    def coordinator(self) -> PartitionedCoordinator:
        return _PlanningCoordinator(self.data, self.take)

    def emitter(self) -> PartitionedEmitter[Range]:
        return _Emitter(self.data, self.take)


class MemoryOpaqueSpout(OpaquePartitionedTransactionalSpout[int | None]):
    """Opaque spout of rows in memory. A replay emits the rows that are there at that time.

    Uncommitted rows may be changed, and a partition may be taken out of the dict `data` and put back. The run is complete when all rows
    of the partitions at its start are committed.
    """

    def __init__(self, data: dict[Partition, Rows], fields: OutputFields, take: int) -> None:
        what = f"{type(self).__name__}(data)"
        if not isinstance(data, dict):
            raise UsageError(f"{what} must be a dict, not {_described(data)}", hint="Pass {partition: [row, ...]}. A row is a tuple.")
        self.data: dict[Partition, Rows] = data
        _partitions_of(data, fields, what)
        self.output_fields = fields
        self.take = checked_count(f"{type(self).__name__}: take", take, 1)

    def coordinator(self) -> PartitionedCoordinator:
        return _LookingCoordinator(self.data)

    def emitter(self) -> OpaqueEmitter[int | None]:
        return _OpaqueEmitter(self.data, self.take)


class _PlanningCoordinator(PartitionedCoordinator):
    """Plans the end of each batch when it begins, so that no batch begins after the last row."""

    def __init__(self, data: Mapping[Partition, Rows], take: int) -> None:
        self._data = data
        self._take = take
        self._begun: dict[Partition, int] | None = None
        """Index after the last row of the newest batch, by partition."""

    def is_ready(self) -> bool:
        if self._begun is None:
            self._begun = {partition: _end_of(self.positions.get(partition)) for partition in self._data}
        if all(self._begun[partition] >= len(rows) for partition, rows in self._data.items()):
            raise SpoutExhausted
        return True

    def partitions(self) -> Sequence[Partition]:
        assert self._begun is not None
        for partition, rows in self._data.items():
            self._begun[partition] = max(self._begun[partition], min(self._begun[partition] + self._take, len(rows)))
        return list(self._data)


class _Emitter(PartitionedEmitter[Range]):
    def __init__(self, data: Mapping[Partition, Rows], take: int) -> None:
        self._data = data
        self._take = take

    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: Range | None
    ) -> Range:
        start, end = planned = self.plan_partition_batch(attempt, partition, previous)
        collector.emit_many(self._data[partition][start:end])
        return planned

    def plan_partition_batch(self, attempt: TransactionAttempt, partition: Partition, previous: Range | None) -> Range:
        start = _end_of(previous)
        return [start, max(start, min(start + self._take, len(self._data[partition])))]

    def emit_partition_batch(self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, metadata: Range) -> None:
        start, end = metadata
        rows = self._data.get(partition, ())
        if end > len(rows):
            raise FatalError(
                f"batch {attempt} holds the rows {start:,} to {end:,} of partition {partition!r}, which has {len(rows):,} now",
                hint="Pass the data that the earlier run had, or give the topology another id.",
            )
        collector.emit_many(rows[start:end])


class _LookingCoordinator(PartitionedCoordinator):
    """Begins batches until the newest ends with the last row of each partition. Open batches may still change."""

    def __init__(self, data: Mapping[Partition, Rows]) -> None:
        self._data = data
        self._partitions = list(data)

    def is_ready(self) -> bool:
        if all(p in self._data and (self.positions.get(p) or 0) >= len(self._data[p]) for p in self._partitions):
            raise SpoutExhausted
        return any((self.positions.get(p) or 0) < len(self._data.get(p, ())) for p in self._partitions)

    def partitions(self) -> Sequence[Partition]:
        return self._partitions


class _OpaqueEmitter(OpaqueEmitter[int | None]):
    def __init__(self, data: Mapping[Partition, Rows], take: int) -> None:
        self._data = data
        self._take = take

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: int | None
    ) -> int | None:
        rows = self._data.get(partition)
        if rows is None:
            return previous
        start = previous or 0
        end = max(start, min(start + self._take, len(rows)))
        collector.emit_many(rows[start:end])
        return end


def _end_of(metadata: Range | None) -> int:
    return 0 if metadata is None else metadata[1]


def _partitions_of(data: object, fields: OutputFields, what: str) -> dict[Partition, Rows]:
    """Return the rows by partition. Raises UsageError for wrong data."""
    declared = declare_streams(fields).get(DEFAULT_STREAM)
    if declared is None:
        raise UsageError(
            f"{what}: the fields {fields!r} declare no stream {DEFAULT_STREAM!r}", hint='Declare the fields of a row: Fields("word").'
        )
    partitions = _named(data, what)
    for partition, rows in partitions.items():
        if not isinstance(partition, (int, str)) or isinstance(partition, bool) or partition == "":
            raise UsageError(f"{what}: a partition must be an int or a str that is not empty, not {_described(partition)}", hint=_HINT)
        if not _is_sequence(rows):
            raise UsageError(f"{what}: partition {partition!r} must be a list of rows, not {_described(rows)}", hint=_HINT)
        for number, row in enumerate(rows):
            if not isinstance(row, tuple) or len(row) != len(declared.names):
                names = ", ".join(declared.names)
                text = f"{what}: row {number} of partition {partition!r} must be a tuple of ({names}), not {_described(row)}"
                raise UsageError(text, hint=_HINT)
    return partitions


def _named(data: object, what: str) -> dict[Any, Any]:
    if isinstance(data, Mapping):
        return dict(data)
    if not _is_sequence(data):
        raise UsageError(f"{what} must be a list of rows, not {_described(data)}", hint=_HINT)
    assert isinstance(data, Sequence)
    if all(isinstance(each, tuple) for each in data):
        return {0: data}
    for number, rows in enumerate(data):
        if isinstance(rows, tuple):
            raise UsageError(f"{what}: element {number} is the row {rows!r}, but other elements are partitions", hint=_HINT)
    return dict(enumerate(data))


def _is_sequence(rows: object) -> bool:
    return isinstance(rows, Sequence) and not isinstance(rows, (str, bytes, bytearray))


def _described(value: object) -> str:
    """Return a value and its type, for an error."""
    return f"{safe_repr(value)}"[:200] + f" ({type(value).__name__})"


_HINT = 'A row is a tuple with a value for each field: ("word",). For several partitions pass {partition: [row, ...]}, or a list of lists.'
