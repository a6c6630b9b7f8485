"""Subclasses of the product's consumer that write a journal of each step, and die at named steps."""

import asyncio
import itertools
import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from aiokafka.conn import AIOKafkaConnection

from engine.errors import Failure
from engine.kafka.client.consumer_link import Batches, ConsumerLink
from engine.kafka.client.partition import Membership, PartitionId
from engine.kafka.dead_letters.dead_letter_writer import DeadLetterWriter
from engine.kafka.source import consumer_loop as consuming
from engine.kafka.source import spout as kafka_spout
from engine.kafka.source import start_positions
from engine.kafka.source.commit_loop import CommitLoop
from engine.kafka.source.consumer_loop import ConsumerLoop
from engine.kafka.source.offset_manager import Commit, OffsetManager
from engine.kafka.source.partitions import Partitions
from tests.checkpoint.killed_bolts import Death
from tests.kafka.torture.journal import Journal

STEPS = (
    "after fetch",
    "before done",
    "after ack",
    "before commit",
    "within commit",
    "after commit",
    "within drain",
    "after drain",
    "after revoke",
    "after assignment",
    "before opening",
    "within opening",
    "after opening",
)
"""Steps at which a process may die by kill -9. `before done` and `after ack` belong to the bolt."""

AFTER_DEAD_LETTER = "after dead letter"
"""Another step, for records that are given up."""

AT_MOST_ONCE_STEPS = tuple(step for step in STEPS if not step.endswith(" drain"))
"""At most once drains nothing, because no record is in flight."""


class Watch:
    """Watch of one process: call `watch = Watch(...)`, then `watch.begin()` before any spout is made."""

    def __init__(self, journal: Journal, death: Death) -> None:
        self.journal, self.death = journal, death

    def begin(self) -> None:
        """Put the watched classes in the place of the product's."""
        spout_module: Any = kafka_spout
        consuming_module: Any = consuming
        spout_module.Partitions = partial(WatchedPartitions, self)
        spout_module.ConsumerLoop = partial(WatchedConsumerLoop, self)
        consuming_module.CommitLoop = WatchedCommitLoop
        consuming_module.ConsumerLink = partial(WatchedLink, self)
        spout_module.DeadLetterWriter = partial(WatchedDeadLetterWriter, self)
        self._die_within_commit()
        self._die_within_opening()

    def _die_within_commit(self) -> None:
        send = AIOKafkaConnection.send

        def sent(connection: AIOKafkaConnection, request: Any, *rest: Any, **more: Any) -> Any:
            waiting = send(connection, request, *rest, **more)
            if type(request).__name__.startswith("OffsetCommit"):
                self.death.at("within commit")
            return waiting

        AIOKafkaConnection.send = sent

    def _die_within_opening(self) -> None:
        module: Any = start_positions
        find = module.find_start_positions

        async def found(*arguments: Any) -> Any:
            positions = await find(*arguments)
            self.death.at("within opening")
            return positions

        module.find_start_positions = found


class WatchedPartitions(Partitions):
    """Writes opened and given-up partitions into the journal, with the reason."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch
        self.task = 0
        self.is_lost = self.is_committed = False
        """Since the last revoke: the group has removed this member; all acked offsets are committed."""
        self.in_flight_of: dict[PartitionId, int] = {}
        self.decided = 0

    def suspend(self) -> None:
        super().suspend()
        self.is_lost = self.is_committed = False
        self.note_in_flight()

    def note_in_flight(self) -> None:
        """Note how much is in flight now, before what is acked is committed."""
        self.decided = time.monotonic_ns()
        self.in_flight_of = {manager.partition: manager.in_flight for manager in self}

    def assign(self, assigned: Collection[PartitionId], membership: Membership | None) -> tuple[list[OffsetManager], list[OffsetManager]]:
        before = membership
        kept, given_up = super().assign(assigned, membership)
        reason = "lost" if self.is_lost else "drained" if self.is_committed else "uncommitted"
        self._note_given_up([manager.partition for manager in given_up], reason)
        self._watch.journal.write("a", self.task, before.generation if before else 0, *(one.partition.partition for one in kept))
        return kept, given_up

    def open_partition(self, manager: OffsetManager) -> None:
        super().open_partition(manager)
        self._watch.journal.write("o", self.task, manager.partition.partition, manager.position)
        self._watch.death.at("after opening")

    def reopen_partition(self, partition: PartitionId) -> None:
        super().reopen_partition(partition)
        self._note_given_up([partition], "reset")

    def close_all(self) -> None:
        self._note_given_up(list(self.owned), "closed" if self.is_committed else "uncommitted")
        super().close_all()

    def _note_given_up(self, partitions: list[PartitionId], reason: str) -> None:
        for one in partitions:
            self._watch.journal.write("g", self.task, one.partition, reason, self.in_flight_of.get(one, 0), self.decided)


class WatchedConsumerLoop(ConsumerLoop):
    """Writes the events of the group into the journal, and dies at the steps of a rebalance."""

    partitions: WatchedPartitions

    def __init__(self, watch: Watch, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._watch = watch
        self.partitions.task = self._task_index

    async def _revoked(self) -> None:
        self._watch.journal.write("v", self._task_index)
        known = self._link is not None and self._link.membership == self.partitions.membership
        await super()._revoked()
        self.partitions.is_lost = not known
        if self.partitions.owned:
            self._watch.death.at("after revoke")

    async def _wait_until_quiet(self, *arguments: Any) -> None:
        if self.partitions.in_flight:
            self._watch.death.at("within drain")
        await super()._wait_until_quiet(*arguments)
        self.partitions.note_in_flight()
        self._watch.death.at("after drain")

    def _assigned(self, assigned: Collection[PartitionId], membership: Membership | None) -> None:
        super()._assigned(assigned, membership)
        if self.partitions.opening:
            self._watch.death.at("after assignment")

    async def _open(self, *arguments: Any) -> None:
        self._watch.death.at("before opening")
        await super()._open(*arguments)

    def _feed(self, link: ConsumerLink, batches: Batches) -> None:
        super()._feed(link, batches)
        if self.partitions.waiting:
            self._watch.death.at("after fetch")


class WatchedCommitLoop(CommitLoop):
    """Notes whether the last commit of a revoke or of the end succeeded."""

    _partitions: WatchedPartitions

    async def _commit(self, link: ConsumerLink) -> None:
        is_last = self._partitions.suspended
        await super()._commit(link)
        self._partitions.is_committed = is_last


class WatchedDeadLetterWriter(DeadLetterWriter):
    """Writes each acknowledged letter into the journal, before the spout knows of it."""

    def __init__(self, watch: Watch, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._watch = watch

    def send_failed_record(self, record: Any, failure: Failure, attempts: int) -> "asyncio.Future[None]":
        sent = super().send_failed_record(record, failure, attempts)
        sent.add_done_callback(lambda done: self._arrived(record, done))
        return sent

    def _arrived(self, record: Any, done: "asyncio.Future[None]") -> None:
        if not done.cancelled() and done.exception() is None:
            self._watch.journal.write("l", record.partition, record.offset)
            self._watch.death.at("after dead letter")


class WatchedLink(ConsumerLink):
    """Writes each commit into the journal, and dies before or after it."""

    _numbers = itertools.count()

    def __init__(self, watch: Watch, config: Any, client_id: str, *rest: Any) -> None:
        super().__init__(config, client_id, *rest)
        self._watch = watch
        self._task = client_id.rsplit(".", 1)[1]

    async def commit(self, commits: Mapping[PartitionId, Commit], membership: Membership | None) -> None:
        number = next(self._numbers)
        self._watch.death.at("before commit")
        for at, one in commits.items():
            self._watch.journal.write("s", number, self._task, at.partition, one.offset, one.metadata)
        try:
            await super().commit(commits, membership)
        except BaseException as error:
            self._watch.journal.write("x", number, type(error).__name__)
            raise
        self._watch.journal.write("c", number)
        self._watch.death.at("after commit")
