"""Adapters that give the three kinds of spouts one interface, for the coordinator and for the emitters."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Literal, TypeAlias

from engine.api import SpoutExhausted, TaskContext
from engine.errors import FatalError, UsageError
from engine.kernel import DigestingEmitter
from engine.maybe_await import maybe_await
from engine.safe_text import safe_repr
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_bolt import FailedBatch
from engine.transactional.open_batches import UNPARTITIONED, EmitRequest, PartitionOutput
from engine.transactional.spouts import (
    AnySpout,
    OpaqueEmitter,
    OpaquePartitionedTransactionalSpout,
    Partition,
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
    Positions,
    SpoutCoordinator,
    SpoutEmitter,
    TransactionalSpout,
)
from engine.transactional.transactional_state import checked_metadata, checked_partitions, copied_metadata


class NoBatch(Enum):
    """Answers of a source that has no batch."""

    NOT_READY = "nothing now"
    EXHAUSTED = "nothing more"


Answer: TypeAlias = Any | Literal[NoBatch.NOT_READY, NoBatch.EXHAUSTED]


def has_partitions(spout: AnySpout) -> bool:
    """Return whether the emitters give metadata for each partition."""
    return not isinstance(spout, TransactionalSpout)


def replays_differ(spout: AnySpout) -> bool:
    """Return whether the spout is opaque, so that a replay may be another batch."""
    return isinstance(spout, OpaquePartitionedTransactionalSpout)


# The coordinator's side


class CoordinatorAdapter(ABC):
    """Adapter of a user's coordinator."""

    wrapped: SpoutCoordinator[Any] | PartitionedCoordinator

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        self._what = type(wrapped).__name__
        self.asked: tuple[object, ...] = ()
        """Awaitables of the newest call of `next_batch`. Discard them if you do not await the answer."""

    def next_batch(self, txid: int, newest_metadata: Any, positions: Positions) -> Answer | Awaitable[Answer]:
        """Return the metadata of the next batch, or the reason why there is none."""
        self._look(newest_metadata, positions)
        try:
            ready = self.wrapped.is_ready()
        except SpoutExhausted:
            return NoBatch.EXHAUSTED
        if inspect.isawaitable(ready):
            answer = self._when_ready(ready, txid, newest_metadata)
            self.asked = (answer, ready)
            return answer
        if not isinstance(ready, bool):
            raise self._no_bool(ready)
        return self._defined(txid, newest_metadata) if ready else NoBatch.NOT_READY

    async def _when_ready(self, ready: Awaitable[bool], txid: int, newest_metadata: Any) -> Answer:
        try:
            is_ready = await ready
        except SpoutExhausted:
            return NoBatch.EXHAUSTED
        if not isinstance(is_ready, bool):
            raise self._no_bool(is_ready)
        return await maybe_await(self._defined(txid, newest_metadata)) if is_ready else NoBatch.NOT_READY

    def _defined(self, txid: int, newest_metadata: Any) -> Any | Awaitable[Any]:
        try:
            defined = self._define(txid, newest_metadata)
        except SpoutExhausted:
            return NoBatch.EXHAUSTED
        if not inspect.isawaitable(defined):
            return self._checked(defined)
        answer = self._checked_later(defined)
        self.asked = (answer, defined)
        return answer

    async def _checked_later(self, defined: Awaitable[Any]) -> Any:
        try:
            return self._checked(await defined)
        except SpoutExhausted:
            return NoBatch.EXHAUSTED

    def _no_bool(self, given: object) -> FatalError:
        return FatalError(f"{self._what}.is_ready() returned {safe_repr(given)}", hint="Return True or False, or raise SpoutExhausted.")

    def forgotten(self, committed: Positions) -> object:
        """Return the user's answer to `forgotten()`, which may be awaitable. committed: metadata of the newest committed batches."""
        return ()

    def checked_forgotten(self, given: object) -> list[Partition]:
        """Return the checked partitions. Raises UsageError if they are not a list of names."""
        if given == ():
            return []  # the usual answer after a commit
        named = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else None
        if named is None or not all(isinstance(each, (int, str)) for each in named):
            text = f"{self._what}.forgotten() returned {safe_repr(given, 200)}"
            raise UsageError(text, hint="Return a list of partitions, which may be empty.")
        return named

    @abstractmethod
    def _look(self, newest_metadata: Any, positions: Positions) -> None:
        """Set the attributes that the user's coordinator reads."""

    @abstractmethod
    def _define(self, txid: int, newest_metadata: Any) -> Any | Awaitable[Any]:
        """Call the method of the user's coordinator that defines a batch."""

    @abstractmethod
    def _checked(self, defined: Any) -> Any:
        """Return the metadata as it will be read from the store."""


class WholeCoordinatorAdapter(CoordinatorAdapter):
    """For a spout without partitions."""

    wrapped: SpoutCoordinator[Any]

    def _look(self, newest_metadata: Any, positions: Positions) -> None:
        self.wrapped.previous = copied_metadata(newest_metadata)

    def _define(self, txid: int, newest_metadata: Any) -> Any:
        return self.wrapped.initialize_transaction(txid, copied_metadata(newest_metadata))

    def _checked(self, defined: Any) -> Any:
        return checked_metadata(defined, f"{self._what}.initialize_transaction()")


class PartitionedCoordinatorAdapter(CoordinatorAdapter):
    """Coordinator adapter for a spout with partitions. The list of partitions is the metadata of a batch."""

    wrapped: PartitionedCoordinator

    def forgotten(self, committed: Positions) -> object:
        self.wrapped.committed = _Copies(committed)
        return self.wrapped.forgotten()

    def _look(self, newest_metadata: Any, positions: Positions) -> None:
        self.wrapped.positions = _Copies(positions)

    def _define(self, txid: int, newest_metadata: Any) -> Any:
        return self.wrapped.partitions()

    def _checked(self, defined: Any) -> Any:
        return checked_partitions(defined, f"{self._what}.partitions()")


class _Copies(Mapping[Partition, Any]):
    """Positions, copied at each access, because the user may change the metadata."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions

    def __getitem__(self, partition: Partition) -> Any:
        return copied_metadata(self._positions[partition])

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)


def coordinator_adapter(spout: AnySpout) -> CoordinatorAdapter:
    """Return the adapter of a new coordinator of a spout."""
    part = spout.coordinator()
    wanted = SpoutCoordinator if isinstance(spout, TransactionalSpout) else PartitionedCoordinator
    if not isinstance(part, wanted):
        raise FatalError(f"{type(spout).__name__}.coordinator() returned {safe_repr(part)}", hint=f"Return a new {wanted.__name__}.")
    return WholeCoordinatorAdapter(part) if isinstance(part, SpoutCoordinator) else PartitionedCoordinatorAdapter(part)


# The emitters' side


class EmitterAdapter(ABC):
    """Adapter of a user's emitter: emits one task's output of a batch."""

    wrapped: SpoutEmitter[Any] | PartitionedEmitter[Any] | OpaqueEmitter[Any]

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        self.context: TaskContext = wrapped.context

    @abstractmethod
    async def emit(self, request: EmitRequest, collector: DigestingEmitter) -> dict[Partition, PartitionOutput]:
        """Emit as requested, and return the output by partition."""


class WholeEmitterAdapter(EmitterAdapter):
    """For a spout without partitions."""

    wrapped: SpoutEmitter[Any]

    async def emit(self, request: EmitRequest, collector: DigestingEmitter) -> dict[Partition, PartitionOutput]:
        result = self.wrapped.emit_batch(request.attempt, copied_metadata(request.metadata), collector)  # type: ignore[arg-type]
        if result is not None:
            await maybe_await(result)
        return {UNPARTITIONED: PartitionOutput(None, *collector.take_digest())}


class _EmitterByPartition(EmitterAdapter):
    """Emitter adapter for a spout with partitions. Keeps the metadata of emitted partitions for the following attempts."""

    def __init__(self, wrapped: Any) -> None:
        super().__init__(wrapped)
        self._emitted: dict[TransactionAttempt, dict[Partition, Any]] = {}

    async def emit(self, request: EmitRequest, collector: DigestingEmitter) -> dict[Partition, PartitionOutput]:
        self._forget_committed(request)
        outputs: dict[Partition, PartitionOutput] = {}
        for partition in self._assigned(request):
            metadata = await self._emit_partition(request, collector, partition)
            outputs[partition] = PartitionOutput(metadata, *collector.take_digest())
        self._remember(request, {partition: output.metadata for partition, output in outputs.items()})
        return outputs

    def _assigned(self, request: EmitRequest) -> Iterable[Partition]:
        """Return the partitions of this task."""
        assigned: Iterable[Partition] = request.metadata[self.context.task_index :: self.context.tasks]
        return assigned

    def _forget_committed(self, request: EmitRequest) -> None:
        self._emitted = {attempt: emitted for attempt, emitted in self._emitted.items() if attempt.txid > request.committed}

    def _remember(self, request: EmitRequest, metadata: dict[Partition, Any]) -> dict[Partition, Any]:
        self._emitted[request.attempt] = metadata
        return metadata

    @abstractmethod
    async def _emit_partition(self, request: EmitRequest, collector: DigestingEmitter, partition: Partition) -> Any:
        """Emit from one partition, and return its metadata."""

    def _previous(self, request: EmitRequest, partition: Partition) -> Any:
        """Return the metadata of the previous batch.

        Raises FailedBatch if this task does not know it: the task died since, or the partition moved here from another task.
        """
        previous = request.awaited.get(partition)
        if previous is None:
            return copied_metadata(request.positions.get(partition))
        emitted = self._emitted.get(previous, {})
        if partition not in emitted:
            raise FailedBatch(f"this task does not know yet where attempt {previous} ended in partition {partition!r}")
        return copied_metadata(emitted[partition])


class PartitionedEmitterAdapter(_EmitterByPartition):
    """Emitter adapter for a spout whose replays emit the same tuples."""

    wrapped: PartitionedEmitter[Any]

    async def emit(self, request: EmitRequest, collector: DigestingEmitter) -> dict[Partition, PartitionOutput]:
        found = ((partition, self._emitted_before(request, partition)) for partition in self._assigned(request))
        planned = {partition: copied_metadata(metadata) for partition, (known, metadata) in found if known}
        if len(planned) > 1:
            expected = self.wrapped.expect_partition_batches(request.attempt, planned)
            if expected is not None:
                await maybe_await(expected)
        return await super().emit(request, collector)

    async def _emit_partition(self, request: EmitRequest, collector: DigestingEmitter, partition: Partition) -> Any:
        known, metadata = self._emitted_before(request, partition)
        if known:
            result = self.wrapped.emit_partition_batch(request.attempt, collector, partition, copied_metadata(metadata))  # type: ignore[arg-type]
            if result is not None:
                await maybe_await(result)
            return metadata
        made = self.wrapped.emit_partition_batch_new(request.attempt, collector, partition, self._previous(request, partition))  # type: ignore[arg-type]
        return checked_metadata(await maybe_await(made), f"{type(self.wrapped).__name__}.emit_partition_batch_new()")

    def _emitted_before(self, request: EmitRequest, partition: Partition) -> tuple[bool, Any]:
        """Return whether the partition has been emitted for this txid, and its metadata."""
        if partition in request.replay_metadata:
            return True, request.replay_metadata[partition]
        # Emissions of an earlier epoch that were not saved do not count: the batches before them may differ now.
        txid, epoch = request.attempt.txid, request.attempt.epoch
        for attempt, emitted in reversed(self._emitted.items()):
            if attempt.txid == txid and attempt.epoch == epoch and partition in emitted:
                return True, emitted[partition]
        return False, None


class PlanningAdapter(PartitionedEmitterAdapter):
    """Plans the batches of all partitions, and emits nothing. Emitters in other processes emit them by the planned metadata."""

    async def plan(self, request: EmitRequest) -> dict[Partition, Any]:
        """Return the metadata of each partition of a batch."""
        self._forget_committed(request)
        return self._remember(request, {partition: await self._plan_partition(request, partition) for partition in request.metadata})

    async def _plan_partition(self, request: EmitRequest, partition: Partition) -> Any:
        known, metadata = self._emitted_before(request, partition)
        if known:
            return metadata
        planned = self.wrapped.plan_partition_batch(request.attempt, partition, self._previous(request, partition))
        return checked_metadata(await maybe_await(planned), f"{type(self.wrapped).__name__}.plan_partition_batch()")


def can_plan(emitter: object) -> bool:
    """Return whether the user's emitter has a method `plan_partition_batch`."""
    return isinstance(emitter, PartitionedEmitter) and type(emitter).plan_partition_batch is not PartitionedEmitter.plan_partition_batch


class OpaqueEmitterAdapter(_EmitterByPartition):
    """Emitter adapter for a spout whose replays may emit other tuples."""

    wrapped: OpaqueEmitter[Any]

    async def _emit_partition(self, request: EmitRequest, collector: DigestingEmitter, partition: Partition) -> Any:
        made = self.wrapped.emit_partition_batch(request.attempt, collector, partition, self._previous(request, partition))  # type: ignore[arg-type]
        return checked_metadata(await maybe_await(made), f"{type(self.wrapped).__name__}.emit_partition_batch()")


def new_emitter(spout: AnySpout) -> SpoutEmitter[Any] | PartitionedEmitter[Any] | OpaqueEmitter[Any]:
    """Return a new emitter of a spout. Raises FatalError if its class is wrong."""
    part: Any = spout.emitter()
    wanted, _ = _kinds(spout)
    if not isinstance(part, wanted):
        raise FatalError(f"{type(spout).__name__}.emitter() returned {safe_repr(part)}", hint=f"Return a new {wanted.__name__}.")
    return part  # type: ignore[no-any-return]


def emitter_adapter(spout: AnySpout, part: Any) -> EmitterAdapter:
    """Return the adapter of an emitter."""
    return _kinds(spout)[1](part)


def _kinds(spout: AnySpout) -> tuple[type[Any], type[EmitterAdapter]]:
    if isinstance(spout, TransactionalSpout):
        return SpoutEmitter, WholeEmitterAdapter
    if isinstance(spout, PartitionedTransactionalSpout):
        return PartitionedEmitter, PartitionedEmitterAdapter
    return OpaqueEmitter, OpaqueEmitterAdapter
