"""Three kinds of spouts for the model. Metadata is [from, to), so the items of a batch follow from saved metadata."""

import random
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from engine import SpoutExhausted
from engine.transactional import (
    OpaqueEmitter,
    OpaquePartitionedTransactionalSpout,
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
    SpoutCoordinator,
    SpoutEmitter,
    TransactionalSpout,
    TransactionAttempt,
)
from tests.transactional.model.faults import Faults
from tests.transactional.model.shape import SPOUT, STREAMS, Item, Shape, chosen_task, item_of, streams_of
from tests.transactional.model.tries import TRY, SharedByJobs
from tests.transactional.model.witness import Witness

AWAY: Final = 0.2
"""Chance that a partition of an opaque spout is missing when it should be emitted."""
LEFT_OUT: Final = 0.2
"""Chance that the coordinator does not see a partition."""


@dataclass
class Source(SharedByJobs):
    """State that all parts of a spout share in one process."""

    shape: Shape
    witness: Witness
    faults: Faults
    draws: random.Random
    is_slow: bool
    """Whether its methods are async."""
    plans: bool = False
    """Whether emitters of partitions plan their batches, so that executors of Spark can emit them."""

    @property
    def direct_targets(self) -> Sequence[str]:
        """Subscribers of the direct stream."""
        return self.shape.direct_targets(SPOUT)

    def length(self) -> int:
        """Number of items of a new batch."""
        return self.draws.randint(self.shape.least, self.shape.most)

    def answer(self, result: Any) -> Any:
        """Return a result now or later."""
        return self._later(result) if self.is_slow else result

    async def _later(self, result: Any) -> Any:
        await self.faults.wait()
        return result


class WholeCoordinator(SpoutCoordinator[list[int]]):
    """Coordinator of a source without partitions."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def open(self) -> None:
        self.source.faults.reach("open", self.context)

    def is_ready(self) -> Any:
        self.source.faults.reach("is ready", self.context)
        if self.previous is not None and self.previous[1] >= self.source.shape.size:
            raise SpoutExhausted
        return self.source.answer(self.source.draws.random() < 0.9)

    def initialize_transaction(self, txid: int, previous: list[int] | None) -> Any:
        self.source.faults.reach("define", self.context)
        begin = 0 if previous is None else previous[1]
        return self.source.answer([begin, min(begin + self.source.length(), self.source.shape.size)])


class Partitions(PartitionedCoordinator):
    """Coordinator of a source with partitions, some of which are temporarily missing."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def open(self) -> None:
        self.source.faults.reach("open", self.context)

    def is_ready(self) -> Any:
        self.source.faults.reach("is ready", self.context)
        shape = self.source.shape
        if all((self.positions.get(name) or [0, 0])[1] >= shape.size for name in shape.partitions):
            raise SpoutExhausted
        return self.source.answer(self.source.draws.random() < 0.9)

    def partitions(self) -> Any:
        self.source.faults.reach("define", self.context)
        return self.source.answer([name for name in self.source.shape.partitions if self.source.draws.random() >= LEFT_OUT])


class EmitterBase:
    """Common part of the emitters."""

    context: Any

    def __init__(self, source: Source) -> None:
        self.source = source

    def open(self) -> None:
        self.source.faults.reach("open", self.context)

    def begins(self, attempt: TransactionAttempt) -> None:
        """Tell the witness, once for each attempt."""
        if getattr(self, "newest", None) != attempt:
            self.newest = attempt
            (TRY.get() or self.source.witness).emits((SPOUT, self.context.task_index), attempt)

    def cleanup_before(self, txid: int) -> Any:
        self.source.faults.reach("forget", self.context)
        if txid > self.source.witness.committed + 2:
            self.source.witness.add_violation(f"an emitter is to forget what is before {txid}")
        return self.source.answer(None)

    def send(self, collector: Any, items: Iterable[Item], result: Any = None) -> Any:
        """Emit all items at once, or a few at a time."""
        return self._send_slowly(collector, items, result) if self.source.is_slow else self._send(collector, items, result)

    async def _send_slowly(self, collector: Any, items: Iterable[Item], result: Any) -> Any:
        for item in items:
            await self.source.faults.wait()
            await collector.ready()
            self._one(collector, item)
        self.source.faults.reach("emitted", self.context)
        await self.source.faults.wait()
        return result

    def _send(self, collector: Any, items: Iterable[Item], result: Any) -> Any:
        for item in items:
            self._one(collector, item)
        self.source.faults.reach("emitted", self.context)
        return result

    def _one(self, collector: Any, item: Item) -> None:
        self.source.faults.reach("emit", self.context)
        for stream in streams_of(item[1]):
            collector.emit(item, stream)
        for target in self.source.direct_targets:
            collector.emit_direct(chosen_task(self.context, target, item[1]), item, "direct")


class WholeEmitter(EmitterBase, SpoutEmitter[list[int]]):
    """EmitterBase every n-th item of a batch."""

    def emit_batch(self, attempt: TransactionAttempt, metadata: list[int], collector: Any) -> Awaitable[None] | None:
        self.begins(attempt)
        numbers = range(*metadata)[self.context.task_index :: self.context.tasks]
        return self.send(collector, (item_of("w", number) for number in numbers))  # type: ignore[no-any-return]


class SameEmitter(EmitterBase, PartitionedEmitter[list[int]]):
    """EmitterBase a piece of a partition, and the same piece in a replay."""

    def emit_partition_batch_new(self, attempt: TransactionAttempt, collector: Any, partition: Any, previous: list[int] | None) -> Any:
        self.begins(attempt)
        begin = 0 if previous is None else previous[1]
        metadata = [begin, min(begin + self.source.length(), self.source.shape.size)]
        return self.send(collector, (item_of(partition, number) for number in range(*metadata)), metadata)

    def emit_partition_batch(self, attempt: TransactionAttempt, collector: Any, partition: Any, metadata: list[int]) -> Any:
        self.begins(attempt)
        return self.send(collector, (item_of(partition, number) for number in range(*metadata)))


class PlannedEmitter(SameEmitter):
    """SameEmitter whose batches can be planned."""

    def plan_partition_batch(self, attempt: TransactionAttempt, partition: Any, previous: list[int] | None) -> Any:
        begin = 0 if previous is None else previous[1]
        return self.source.answer([begin, min(begin + self.source.length(), self.source.shape.size)])


class OtherEmitter(EmitterBase, OpaqueEmitter[list[int]]):
    """EmitterBase another piece of a partition in each replay, and nothing while the partition is missing."""

    def emit_partition_batch(self, attempt: TransactionAttempt, collector: Any, partition: Any, previous: list[int] | None) -> Any:
        self.begins(attempt)
        if self.source.draws.random() < AWAY:
            return self.source.answer(previous)
        begin = 0 if previous is None else previous[1]
        metadata = [begin, min(begin + self.source.length(), self.source.shape.size)]
        return self.send(collector, (item_of(partition, number) for number in range(*metadata)), metadata)


class CommitParticipant:
    """An emitter with a `commit` method."""

    source: Source
    context: Any

    def commit(self, attempt: TransactionAttempt) -> Any:
        self.source.witness.takes_part(attempt)
        self.source.faults.reach("take part", self.context)
        return self.source.answer(None)


class WholeEmitterInCommits(CommitParticipant, WholeEmitter): ...


class SameEmitterInCommits(CommitParticipant, SameEmitter): ...


class PlannedEmitterInCommits(CommitParticipant, PlannedEmitter): ...


class OtherEmitterInCommits(CommitParticipant, OtherEmitter): ...


class SpoutBase:
    """Common part of the spouts."""

    output_fields = STREAMS
    coordinators: ClassVar[Any]
    emitters: ClassVar[Any]
    emitters_in_commits: ClassVar[Any]

    def __init__(self, source: Source) -> None:
        self.source = source

    def coordinator(self) -> Any:
        return self.coordinators(self.source)

    def emitter(self) -> Any:
        return (self.emitters_in_commits if self.source.shape.takes_part else self.emitters)(self.source)


class Whole(SpoutBase, TransactionalSpout[list[int]]):
    """Transactional spout without partitions."""

    coordinators, emitters, emitters_in_commits = WholeCoordinator, WholeEmitter, WholeEmitterInCommits


class Same(SpoutBase, PartitionedTransactionalSpout[list[int]]):
    """Transactional spout with partitions: replays are the same."""

    coordinators, emitters, emitters_in_commits = Partitions, SameEmitter, SameEmitterInCommits

    def emitter(self) -> Any:
        if not self.source.plans:
            return super().emitter()
        return (PlannedEmitterInCommits if self.source.shape.takes_part else PlannedEmitter)(self.source)


class Other(SpoutBase, OpaquePartitionedTransactionalSpout[list[int]]):
    """Opaque spout with partitions: replays differ."""

    coordinators, emitters, emitters_in_commits = Partitions, OtherEmitter, OtherEmitterInCommits


SPOUTS: Final = {"whole": Whole, "partitioned": Same, "opaque": Other}
