"""The bolt around a user's emitter: emits its partitions of each batch that the coordinator requests (TX-4, TX-7)."""

from typing import Any

from engine.api import Bolt, Tuple
from engine.cancellation import CALL_ERRORS, was_cancelled
from engine.errors import ERROR, FAILED, EngineBug, EngineError, Failure, FatalError, UsageError
from engine.kernel import TaskBatch
from engine.maybe_await import maybe_await
from engine.names import COMMIT_STREAM, REPORT_STREAM
from engine.topology import ComponentSpec
from engine.topology.task_port import BoltPortUser
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_collectors import EmitterCollector, wrong_emit
from engine.transactional.batch_runner import REFUSALS, call_timeout, failure_text
from engine.transactional.open_batches import EmitRequest
from engine.transactional.spout_adapters import EmitterAdapter, emitter_adapter, new_emitter
from engine.transactional.spouts import AnySpout


class EmitterRunner(Bolt, BoltPortUser):
    """One task of a transactional spout."""

    def __init__(self, spout: AnySpout, spec: ComponentSpec) -> None:
        """spec: the component as the user declared it, with the attempt in front of its fields."""
        self._spout = spout
        self._spec = spec
        self._adapter: EmitterAdapter | None = None
        self._committed = 0
        self._digests = True

    async def prepare(self) -> None:
        part = new_emitter(self._spout)
        part.context = self.context
        self._feed = self.port.batch_feed(self, ())
        opened = part.open()
        if opened is not None:
            await opened
        self._adapter = emitter_adapter(self._spout, part)

    def execute(self, tup: Tuple) -> None:
        raise EngineBug("an emitter was sent a tuple", tup=tup)

    async def on_control(self, tup: Tuple) -> None:
        """Emit this task's output of a batch, or take part in its commit."""
        attempt: TransactionAttempt = tup[0]
        try:
            async with call_timeout(self.context.config, "commit()" if tup.stream == COMMIT_STREAM else "its emission"):
                await self._take(attempt, tup)
        except FatalError:
            raise
        except CALL_ERRORS as error:
            if was_cancelled(error):
                raise
            self.port.settle_control(tup, self._failure_by(error, attempt))
            return
        self.port.settle_control(tup)

    async def _take(self, attempt: TransactionAttempt, tup: Tuple) -> None:
        if tup.stream == COMMIT_STREAM:
            await maybe_await(self._live_adapter.wrapped.commit(attempt))
        else:
            await self._emit(EmitRequest(*tup.values), tup)

    async def _emit(self, request: EmitRequest, tup: Tuple) -> None:
        if request.committed > self._committed:
            self._committed = request.committed
            await self._clean_up_before(request.committed + 1)
        batch = TaskBatch(self._feed, request.attempt)
        collector = EmitterCollector(batch, self.collector, digests=self._digests)
        try:
            output = await self._live_adapter.emit(request, collector)
        finally:
            batch.over = True
        self._digests = self._digests and all(each.digest is not None for each in output.values())
        self.port.reply(tup, output)
        self.port.emit_control((request.attempt, batch.sent_by_task()), tup, REPORT_STREAM)

    async def _clean_up_before(self, txid: int) -> None:
        """Tell the user's emitter which txids are committed. An error of the emitter does not fail the current batch."""
        try:
            await maybe_await(self._live_adapter.wrapped.cleanup_before(txid))
        except FatalError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's own
            self.port.report(error, "the batch continues, and cleanup_before() is called again later")

    def _failure_by(self, error: BaseException, attempt: TransactionAttempt) -> Failure:
        if not isinstance(error, REFUSALS) or error.report:
            self.port.report(error, f"batch {attempt} fails, and is tried again")
        reason: Any = FAILED if isinstance(error, REFUSALS) else ERROR
        return Failure(reason, self.context.component_id, self.context.task_id, failure_text(error))

    async def cleanup(self) -> None:
        await maybe_await(self._live_adapter.wrapped.close())

    @property
    def _live_adapter(self) -> EmitterAdapter:
        assert self._adapter is not None
        return self._adapter

    # Called by BatchFeed

    def wrong_values(self, stream: str, values: object) -> EngineError:
        """Return the error for values that do not fit the stream."""
        return wrong_emit(self._spec, stream, values)

    def wrong_time(self, batch: TaskBatch) -> EngineError:
        """Return the error for an emit after the emission has returned."""
        return UsageError(
            f"spout {self._spec.component_id!r} emitted for batch {batch.attempt} after its emission had returned",
            hint="Emit before emit_batch() or emit_partition_batch() returns; await what you start there.",
        )
