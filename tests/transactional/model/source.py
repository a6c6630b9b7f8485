"""The three kinds of spouts of the model: their metadata is [from, to), so what a batch was can be told from what was saved."""

import random
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

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
from tests.transactional.model.shape import SPOUT, STREAMS, Item, Shape, chosen_task, item_of, streams_of
from tests.transactional.model.trouble import Trouble
from tests.transactional.model.witness import Witness

AWAY: Final = 0.2
"""The chance that a partition of an opaque spout is not there when it is to be emitted."""
LEFT_OUT: Final = 0.2
"""The chance that the coordinator does not see a partition."""


@dataclass
class Source:
    """What all parts of a spout share in one process."""

    shape: Shape
    witness: Witness
    trouble: Trouble
    draws: random.Random
    is_slow: bool
    """Its methods are async."""

    @property
    def direct_targets(self) -> Sequence[str]:
        """Who subscribes to the direct stream."""
        return self.shape.direct_targets(SPOUT)

    def length(self) -> int:
        """How much a new batch takes."""
        return self.draws.randint(self.shape.least, self.shape.most)

    def answer(self, result: Any) -> Any:
        """A result now, or later."""
        return self._later(result) if self.is_slow else result

    async def _later(self, result: Any) -> Any:
        await self.trouble.wait()
        return result


class WholeCoordinator(SpoutCoordinator[list[int]]):
    """Of a source without partitions."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def open(self) -> None:
        self.source.trouble.meet("open", self.context)

    def is_ready(self) -> Any:
        self.source.trouble.meet("is ready", self.context)
        if self.previous is not None and self.previous[1] >= self.source.shape.size:
            raise SpoutExhausted
        return self.source.answer(self.source.draws.random() < 0.9)

    def initialize_transaction(self, txid: int, previous: list[int] | None) -> Any:
        self.source.trouble.meet("define", self.context)
        begin = 0 if previous is None else previous[1]
        return self.source.answer([begin, min(begin + self.source.length(), self.source.shape.size)])


class Partitions(PartitionedCoordinator):
    """Of a source with partitions, of which some are not seen now and then."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def open(self) -> None:
        self.source.trouble.meet("open", self.context)

    def is_ready(self) -> Any:
        self.source.trouble.meet("is ready", self.context)
        shape = self.source.shape
        if all((self.positions.get(name) or [0, 0])[1] >= shape.size for name in shape.partitions):
            raise SpoutExhausted
        return self.source.answer(self.source.draws.random() < 0.9)

    def partitions(self) -> Any:
        self.source.trouble.meet("define", self.context)
        return self.source.answer([name for name in self.source.shape.partitions if self.source.draws.random() >= LEFT_OUT])


class Emits:
    """What the emitters have in common."""

    context: Any

    def __init__(self, source: Source) -> None:
        self.source = source

    def open(self) -> None:
        self.source.trouble.meet("open", self.context)

    def begins(self, attempt: TransactionAttempt) -> None:
        """Tell the witness, once for each attempt."""
        if getattr(self, "newest", None) != attempt:
            self.newest = attempt
            self.source.witness.emits((SPOUT, self.context.task_index), attempt)

    def cleanup_before(self, txid: int) -> Any:
        self.source.trouble.meet("forget", self.context)
        if txid > self.source.witness.committed + 2:
            self.source.witness.add_violation(f"an emitter is to forget what is before {txid}")
        return self.source.answer(None)

    def send(self, collector: Any, items: Iterable[Item], result: Any = None) -> Any:
        """Emit; now, or a little at a time."""
        return self._send_slowly(collector, items, result) if self.source.is_slow else self._send(collector, items, result)

    async def _send_slowly(self, collector: Any, items: Iterable[Item], result: Any) -> Any:
        for item in items:
            await self.source.trouble.wait()
            await collector.ready()
            self._one(collector, item)
        self.source.trouble.meet("emitted", self.context)
        await self.source.trouble.wait()
        return result

    def _send(self, collector: Any, items: Iterable[Item], result: Any) -> Any:
        for item in items:
            self._one(collector, item)
        self.source.trouble.meet("emitted", self.context)
        return result

    def _one(self, collector: Any, item: Item) -> None:
        self.source.trouble.meet("emit", self.context)
        for stream in streams_of(item[1]):
            collector.emit(item, stream)
        for target in self.source.direct_targets:
            collector.emit_direct(chosen_task(self.context, target, item[1]), item, "direct")


class WholeEmitter(Emits, SpoutEmitter[list[int]]):
    """Emits every n-th item of a batch."""

    def emit_batch(self, attempt: TransactionAttempt, metadata: list[int], collector: Any) -> Awaitable[None] | None:
        self.begins(attempt)
        numbers = range(*metadata)[self.context.task_index :: self.context.tasks]
        return self.send(collector, (item_of("w", number) for number in numbers))  # type: ignore[no-any-return]


class SameEmitter(Emits, PartitionedEmitter[list[int]]):
    """Emits a piece of a partition, and the same again."""

    def emit_partition_batch_new(self, attempt: TransactionAttempt, collector: Any, partition: Any, previous: list[int] | None) -> Any:
        self.begins(attempt)
        begin = 0 if previous is None else previous[1]
        metadata = [begin, min(begin + self.source.length(), self.source.shape.size)]
        return self.send(collector, (item_of(partition, number) for number in range(*metadata)), metadata)

    def emit_partition_batch(self, attempt: TransactionAttempt, collector: Any, partition: Any, metadata: list[int]) -> Any:
        self.begins(attempt)
        return self.send(collector, (item_of(partition, number) for number in range(*metadata)))


class OtherEmitter(Emits, OpaqueEmitter[list[int]]):
    """Emits a piece of a partition, each time another one, and none while the partition is away."""

    def emit_partition_batch(self, attempt: TransactionAttempt, collector: Any, partition: Any, previous: list[int] | None) -> Any:
        self.begins(attempt)
        if self.source.draws.random() < AWAY:
            return self.source.answer(previous)
        begin = 0 if previous is None else previous[1]
        metadata = [begin, min(begin + self.source.length(), self.source.shape.size)]
        return self.send(collector, (item_of(partition, number) for number in range(*metadata)), metadata)


class TakesPart:
    """An emitter that takes part in commits."""

    source: Source
    context: Any

    def commit(self, attempt: TransactionAttempt) -> Any:
        self.source.witness.takes_part(attempt)
        self.source.trouble.meet("take part", self.context)
        return self.source.answer(None)


class WholeEmitterInCommits(TakesPart, WholeEmitter):
    """Takes part."""


class SameEmitterInCommits(TakesPart, SameEmitter):
    """Takes part."""


class OtherEmitterInCommits(TakesPart, OtherEmitter):
    """Takes part."""


class Whole(TransactionalSpout[list[int]]):
    """Without partitions."""

    output_fields = STREAMS

    def __init__(self, source: Source) -> None:
        self.source = source

    def coordinator(self) -> WholeCoordinator:
        return WholeCoordinator(self.source)

    def emitter(self) -> WholeEmitter:
        return (WholeEmitterInCommits if self.source.shape.takes_part else WholeEmitter)(self.source)


class Same(PartitionedTransactionalSpout[list[int]]):
    """With partitions, always the same."""

    output_fields = STREAMS

    def __init__(self, source: Source) -> None:
        self.source = source

    def coordinator(self) -> Partitions:
        return Partitions(self.source)

    def emitter(self) -> SameEmitter:
        return (SameEmitterInCommits if self.source.shape.takes_part else SameEmitter)(self.source)


class Other(OpaquePartitionedTransactionalSpout[list[int]]):
    """With partitions, never the same."""

    output_fields = STREAMS

    def __init__(self, source: Source) -> None:
        self.source = source

    def coordinator(self) -> Partitions:
        return Partitions(self.source)

    def emitter(self) -> OtherEmitter:
        return (OtherEmitterInCommits if self.source.shape.takes_part else OtherEmitter)(self.source)


SPOUTS: Final = {"whole": Whole, "partitioned": Same, "opaque": Other}
