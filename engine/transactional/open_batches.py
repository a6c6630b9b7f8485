"""Metadata and output of the open batches (TX-7, TX-9). Both together define a batch. This module holds plain data, like `machine`."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias

from engine.errors import EngineBug, FatalError
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.spouts import Partition

UNPARTITIONED: Final[Partition] = ""
"""The key of the output of a spout without partitions."""


class PartitionOutput(NamedTuple):
    """The output of one partition in a batch: metadata, number of tuples, and the sum of their hashes (None: a tuple has no hash)."""

    metadata: Any
    tuples: int
    digest: int | None

    def plus(self, other: "PartitionOutput") -> "PartitionOutput":
        """Return the sum of the outputs of two tasks that emit from the same partition."""
        digest = None if self.digest is None or other.digest is None else (self.digest + other.digest) % 2**64
        return PartitionOutput(self.metadata, self.tuples + other.tuples, digest)

    def differs_from(self, other: "PartitionOutput") -> bool:
        """Return whether the tuples of two emissions are certainly different."""
        return self.tuples != other.tuples or (None not in (self.digest, other.digest) and self.digest != other.digest)


BatchOutput: TypeAlias = Mapping[Partition, PartitionOutput]


class EmitRequest(NamedTuple):
    """The values of a batch tuple, by which the coordinator asks the emitters for a batch."""

    attempt: TransactionAttempt
    metadata: Any
    """Metadata from the user's coordinator. For a spout with partitions, it is the list of partitions."""
    committed: int
    """The newest committed txid."""
    positions: Mapping[Partition, Any]
    """Metadata of the newest earlier batch with each partition, if the coordinator knows it."""
    awaited: Mapping[Partition, TransactionAttempt]
    """Live attempt of the newest earlier batch of each partition, if its emitter has not replied yet."""
    replay_metadata: Mapping[Partition, Any]
    """Metadata of the earlier emission of this txid, by partition. Empty for an opaque spout."""


@dataclass(frozen=True, slots=True)
class Record:
    """Durable state of the transactions. A record has the newest committed txid with its metadata, and the definition of the next txid."""

    committed: int = 0
    metadata: Any = None
    """Metadata of the committed txid."""
    positions: Mapping[Partition, Any] = field(default_factory=dict)
    """Metadata of the newest committed batch with each partition."""
    next_metadata: Any = None
    """Metadata of the following txid, if its commit phase has begun."""
    next_output: BatchOutput | None = None
    """Output of the following txid. None: its commit phase has not begun."""


@dataclass(slots=True)
class _Batch:
    """One open txid."""

    metadata: Any
    partitions: frozenset[Partition]
    attempt: TransactionAttempt | None = None
    """The newest attempt."""
    output: dict[Partition, PartitionOutput] = field(default_factory=dict)
    """The output that defines the batch, from a processed attempt or from the store.

    Unless the spout is opaque, replies to earlier attempts are also here.
    """
    emitted: dict[Partition, PartitionOutput] = field(default_factory=dict)
    """Output of the live attempt, as far as emitters have replied."""
    repliers: set[int] = field(default_factory=set)
    """Task ids of the emitters that have replied for the live attempt."""


class OpenBatches:
    """The open batches of a run, in the order of their txids."""

    def __init__(self, record: Record, *, emitters: int, replays_differ: bool, partitioned: bool) -> None:
        """record: durable state at the start. emitters: number of emitter tasks. replays_differ: the spout is opaque."""
        self._committed = record
        self._emitters = emitters
        self._replays_differ = replays_differ
        self._partitioned = partitioned
        self._open: dict[int, _Batch] = {}

    @property
    def positions(self) -> Mapping[Partition, Any]:
        """Metadata of the newest batch with each partition, as far as emitters have replied."""
        found = dict(self._committed.positions)
        for batch in self._open.values():
            found.update({partition: output.metadata for partition, output in (batch.emitted or batch.output).items()})
        return found

    @property
    def committed_positions(self) -> Mapping[Partition, Any]:
        """Metadata of the newest committed batch with each partition."""
        return self._committed.positions

    @property
    def newest_metadata(self) -> Any:
        """Metadata of the newest open batch, or of the committed one."""
        return next(reversed(self._open.values())).metadata if self._open else self._committed.metadata

    def begin_stored_batch(self, txid: int) -> bool:
        """Open the txid whose commit phase had begun when an earlier run ended. Return False if there is none."""
        record = self._committed
        if self._open or txid != record.committed + 1 or record.next_output is None:
            return False
        output = {} if self._replays_differ else dict(record.next_output)
        self._open[txid] = _Batch(record.next_metadata, self._partitions_of(record.next_metadata), output=output)
        return True

    def begin_batch(self, txid: int, metadata: Any) -> None:
        """Open a new txid. Raises EngineBug unless it is the next one."""
        if txid != self._committed.committed + len(self._open) + 1:
            raise EngineBug("a txid was left out", txid=txid, open=tuple(self._open), committed=self._committed.committed)
        self._open[txid] = _Batch(metadata, self._partitions_of(metadata))

    def _partitions_of(self, metadata: Any) -> frozenset[Partition]:
        return frozenset(metadata) if self._partitioned else frozenset()

    def begin_attempt(self, attempt: TransactionAttempt) -> EmitRequest:
        """Begin an attempt, and return the request for its emitters."""
        batch = self._open[attempt.txid]
        if not self._replays_differ:
            # A later batch may have begun at the end of a replied partition, so a replay must end at the same position.
            replied = {partition: output for partition, output in batch.emitted.items() if partition != UNPARTITIONED}
            batch.output = {**replied, **batch.output}
            self._forget_later(attempt.txid, batch.partitions - batch.output.keys())
        batch.attempt, batch.emitted, batch.repliers = attempt, {}, set()
        replay_metadata = {} if self._replays_differ else {partition: output.metadata for partition, output in batch.output.items()}
        positions, awaited = self._positions_before(attempt.txid)
        return EmitRequest(attempt, batch.metadata, self._committed.committed, positions, awaited, replay_metadata)

    def _forget_later(self, txid: int, partitions: Set[Partition]) -> None:
        """Forget the output of later batches in partitions whose end at this txid is not known any more.

        Jobs on Spark run side by side, so a later batch may have replied first. It began at a position that the replay may not end at.
        """
        for later, batch in self._open.items():
            if later > txid:
                for partition in partitions:
                    batch.output.pop(partition, None)
                    batch.emitted.pop(partition, None)

    def changes_partitions(self, txid: int) -> bool:
        """Return whether the previous open batch has other partitions, so that partitions may move to other emitters."""
        before = self._open.get(txid - 1)
        return before is not None and before.metadata != self._open[txid].metadata

    def _positions_before(self, txid: int) -> tuple[dict[Partition, Any], dict[Partition, TransactionAttempt]]:
        """Return the positions before a txid. For an unknown position, return the attempt whose reply will tell it."""
        positions: dict[Partition, Any] = {}
        awaited: dict[Partition, TransactionAttempt] = {}
        left = set(self._open[txid].partitions)
        for batch in reversed([batch for earlier, batch in self._open.items() if earlier < txid]):
            for partition in left & batch.partitions:
                if partition in batch.emitted:
                    positions[partition] = batch.emitted[partition].metadata
                else:
                    assert batch.attempt is not None
                    awaited[partition] = batch.attempt
            left -= batch.partitions
        committed = self._committed.positions
        positions.update({partition: committed[partition] for partition in left if partition in committed})
        return positions, awaited

    def note_output(self, txid: int, task: int, output: BatchOutput) -> None:
        """Add the reply of an emitter for the live attempt of a txid."""
        batch = self._open[txid]
        batch.repliers.add(task)
        for partition, added in output.items():
            earlier = batch.emitted.get(partition)
            batch.emitted[partition] = added if earlier is None else earlier.plus(added)

    def define_batch(self, txid: int) -> None:
        """Define a batch by its live attempt, which is processed. Raises FatalError if a replay emitted other tuples (TX-7)."""
        batch = self._open[txid]
        if len(batch.repliers) != self._emitters:
            raise EngineBug("a batch is processed before all its emitters have replied", txid=txid, repliers=sorted(batch.repliers))
        if not self._replays_differ:
            for partition, output in batch.output.items():
                again = batch.emitted.get(partition)
                if again is None or output.differs_from(again):
                    raise _differs(txid, partition, output, again)
        batch.output = dict(batch.emitted)

    def record_to_save(self, txid: int) -> Record:
        """Return the record to store before the commit phase of a txid."""
        batch, committed = self._open[txid], self._committed
        return Record(committed.committed, committed.metadata, committed.positions, batch.metadata, dict(batch.output))

    def note_commit(self, txid: int) -> None:
        """Close the batch of a committed txid."""
        batch = self._open.pop(txid)
        ends = {partition: output.metadata for partition, output in batch.output.items() if partition != UNPARTITIONED}
        self._committed = Record(txid, batch.metadata, {**self._committed.positions, **ends})

    def forget_positions(self, partitions: Sequence[Partition]) -> None:
        """Drop the positions of partitions that are never used again, except those of open batches."""
        if not partitions:
            return
        positions = dict(self._committed.positions)
        for partition in partitions:
            if not any(partition in batch.partitions for batch in self._open.values()):
                positions.pop(partition, None)
        self._committed = replace(self._committed, positions=positions)

    @property
    def committed_record(self) -> Record:
        """The record to store at the end of a run, so that the next run begins after the committed txid."""
        return self._committed

    def is_empty(self, txid: int) -> bool:
        """Return whether a defined batch has no tuples."""
        return not any(output.tuples for output in self._open[txid].output.values())


def _differs(txid: int, partition: Partition, output: PartitionOutput, again: PartitionOutput | None) -> FatalError:
    where = f"txid {txid}" if partition == UNPARTITIONED else f"partition {partition!r} of txid {txid}"
    now = "no such partition" if again is None else f"{again.tuples:,}"
    if again is not None and again.tuples == output.tuples:
        now += ", others"
    return FatalError(
        f"{where} was emitted again with different tuples: {output.tuples:,} tuples the first time, now {now}",
        hint="A transactional spout must emit the same tuples for the same txid. If the source cannot, use an "
        "OpaquePartitionedTransactionalSpout with opaque values.",
    )
