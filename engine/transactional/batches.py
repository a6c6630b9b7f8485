"""What defines each batch: its metadata, and what the emitters have told of it (TX-7, TX-9). Plain, like the machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias

from engine.errors import EngineBug, FatalError
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.spouts import Partition

WHOLE: Final[Partition] = ""
"""The one share of a batch whose spout has no partitions."""


class Share(NamedTuple):
    """What was emitted of one partition: by which metadata, how many tuples, and the sum of their hashes (None: some have none)."""

    metadata: Any
    tuples: int
    digest: int | None

    def plus(self, other: "Share") -> "Share":
        """Return the share of two tasks that emit of the same."""
        digest = None if self.digest is None or other.digest is None else (self.digest + other.digest) % 2**64
        return Share(self.metadata, self.tuples + other.tuples, digest)

    def differs_from(self, other: "Share") -> bool:
        """Tell whether two emissions cannot have been the same tuples."""
        return self.tuples != other.tuples or (None not in (self.digest, other.digest) and self.digest != other.digest)


Shares: TypeAlias = Mapping[Partition, Share]


class Order(NamedTuple):
    """The values of a batch tuple: what the emitters are to emit."""

    attempt: TransactionAttempt
    metadata: Any
    """Of the coordinator: of a spout with partitions, their list."""
    committed: int
    """The newest txid that is committed."""
    positions: Mapping[Partition, Any]
    """By partition, the metadata of the newest batch before it that has the partition, where that is known."""
    awaited: Mapping[Partition, TransactionAttempt]
    """By partition, the live attempt of that batch, where its emitter has not told yet."""
    shares: Mapping[Partition, Any]
    """By partition, the metadata by which this txid was emitted before; a spout whose replays differ is told none."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is durable: the newest txid that is committed, where it ended, and what defines the one that was about to be."""

    committed: int = 0
    metadata: Any = None
    """Of the committed txid."""
    positions: Mapping[Partition, Any] = field(default_factory=dict)
    """By partition, the metadata of the newest committed batch that emitted of it."""
    next_metadata: Any = None
    next_shares: Shares | None = None
    """Of the txid behind it, where its commit phase has begun."""


@dataclass(slots=True)
class _Batch:
    """One open txid."""

    metadata: Any
    partitions: frozenset[Partition]
    attempt: TransactionAttempt | None = None
    """The live one."""
    shares: dict[Partition, Share] = field(default_factory=dict)
    """As they were emitted by an attempt that is processed, or durable; where replays do not differ, also what was told of any other."""
    coming: dict[Partition, Share] = field(default_factory=dict)
    """What emitters have told of the live attempt."""
    repliers: set[int] = field(default_factory=set)


class Batches:
    """The open batches of a run, in order, behind what is committed."""

    def __init__(self, record: Record, *, emitters: int, replays_differ: bool, partitioned: bool) -> None:
        """Take what was durable, how many tasks emit, whether the spout is opaque, and whether it has partitions."""
        self._committed = record
        self._emitters = emitters
        self._replays_differ = replays_differ
        self._partitioned = partitioned
        self._open: dict[int, _Batch] = {}

    @property
    def positions(self) -> Mapping[Partition, Any]:
        """What is known of where the newest batches ended."""
        found = dict(self._committed.positions)
        for batch in self._open.values():
            found.update({partition: share.metadata for partition, share in (batch.coming or batch.shares).items()})
        return found

    @property
    def newest_metadata(self) -> Any:
        """The metadata of the newest txid that has any."""
        return next(reversed(self._open.values())).metadata if self._open else self._committed.metadata

    def begin_stored(self, txid: int) -> bool:
        """Open a txid that is defined already: its commit phase had begun when an earlier run ended. False where none had."""
        record = self._committed
        if self._open or txid != record.committed + 1 or record.next_shares is None:
            return False
        shares = {} if self._replays_differ else dict(record.next_shares)
        self._open[txid] = _Batch(record.next_metadata, self._partitions_of(record.next_metadata), shares=shares)
        return True

    def begin(self, txid: int, metadata: Any) -> None:
        """Open a new txid."""
        if txid != self._committed.committed + len(self._open) + 1:
            raise EngineBug("a txid was left out", txid=txid, open=tuple(self._open), committed=self._committed.committed)
        self._open[txid] = _Batch(metadata, self._partitions_of(metadata))

    def _partitions_of(self, metadata: Any) -> frozenset[Partition]:
        return frozenset(metadata) if self._partitioned else frozenset()

    def order(self, attempt: TransactionAttempt) -> Order:
        """Return what the emitters are to emit for an attempt that begins.

        Where replays do not differ, each partition that was told of an earlier one stays: a later batch may have begun behind it.
        """
        batch = self._open[attempt.txid]
        if not self._replays_differ:
            batch.shares = {**{partition: share for partition, share in batch.coming.items() if partition != WHOLE}, **batch.shares}
        batch.attempt, batch.coming, batch.repliers = attempt, {}, set()
        shares = {} if self._replays_differ else {partition: share.metadata for partition, share in batch.shares.items()}
        positions, awaited = self._positions_before(attempt.txid)
        return Order(attempt, batch.metadata, self._committed.committed, positions, awaited, shares)

    def goes_elsewhere(self, txid: int) -> bool:
        """Tell whether the partitions of an open txid are not those of the one before: others of the emitters have them."""
        before = self._open.get(txid - 1)
        return before is not None and before.metadata != self._open[txid].metadata

    def _positions_before(self, txid: int) -> tuple[dict[Partition, Any], dict[Partition, TransactionAttempt]]:
        """Where the partitions of a txid ended before it, and what is to tell it; an attempt that is begun anew has told nothing."""
        positions: dict[Partition, Any] = {}
        awaited: dict[Partition, TransactionAttempt] = {}
        left = set(self._open[txid].partitions)
        for batch in reversed([batch for earlier, batch in self._open.items() if earlier < txid]):
            for partition in left & batch.partitions:
                if partition in batch.coming:
                    positions[partition] = batch.coming[partition].metadata
                else:
                    assert batch.attempt is not None
                    awaited[partition] = batch.attempt
            left -= batch.partitions
        committed = self._committed.positions
        positions.update({partition: committed[partition] for partition in left if partition in committed})
        return positions, awaited

    def take(self, txid: int, task: int, shares: Shares) -> None:
        """Take in what an emitter tells of the live attempt of a txid."""
        batch = self._open[txid]
        batch.repliers.add(task)
        for partition, share in shares.items():
            earlier = batch.coming.get(partition)
            batch.coming[partition] = share if earlier is None else earlier.plus(share)

    def settle(self, txid: int) -> None:
        """The live attempt of a txid is processed: it defines the batch. Raise FatalError where a replay was another batch (TX-7)."""
        batch = self._open[txid]
        if len(batch.repliers) != self._emitters:
            raise EngineBug("a batch is processed that not all have emitted", txid=txid, repliers=sorted(batch.repliers))
        if not self._replays_differ:
            for partition, share in batch.shares.items():
                again = batch.coming.get(partition)
                if again is None or share.differs_from(again):
                    raise _differs(txid, partition, share, again)
        batch.shares = dict(batch.coming)

    def record(self, txid: int) -> Record:
        """Return what must be durable before anything of a txid is committed."""
        batch, committed = self._open[txid], self._committed
        return Record(committed.committed, committed.metadata, committed.positions, batch.metadata, dict(batch.shares))

    def commit(self, txid: int) -> None:
        """Note that a txid is committed."""
        batch = self._open.pop(txid)
        ends = {partition: share.metadata for partition, share in batch.shares.items() if partition != WHOLE}
        self._committed = Record(txid, batch.metadata, {**self._committed.positions, **ends})

    def forget(self, partitions: Sequence[Partition]) -> None:
        """Drop the positions of partitions that never come again, unless an open batch has them."""
        if not partitions:
            return
        positions = dict(self._committed.positions)
        for partition in partitions:
            if not any(partition in batch.partitions for batch in self._open.values()):
                positions.pop(partition, None)
        self._committed = replace(self._committed, positions=positions)

    @property
    def committed_record(self) -> Record:
        """What must be durable for the next run to begin behind what is committed."""
        return self._committed

    def is_empty(self, txid: int) -> bool:
        """Tell whether a batch that is settled had no tuples: the source may be idle."""
        return not any(share.tuples for share in self._open[txid].shares.values())


def _differs(txid: int, partition: Partition, share: Share, again: Share | None) -> FatalError:
    where = f"txid {txid}" if partition == WHOLE else f"partition {partition!r} of txid {txid}"
    now = "no such partition" if again is None else f"{again.tuples:,}"
    if again is not None and again.tuples == share.tuples:
        now += ", others"
    return FatalError(
        f"{where} was emitted again, and is another batch: {share.tuples:,} tuples the first time, now {now}",
        hint="A transactional spout emits the same tuples for the same txid, for ever. A source that cannot is an "
        "OpaquePartitionedTransactionalSpout, and goes with opaque values.",
    )
