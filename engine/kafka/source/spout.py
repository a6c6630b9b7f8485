"""`KafkaSpout` emits the records of Kafka topics, and tracks each record to its end (KS-1 to KS-9)."""

import asyncio
import inspect
from collections.abc import Collection, Coroutine, Hashable, Iterable
from dataclasses import replace
from typing import Any, ClassVar, Final, cast

from engine.api import BurstSpout, SpoutExhausted
from engine.errors import ERROR, FAILED, Failure, UsageError
from engine.kafka.client.errors import KafkaWarning
from engine.kafka.client.partition import PartitionId
from engine.kafka.dead_letters.dead_letter_writer import DeadLetterWriter
from engine.kafka.source.consumer_loop import ConsumerLoop
from engine.kafka.source.ledger_positions import LedgerPositions
from engine.kafka.source.metrics import PartitionMetrics
from engine.kafka.source.offset_manager import OffsetManager
from engine.kafka.source.partitions import Partitions
from engine.kafka.source.retry import RecordBackoff, RetryService
from engine.kafka.source.spout_config import KafkaSpoutConfig
from engine.kafka.source.translate import ToStream, translator_error, whole_record
from engine.kernel import Entry, RecordFeed, mark_all_done, mark_done
from engine.log import EngineLogger
from engine.runtime.error_report import error_text
from engine.topology.task_port import SpoutPortUser
from engine.undone import Undone

LOGGER: Final = EngineLogger("engine.kafka")


class KafkaSpout(BurstSpout, SpoutPortUser):
    """Reads topics of Kafka, for example `builder.set_spout("lines", lambda: KafkaSpout(config), parallelism=2)`.

    The tasks of all processes with the same group share the partitions. The message id of a tuple is the `Entry` of its record. Emits and
    acks come in bursts (BU-3). An ack stores one value into the entry, in compiled code.

    In a topology with state the spout is exact (KS-16): the checkpoints have the positions, and the tasks of the run share the partitions.
    """

    partitioned: ClassVar[bool] = True
    """Positions are dicts, with an entry for each partition of a topic."""

    def __init__(self, config: KafkaSpoutConfig) -> None:
        if not isinstance(config, KafkaSpoutConfig):
            raise UsageError(
                f"KafkaSpout was given {config!r}", hint="Write KafkaSpout(KafkaSpoutConfig(brokers=..., topics=..., group=...))."
            )
        self.config = config
        self.output_fields = config.fields
        self.fields_declared_at = "fields=... of its KafkaSpoutConfig"
        self._partitions = Partitions()
        self._tracked = config.guarantee == "at_least_once"
        self.rewinds = self._tracked  # type: ignore[misc]
        self._ledger: LedgerPositions | None = None
        self._is_exact = False
        translate = None if config.translator is whole_record else config.translator  # the default is compiled
        self._feed = RecordFeed(self._partitions, translate=translate, to_stream=ToStream, tracked=self._tracked, spout=self)
        self.next_tuples = self._feed.next_tuples  # type: ignore[method-assign]  # without a call of Python in between
        self.ack_many = mark_all_done  # type: ignore[method-assign, assignment]
        self.partition_of = self._feed.partition_of  # type: ignore[method-assign]
        self._dead_letters: DeadLetterWriter | None = None
        self._dropped = 0
        """Records that failed for good, and that no dead letter keeps."""
        self._has_ended = False
        """True after SpoutExhausted, until a rebalance assigns more partitions."""
        self._alarm: asyncio.TimerHandle | None = None
        """Timer of the next failed record."""
        self._alarm_at = 0.0
        """Due time of the timer. Stored here, because `when` of uvloop's handle fails in the last half millisecond."""

    # Start and stop

    def open(self) -> None:
        """Start to connect in the background. The first records arrive after the group has assigned partitions."""
        context, config = self.context, self.config
        if self._is_exact:
            config = replace(config, membership="assign", group_instance_id=None)
            self._ledger = LedgerPositions(config, context, self._partitions, self.report, self.port.run.request_commit)
        client_id = config.client_id or f"{context.topology_name}.{context.component_id}.{context.task_index}"
        most_retries = config.max_retries
        backoff = RecordBackoff(config.retry_initial_ms / 1000, config.retry_period_ms / 1000, config.retry_max_ms / 1000, most_retries)
        self._retries = RetryService(backoff)
        self._consumer_loop = ConsumerLoop(config, context, client_id, self._partitions, self, self._ledger)
        self._metrics = PartitionMetrics(context, self._consumer_loop)
        if config.dead_letter_topic is not None:
            self._dead_letters = DeadLetterWriter(config, context, self.report)
            context.create_task(self._dead_letters.start())
        self._feed.emit_by(self.collector)
        context.create_task(self._metrics.update_periodically())
        if self._ledger is None:
            context.create_task(self._consumer_loop.run())
        elif config.max_retries is not None:
            LOGGER.for_task(context.component_id, context.task_id).info(
                "max_retries=%d and on_give_up of the KafkaSpoutConfig apply to records that the translator cannot read. A row that fails "
                "in a bolt is repeated with its interval, and given up after max_retries of the Config", config.max_retries,
            )  # fmt: skip

    async def deactivate(self) -> None:
        """Commit acked offsets. The consumer stays a member of its group."""
        await self._consumer_loop.commit()

    async def close(self) -> None:
        """Commit acked offsets, and leave the group."""
        if self._alarm is not None:
            self._alarm.cancel()
        try:
            await self._consumer_loop.wait_closed()
        finally:
            if self._dead_letters is not None:
                await self._dead_letters.stop()

    # Positions, of an exact spout

    def let_engine_track_rows(self) -> None:
        """Be exact: read from the positions of the checkpoints, and keep no record after its emit."""
        self._is_exact = True
        self._feed.let_engine_track_rows()

    def seek(self, position: Any) -> None:
        """Begin to read behind the positions of the last checkpoint. In a run without checkpoints the group has the positions."""
        if self._ledger is not None:
            self._ledger.begin(position)
            self.context.create_task(self._consumer_loop.run())

    def position(self) -> dict[str, Any]:
        """Return the position behind the last emitted record of each partition of this task, by names such as "lines-0"."""
        return {} if self._ledger is None else self._ledger.position()

    def committed(self, position: dict[str, Any]) -> None:
        """Commit the positions of a checkpoint to the group, for tools that show a lag."""
        if self._ledger is not None:
            self._ledger.note_committed(position)

    # Records

    def next_tuples(self, limit: int) -> None:
        """Emit failed records that are due, and the next records. Instances replace this by the compiled method of the feed."""
        self._feed.next_tuples(limit)

    def ack_many(self, message_ids: list[Any]) -> None:
        """Mark records as done. Instances replace this by the compiled function."""
        mark_all_done(message_ids)

    def rest(self) -> None:
        """Handle a poll that emits nothing. Request a commit, or raise SpoutExhausted at the end."""
        self._consumer_loop.commits.commit_if_full()
        if not self.config.stop_at_end or (self._dead_letters is not None and self._dead_letters.unacknowledged):
            return
        if self._partitions.has_begun and self._partitions.have_ended:
            self._has_ended = True
            raise SpoutExhausted

    # Event time

    def partitions(self) -> Collection[Hashable]:
        """Return the assigned partitions, without those that are read to the offset at which `stop_at_end` ends."""
        known: frozenset[Hashable] = self._partitions.read_now
        return known if self._partitions.is_assignment_known else known | self.UNKNOWN_PARTITIONS

    def partition_of(self, message_id: Any) -> Hashable:
        """Return the partition of a record. Instances replace this by the compiled method of the feed."""
        return self._feed.partition_of(message_id)

    def partition_at(self, place: tuple[str, int, int]) -> PartitionId:
        """Return the partition of a row that the engine has kept, although this task does not read the partition."""
        return PartitionId(*place[:2])

    def caught_up(self, partition: Hashable = None) -> bool:
        """Return True if all records up to the end of a partition were emitted, by an answer of its broker that is not overdue.

        The end is the last stable offset with `read_committed`. An open transaction is behind it.
        """
        if partition is None:
            return all(map(self.caught_up, self.partitions()))
        manager = self._partitions.owned.get(cast(PartitionId, partition))
        if manager is None or self._partitions.suspended or manager.waiting or manager.held:
            return False
        return manager.has_ended or self._consumer_loop.is_read_to_end(manager)

    # Failures

    def fail(self, message_id: Any) -> None:
        """Retry the record after its backoff, or give it up."""
        if message_id.manager.fail(message_id):
            self._retry(message_id, self.context.failure or Failure(FAILED))

    def sends_again(self, message_id: Any) -> bool:
        """Tell whether a record is retried."""
        return self._retries.has_retry(message_id)

    def unreadable(self, entry: Entry, error: BaseException, values: object) -> None:
        """Fail a record that the translator could not translate (KS-8)."""
        if inspect.iscoroutine(values):
            values.close()  # else Python warns that the coroutine was never awaited
        manager: OffsetManager = entry.manager
        self.report(translator_error(entry.record, error))
        failure = Failure(ERROR, self.context.component_id, self.context.task_id, error_text(error))
        if not manager.fail(entry):
            return
        if self._tracked:
            self._retry(entry, failure)
        elif self._dead_letters is not None:
            self._bury(entry, failure)
        else:
            self._drop(entry)

    def _retry(self, entry: Entry, failure: Failure) -> None:
        manager: OffsetManager = entry.manager
        now = self.context.clock.now()
        if self._retries.schedule(entry, now):
            manager.retries += 1
            self._schedule_retry(now)
        elif self._dead_letters is not None:
            self._bury(entry, failure)
        else:
            self.report(
                KafkaWarning(f"{manager.partition} offset {entry.offset} was dropped after {entry.failures} failures: {failure.describe()}")
            )
            self._drop(entry)

    def _drop(self, entry: Entry) -> None:
        """Finish a record that has failed for good, and that no dead letter keeps."""
        entry.manager.dropped += 1
        self._dropped += 1
        mark_done(entry)

    def undone(self, open_trees: int) -> Undone:
        """Return the records that are in flight or wait for a retry, which the next run reads again, and those that were dropped."""
        return Undone(open_trees + len(self._retries), self._dropped)

    def due(self) -> Entry | None:
        """Return a due failed entry and mark it as in flight again. None if no entry is due."""
        now = self.context.clock.now()
        while not self._partitions.suspended:
            entry = self._retries.take_due(now)
            if entry is None:
                self._schedule_retry(now)
                return None
            if entry.manager.take_again(entry):
                return entry
        return None

    def _schedule_retry(self, now: float) -> None:
        """Set the timer that polls the spout when the next failed record is due."""
        due = self._retries.next_due
        self._feed.has_retries = due is not None and due <= now
        if due is None or due <= now or (self._alarm is not None and self._alarm_at <= due):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = due
        self._alarm = asyncio.get_running_loop().call_later(due - now, self._ring)

    def _ring(self) -> None:
        """Wake the spout for a due record. uvloop rounds timers, so the record may be due a millisecond later."""
        self._alarm = None
        self._feed.has_retries = True
        self.context.wake()

    def _bury(self, entry: Entry, failure: Failure) -> None:
        """Send a record to the dead letters. The record is finished after the broker has acknowledged the letter."""
        assert self._dead_letters is not None
        sent = self._dead_letters.send_failed_record(entry.record, failure, entry.failures)
        if self.config.guarantee == "at_most_once":
            mark_done(entry)  # done at once, because otherwise a commit at a revocation would exclude the records emitted after this record
        sent.add_done_callback(lambda done: self._buried(entry, done))

    def _buried(self, entry: Entry, sent: "asyncio.Future[Any]") -> None:
        """Settle the record after its letter was written. If the letter failed for good, retry the record (at least once) or drop it."""
        manager: OffsetManager = entry.manager
        if sent.cancelled() or entry.is_lost:
            return
        error = sent.exception()
        if error is None:
            manager.dead_letters += 1
            mark_done(entry)
        else:
            self.report(error)
            if self._tracked:
                self._retries.postpone(entry, self.context.clock.now())
                self._schedule_retry(self.context.clock.now())
            else:
                self._drop(entry)
        self.context.wake()

    # SpoutCallbacks

    def wake(self) -> None:
        """Poll the spout at once."""
        if self._has_ended and not self._partitions.have_ended:  # a rebalance has assigned partitions of another member
            self._has_ended = False
            self.port.poll_again()
        self.context.wake()

    def report(self, error: BaseException) -> None:
        """Report an error that the spout survives."""
        self.collector.report_error(error)

    def start_task(self, work: Coroutine[Any, Any, object]) -> object:
        """Start background work. An error of this work ends the instance."""
        return self.context.create_task(work)

    def hurry_checkpoints(self, *, on: bool) -> None:
        """Let checkpoints begin as soon as an ack waits for one, because a rebalance waits for the acks (KS-6)."""
        self.port.hurry_commits(on=on)

    def forget_partitions(self, managers: Iterable[OffsetManager]) -> None:
        """Forget these partitions, which this task no longer owns."""
        self._retries.forget_lost()
        self._metrics.drop_gauges(managers)
