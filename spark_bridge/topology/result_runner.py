"""The engine's side of one task that runs on Spark: emits the task's results to the components outside of the job (CL-1)."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from engine.api import Bolt, Tuple
from engine.cancellation import was_cancelled
from engine.errors import FAILED, EngineBug, EngineError, Failure, FatalError
from engine.in_thread import in_thread
from engine.kernel import BatchEmitter, BatchFeed, TaskBatch
from engine.metrics import Distribution, UserMetric
from engine.names import POOL_NAME, REPORT_STREAM
from engine.runtime.error_report import ErrorReport
from engine.topology import ComponentSpec
from engine.topology.task_port import BoltPortUser
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_collectors import wrong_emit
from engine.transactional.batch_runner import failure_text
from spark_bridge.topology.level_status import RunEnd
from spark_bridge.topology.result_files import ResultBlock, ResultFile, read_blocks

SLICE_ROWS: Final = 1_024
"""Rows that are emitted in one step of the loop."""


class RemoteError(Exception):
    """An error of a task on Spark. Its text has the traceback of that task."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an attempt on Spark. The job runner sends it to all result runners."""

    files: Mapping[int, tuple[ResultFile, ...]] = field(default_factory=dict)
    """By source task."""
    reports: Mapping[int, tuple[ErrorReport, ...]] = field(default_factory=dict)
    """Errors of user code, by task."""
    metrics: Mapping[int, tuple[UserMetric, ...]] = field(default_factory=dict)
    """Metrics of user code in this attempt, by task."""
    end: RunEnd | None = None
    succeeded: bool = False


class ResultRunner(Bolt, BoltPortUser):
    """One task of the processing phase. The bolt itself runs on Spark."""

    def __init__(self, spec: ComponentSpec) -> None:
        self._spec = spec
        self._feed: BatchFeed | None = None
        self._pool: ThreadPoolExecutor | None = None

    def prepare(self) -> None:
        self._feed = self.port.batch_feed(self, ())

    def execute(self, tup: Tuple) -> None:
        raise EngineBug("a task that runs on Spark was sent a tuple", tup=tup)

    async def on_control(self, tup: Tuple) -> None:
        """Report the errors of this task on Spark. If the attempt has succeeded, emit the results."""
        attempt: TransactionAttempt = tup[0]
        outcome: Outcome = tup[1]
        for report in outcome.reports.get(self.context.task_id, ()):
            self.port.report(remote_error(report), report.next_step)
        self._add_metrics(outcome.metrics.get(self.context.task_id, ()))
        self._end_run(outcome.end)
        if not outcome.succeeded:
            self.port.settle_control(tup)
            return
        try:
            await self._emit(attempt, outcome.files.get(self.context.task_id, ()), tup)
        except FatalError:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if was_cancelled(error):
                raise
            self.port.report(error, f"batch {attempt} fails, and is tried again")
            failure = Failure(FAILED, self.context.component_id, self.context.task_id, failure_text(error))
            self.port.settle_control(tup, failure)
            return
        self.port.settle_control(tup)

    def _add_metrics(self, metrics: tuple[UserMetric, ...]) -> None:
        """Add the counters of an attempt, and set the gauges. Distributions of histograms cannot be added."""
        for metric in metrics:
            if isinstance(metric.value, Distribution):
                continue
            if metric.kind == "counter":
                self.context.counter(metric.name, **metric.own_labels).add(metric.value)
            else:
                self.context.gauge(metric.name, **metric.own_labels).set(metric.value)

    def _end_run(self, end: RunEnd | None) -> None:
        """End the run if this task must end it. The first task speaks for an unknown one."""
        if end is None or end.component_id != self.context.component_id:
            return
        if end.task_id in (self.context.task_id, None):
            raise FatalError(end.message, hint=end.hint)

    async def _emit(self, attempt: TransactionAttempt, files: tuple[ResultFile, ...], tup: Tuple) -> None:
        assert self._feed is not None
        batch = TaskBatch(self._feed, attempt)
        try:
            for described in files:
                blocks = read_blocks(described)
                while (block := await in_thread(self._live_pool, lambda blocks=blocks: next(blocks, None))) is not None:  # type: ignore[misc]
                    await self._emit_block(BatchEmitter(batch), block)
        finally:
            batch.over = True
        self.port.emit_control((attempt, batch.sent_by_task()), tup, REPORT_STREAM)

    async def _emit_block(self, emitter: BatchEmitter, block: ResultBlock) -> None:
        for stream, rows in block.runs:
            for begin in range(0, len(rows), SLICE_ROWS):
                part = rows[begin : begin + SLICE_ROWS]
                if block.target == 0:
                    emitter.emit_many(part, stream)
                else:
                    for values in part:
                        emitter.emit_direct(block.target, values, stream)
                await self.collector.ready()
                await asyncio.sleep(0)

    @property
    def _live_pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"{POOL_NAME} {self.context.component_id}")
        return self._pool

    def cleanup(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False)

    # Called by BatchFeed

    def wrong_values(self, stream: str, values: object) -> EngineError:
        """Return the error for values that do not fit the stream."""
        return wrong_emit(self._spec, stream, values)

    def wrong_time(self, batch: TaskBatch) -> EngineError:
        """Return the error for an emit after the end of an attempt."""
        return EngineBug("results were emitted after their end", attempt=batch.attempt)


def remote_error(report: ErrorReport) -> RemoteError:
    """Return a reported error of a task on Spark as an exception."""
    lines = [report.text]
    if report.tuple_text is not None:
        lines.append(f"input: {report.tuple_text}")
    lines += report.traceback.splitlines()
    return RemoteError("\n".join(lines))
