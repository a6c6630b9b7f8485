"""The coroutine that owns the consumer of a spout task connects, polls, commits and handles rebalances."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from aiokafka import errors

from engine.api import TaskContext
from engine.kafka.client.connect import connect, wait_for_topics, watch_brokers
from engine.kafka.client.consumer_link import Batches, ConsumerLink
from engine.kafka.client.errors import BACKOFF, KafkaWarning, RetryPolicy
from engine.kafka.client.partition import BrokenRecord, Membership, PartitionId
from engine.kafka.client.topic_lookup import log_found_topics
from engine.kafka.source import start_positions
from engine.kafka.source.assignment import assign_by_index
from engine.kafka.source.commit_loop import CommitLoop
from engine.kafka.source.ledger_positions import LedgerPositions
from engine.kafka.source.offset_manager import OffsetManager
from engine.kafka.source.partitions import Partitions
from engine.kafka.source.session_watch import SessionWatch
from engine.kafka.source.spout_callbacks import SpoutCallbacks
from engine.kafka.source.spout_config import KafkaSpoutConfig
from engine.kafka.source.start_positions import LostPosition, StartPosition, StartSearch
from engine.kafka.source.start_report import StartReport
from engine.kafka.source.undecodable import Move, UndecodableRecord, reset_group, set_position, undecodable_error

_POLL_SECS: Final = 0.5
_IDLE_POLL_SECS: Final = 60.0  # the client leaves its group after max_poll_interval_ms (5 minutes) without a poll
_END_COMMIT_SECS: Final = 4.0
_NOTHING: Final[Mapping[PartitionId, LostPosition]] = MappingProxyType({})


class ConsumerLoop:
    """Runs the consumer of a spout task. The spout only takes records from `partitions`."""

    def __init__(
        self,
        config: KafkaSpoutConfig,
        context: TaskContext,
        client_id: str,
        partitions: Partitions,
        spout: SpoutCallbacks,
        ledger: LedgerPositions | None = None,
    ) -> None:
        """ledger: the positions of an exact spout. None: the group has the positions."""
        self.partitions = partitions
        self._ledger = ledger
        self.commits: CommitLoop | LedgerPositions = ledger or CommitLoop(config, context, partitions, spout.report)
        self._starts = StartReport(config, context, spout.report)
        self._config, self._topology, self._clock, self._spout = config, context.topology_name, context.clock, spout
        self._client_id, self._task_index, self._tasks = client_id, context.task_index, context.tasks
        self._component_id = context.component_id
        self._link: ConsumerLink | None = None
        self._ending: asyncio.Task[None] | None = None
        self._session: SessionWatch | None = None
        self._room = asyncio.Event()
        self._assignments = 0
        self._at_first: frozenset[PartitionId] | None = None
        """Partitions that existed at the first assignment."""
        self._topics: set[str] | None = None
        """Topics that existed at any assignment."""
        self._undecodable = UndecodableRecord()

    # Start and stop

    async def run(self) -> None:
        """Connect, join the group, and read until cancelled. At the end commit and leave the group, also after an error."""
        try:
            self._link = link = await self._connect()
            silence_secs = 2 * self._config.heartbeat_interval_ms / 1000
            self._spout.start_task(watch_brokers(self._config, link, silence_secs, self._spout.report))
            await wait_for_topics(link, self._config, self._spout.report)
            if self._config.membership == "group":
                link.subscribe()
                self._watch_session(link)
            else:
                self._spout.start_task(assign_by_index(link, self._config, self._task_index, self._tasks, self._spout.report))
            self._spout.start_task(self.commits.commit_periodically(link))
            await self._keep_polling(link)
        finally:
            self._ending = asyncio.ensure_future(self._end())  # in a separate task, because the current task may be cancelled again

    async def wait_closed(self) -> None:
        """Wait for the last commit and for the leave of the group. Either may have failed, with a warning."""
        if self._ending is not None:
            await self._ending

    def _watch_session(self, link: ConsumerLink) -> None:
        """Watch the session. With at most once do nothing, because waiting records are already committed, so no other member reads them."""
        if self._config.guarantee != "at_most_once":
            period_secs = self._config.heartbeat_interval_ms / 1000
            most_secs = self._config.session_timeout_ms / 1000 - period_secs
            self._session = SessionWatch(link, self.partitions, self._clock, most_secs=most_secs, period_secs=period_secs)

    async def _end(self) -> None:
        self.partitions.suspend()
        if self._session is not None:
            self._session.stop()
        link, self._link = self._link, None
        if link is None:
            return
        try:
            await self.commits.commit(link, _END_COMMIT_SECS, is_last=True)
        finally:
            self._spout.forget_partitions(list(self.partitions))
            self._keep_positions(self.partitions)
            self.partitions.close_all()
            if not await link.stop():
                self._spout.report(
                    KafkaWarning(
                        "the consumer could not leave its group: no broker answered",
                        hint="Other members get its partitions after session_timeout_ms.",
                    )
                )

    def _keep_positions(self, managers: Iterable[OffsetManager]) -> None:
        """Keep the positions of windows that are about to be closed, because their records are emitted."""
        for manager in managers:
            if self._ledger is not None:
                self._ledger.close_partition(manager)

    async def _connect(self) -> ConsumerLink:
        instance = self._config.group_instance_id
        instance = f"{instance}-{self._task_index}" if instance else None
        make = lambda: ConsumerLink(self._config, self._client_id, instance, self._revoked, self._assigned)  # noqa: E731 - short
        return await connect(make, self._config, self._spout.report)

    def end_of(self, partition: PartitionId) -> int | None:
        """Return the end of a partition. None if unknown."""
        return None if self._link is None else self._link.end_of(partition)

    def is_read_to_end(self, manager: OffsetManager) -> bool:
        """Return True if the window has all records of its partition, by a recent answer of the brokers."""
        end = None if self._link is None or manager.is_paused else self._link.ends.newest(manager.partition)
        return end is not None and manager.position >= end

    # Partitions

    async def _revoked(self) -> None:
        """Prepare for a rebalance. Stop emitting, drain records in flight, and commit. Then the client rejoins (KS-6)."""
        link, partitions = self._link, self.partitions
        partitions.suspend()
        if link is None or not partitions.owned or link.membership != partitions.membership:
            return
        try:
            if self._config.guarantee == "at_least_once":
                self._spout.hurry_checkpoints(on=True)
                await self._wait_until_quiet(self._config.revoke_drain_ms / 1000, lambda: self.partitions.in_flight)
            await self.commits.commit(link, (self._config.rebalance_timeout_ms - self._config.revoke_drain_ms) / 2000)  # half of the rest
        except Exception as error:  # noqa: BLE001 - reported; aiokafka would only log it
            self._spout.report(error)
        finally:
            self._spout.hurry_checkpoints(on=False)

    async def _wait_until_quiet(self, most_secs: float, has_work: Callable[[], object]) -> None:
        """Wait up to `most_secs` until `has_work` is false. Check whenever a partition has nothing in flight."""
        quiet = asyncio.Event()
        for manager in self.partitions:
            manager.when_quiet(quiet.set)
        try:
            async with asyncio.timeout(most_secs):
                while has_work():
                    quiet.clear()
                    await quiet.wait()
        except TimeoutError:
            pass
        finally:
            for manager in self.partitions:
                manager.when_quiet(None)

    def _assigned(self, assigned: Collection[PartitionId], membership: Membership | None) -> None:
        """Handle an assignment. Continue kept partitions, and find the start positions of new partitions."""
        link = self._link
        if link is None:
            return
        self._assignments += 1
        if self._ledger is not None:
            self._ledger.note_topics(link.all_partitions(), at_first=self._at_first is None)
        if self._at_first is None:
            self._at_first = link.all_partitions()
        self._note_topics(link)
        if self._config.guarantee == "at_most_once" and membership is not None:
            # The commit at the revocation excluded the waiting records, so the next owner emits them. Drop them here.
            self._give_up(self.partitions.assign((), membership)[1])
        before = self.partitions.membership
        kept, given_up = self.partitions.assign(assigned, membership)
        if given_up and membership is not None and not membership.follows(before):
            text = f"group {self._config.group!r} removed this member: the new owners process its records in flight again"
            hint = "Find the component that blocks the event loop, or raise session_timeout_ms."
            if self._config.group_instance_id is not None:
                hint += " Another reason: a second process has the same group_instance_id. Each needs its own."
            self._spout.report(KafkaWarning(text, hint=hint))
        self._give_up(given_up)
        for manager in kept:
            manager.is_paused = False  # the client's new assignment has no paused partitions
            link.seek(manager.partition, manager.position)
        if link.is_missing_topics and (membership is not None or self._config.pattern is None):
            self._spout.start_task(wait_for_topics(link, self._config, self._spout.report))
        if self.partitions.opening:
            self._spout.start_task(self._open(link, set(self.partitions.opening), self._assignments))
        self._spout.wake()

    def _note_topics(self, link: ConsumerLink) -> None:
        """Log topics that the pattern has found for the first time, except at the first assignment."""
        found = {one.topic for one in link.all_partitions()}
        if self._config.pattern is not None and self._topics is not None:
            log_found_topics(found - self._topics)
        self._topics = found | (self._topics or set())

    def _give_up(self, managers: list[OffsetManager]) -> None:
        if managers:
            self._spout.forget_partitions(managers)

    async def _open(
        self,
        link: ConsumerLink,
        partitions: Collection[PartitionId],
        assignment: int,
        unread: Mapping[PartitionId, LostPosition] = _NOTHING,
    ) -> None:
        """Find the start positions of these partitions and open them. Do nothing if the group has rebalanced meanwhile."""
        retry_policy = RetryPolicy(self._spout.report)
        while True:
            try:
                search = self._search(partitions, unread)
                found = await start_positions.find_start_positions(link, self._config, self._topology, search)
                if self._ledger is not None and not await self._ledger.is_sure(found):
                    continue
                if assignment != self._assignments or link is not self._link:
                    return
                managers = {partition: self._manager(link, partition, start) for partition, start in found.items()}
                await self._commit_starts(link, [managers[partition] for partition, start in found.items() if start.must_commit])
                break
            except Exception as error:  # noqa: BLE001 - retried or raised
                await retry_policy.wait_or_raise(error, f"finding the start positions of {', '.join(map(str, sorted(partitions)))}")
        if assignment != self._assignments or link is not self._link:
            return
        for partition, start in found.items():
            if link.is_assigned(partition):
                self._starts.note_start(partition, start)
                link.logs.begin(partition, start.offset, managers[partition].mark)
                link.seek(partition, start.offset)
                self.partitions.open_partition(managers[partition])
        self._spout.wake()

    def _search(self, partitions: Collection[PartitionId], unread: Mapping[PartitionId, LostPosition]) -> StartSearch:
        if self._ledger is not None:
            return StartSearch(partitions, unread, self._ledger.added(partitions), self._ledger.stored(partitions))
        return StartSearch(partitions, unread, set(partitions) - (self._at_first or frozenset()))

    async def _commit_starts(self, link: ConsumerLink, managers: Collection[OffsetManager]) -> None:
        """With at least once, commit start positions that a later start would not find.

        Without this commit a restart would begin at a higher offset, and would lose records that this process emitted and did not finish.
        """
        if self._config.guarantee != "at_least_once":
            return
        try:
            await self.commits.commit_starts(link, managers)
        except errors.CommitFailedError:
            if self._config.membership == "group":
                raise
            # The group has members that subscribed, so the broker refuses each commit of this spout. commit() reports this.

    def _manager(self, link: ConsumerLink, partition: PartitionId, start: StartPosition) -> OffsetManager:
        limit = self._config.max_uncommitted_offsets
        most_waiting = self._config.max_poll_records if self._config.on_failure == "stop_partition" else None
        manager = OffsetManager(
            partition, start.offset, limit=limit, committed=start.committed, skips=start.skips, most_waiting=most_waiting
        )
        manager.metadata, manager.foreign_metadata = start.metadata, start.foreign_metadata
        manager.counts_uncommitted = self._ledger is None
        manager.mark = start.mark or link.logs.current(partition)
        manager.stop_at = start.last if self._config.stop_at_end else None
        return manager

    async def _reset(self, link: ConsumerLink, error: errors.OffsetOutOfRangeError) -> None:
        """Reopen partitions whose next offset does not exist: it was deleted, or the log is another one (KS-7, KS-15).

        Ignore other offsets. Before `_open` seeks, the client starts at the committed offset, and its error about this offset may come
        late.
        """
        offsets: Mapping[Any, int] = error.args[0] if error.args else {}
        owned = self.partitions.owned
        lost = [owned[PartitionId(*at)] for at, offset in offsets.items() if at in owned and owned[PartitionId(*at)].position == offset]
        unread = {}
        for manager in lost:
            unfinished = manager.committable if self._config.guarantee == "at_least_once" else manager.position
            mark = link.logs.mark_at(manager.partition, manager.position)
            at = LostPosition(manager.position, unfinished, mark)
            if self._ledger is not None:
                at = at._replace(skips=tuple(manager.acked_runs()))
            self._keep_positions([manager])
            unread[manager.partition] = at
            self.partitions.reopen_partition(manager.partition)
        self._give_up(lost)
        if unread:
            self._spout.start_task(self._open(link, unread, self._assignments, unread))
        else:
            await asyncio.sleep(BACKOFF.first_secs)  # the client repeats the error until a seek

    # Polling

    async def _keep_polling(self, link: ConsumerLink) -> None:
        retry_policy = RetryPolicy(self._spout.report)
        while True:
            try:
                await self._wait_for_room(link)
                link.resume([manager.partition for manager in self.partitions.to_resume()])  # the partition is no longer full or stopped
                link.pause([manager.partition for manager in self.partitions.to_pause()])
                batches = await link.poll(_POLL_SECS, self._undecodable.most_records(self.partitions.owned, self._config.max_poll_records))
                if batches and self._config.guarantee == "at_most_once" and isinstance(self.commits, CommitLoop):
                    batches = await self.commits.commit_before_emit(link, batches)
                self._feed(link, batches)
                retry_policy.reset()
            except errors.NoOffsetForPartitionError:
                await asyncio.sleep(BACKOFF.first_secs)  # the partition is being opened
            except errors.OffsetOutOfRangeError as error:
                await self._reset(link, error)
            except Exception as error:  # noqa: BLE001 - retried or raised
                undecodable = link.undecodable()
                link.reread({manager.partition: manager.position for manager in self.partitions})
                if undecodable is not None:
                    await self._read_up_to(undecodable, error)
                    continue
                await retry_policy.wait_or_raise(error, self._doing)

    async def _read_up_to(self, place: BrokenRecord, error: Exception) -> None:
        """Handle a record that cannot be decoded. Wait for the records before it, then end the run with an error."""
        if self._undecodable.is_reached(place, self.partitions.owned, error):
            await self._wait_until_quiet(self._config.revoke_drain_ms / 1000, lambda: self.partitions.waiting or self.partitions.in_flight)
            raise undecodable_error(place, error, self._move)

    @property
    def _move(self) -> Move | None:
        """The command that moves the position of a partition. None if no position is stored."""
        if self._ledger is not None:
            return partial(set_position, self._topology, self._component_id)
        return None if self._config.group is None else partial(reset_group, self._config.group)

    @property
    def _doing(self) -> str:
        what = (
            f"topics {', '.join(map(repr, self._config.topics))}" if self._config.topics else f"topics that match {self._config.pattern!r}"
        )
        return f"reading {what}" + (f" as group {self._config.group!r}" if self._config.group else "")

    async def _wait_for_room(self, link: ConsumerLink) -> None:
        """Wait until fewer records wait than one poll returns. Poll meanwhile, so that the group does not remove this member."""
        while self.partitions.waiting >= self._config.max_poll_records:
            self._room.clear()
            self.partitions.on_low(self._room.set, below=self._config.max_poll_records)
            try:
                async with asyncio.timeout(_IDLE_POLL_SECS):
                    await self._room.wait()
            except TimeoutError:
                everything = list(self.partitions.owned)
                link.pause(everything)
                try:
                    await link.poll(0, self._config.max_poll_records)
                finally:
                    link.resume([one for one in everything if one in self.partitions.owned and not self.partitions.owned[one].is_paused])

    def _feed(self, link: ConsumerLink, batches: Batches) -> None:
        owned = self.partitions.owned
        has_new = False
        for partition, records in batches.items():
            manager = owned.get(partition)
            if manager is not None:  # a partition that is not open yet gets a seek later
                if manager.stop_at is not None and records[-1].offset >= manager.stop_at:
                    records = [one for one in records if one.offset < manager.stop_at]
                has_new = manager.feed(records) > 0 or has_new
        for manager in self.partitions:
            position = link.position(manager.partition)
            if position is not None:
                manager.reach(position)
                manager.mark = link.logs.mark_at(manager.partition, position)
        self.commits.commit_if_full()
        if has_new or self._config.stop_at_end:
            self._spout.wake()

    async def commit(self) -> None:
        """Commit finished offsets. Do nothing during a rebalance, because the rebalance commits them.

        Do nothing with at most once, because waiting records are already committed. A crash after a lower commit could repeat these
        records.
        """
        link = self._link
        if link is not None and not self.partitions.suspended and self._config.guarantee != "at_most_once":
            await self.commits.commit(link)
