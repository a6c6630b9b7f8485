"""The bolt between the coordinator and Spark: runs one job for each attempt (CL-1, CL-3)."""

import asyncio
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

from engine.api import Bolt, Fields, Tuple
from engine.cancellation import was_cancelled
from engine.errors import ERROR, FAILED, EngineBug, EngineError, Failure, FatalError
from engine.in_thread import in_thread
from engine.maybe_await import maybe_await
from engine.metrics import UserMetric
from engine.names import COMMIT_STREAM, POOL_NAME
from engine.runtime.error_report import ErrorReport, error_text, user_traceback
from engine.topology.task_port import BoltPortUser
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_runner import REFUSALS, call_timeout, failure_text
from engine.transactional.open_batches import EmitRequest, PartitionOutput
from engine.transactional.spout_adapters import PlanningAdapter, new_emitter
from engine.transactional.spouts import Partition
from spark_bridge.process import SparkConfig, SparkError
from spark_bridge.process.spark_child import SparkHold, hold
from spark_bridge.topology.call_watch import CallWatch
from spark_bridge.topology.frozen_watch import FrozenWatch, WorkerFrozen, replace_executor
from spark_bridge.topology.hang_watch import notes_in
from spark_bridge.topology.job import Job, run_job
from spark_bridge.topology.job_folders import JobFolders
from spark_bridge.topology.job_log import JobLog, LoggedJob
from spark_bridge.topology.level_run import Attempt, mixed_tries
from spark_bridge.topology.level_status import LevelStatus, RunEnd
from spark_bridge.topology.loaded_program import LoadedProgram
from spark_bridge.topology.local_emitters import BLOCKS_FILE, LocalEmitters
from spark_bridge.topology.probe import check_executors
from spark_bridge.topology.program import Program
from spark_bridge.topology.result_files import ResultFile
from spark_bridge.topology.result_runner import Outcome, remote_error
from spark_bridge.topology.start_watch import SparkStartsNothing, StartWatch
from spark_bridge.topology.status import ENTRY, JobsSnapshot

RESULTS_STREAM: Final = "$results"
RESULTS_FIELDS: Final = Fields("attempt", "outcome")
REFRESHES_PER_TIMEOUT: Final = 10


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings of the jobs of a run."""

    program: Program
    spark: SparkConfig
    spool: str | None
    """Folder that this machine and all executors reach under this path."""


@dataclass(slots=True, eq=False)
class _OpenJob:
    """An attempt that runs on Spark."""

    attempt: TransactionAttempt
    request: Tuple
    """The coordinator's request, to settle at the end."""
    folder: str
    logged: LoggedJob
    aio_task: "asyncio.Task[None] | None" = None


class JobRunner(Bolt, BoltPortUser):
    """Answers the coordinator's requests. There is one, with one task."""

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self._loaded = LoadedProgram.of(settings.program)
        self._open: dict[int, _OpenJob] = {}
        """The newest attempt of each txid."""
        self._folders: JobFolders | None = None
        self._committed = 0
        self._planner: PlanningAdapter | None = None
        self._emitters: LocalEmitters | None = None
        self._spark: SparkHold | None = None
        self._is_probed = False
        """True after the executors have shown that they can run the program."""

    async def prepare(self) -> None:
        self._pool = ThreadPoolExecutor(2, thread_name_prefix=f"{POOL_NAME} {self.context.component_id}")
        try:
            await self._prepare()
        except BaseException:
            await self.cleanup()  # the engine does not call it for an instance that was never ready
            raise

    async def _prepare(self) -> None:
        settings = self._settings
        self._folders = await in_thread(self._pool, lambda: JobFolders(settings.program, settings.spool))
        self._spark = hold(self._settings.spark)
        self._log = JobLog(self._loaded.plan, self.context.clock, self._settings.spark.master)
        try:
            await self._probe(timeout=self._settings.spark.start_timeout_secs)
        except FatalError:
            raise
        except EngineError:
            self._is_probed = False  # Spark is not available now. The first attempt looks again, and reports its own error
        self.port.run.show_in_snapshot(ENTRY, self.context.task_id, self._snapshot)
        spout = self._settings.program.spout
        assert spout is not None
        if self._settings.program.executors_emit:
            emitter = new_emitter(spout)
            emitter.context = self.context
            await maybe_await(emitter.open())
            self._planner = PlanningAdapter(emitter)
        else:
            self._emitters = LocalEmitters(self._loaded, self._pool, self._report_here)
            await self._emitters.open()
            self.context.create_task(self._emitters.live())
        self.context.create_task(self._keep_fresh())

    async def _probe(self, watch: CallWatch | None = None, *, timeout: float | None = None) -> None:
        """Raise FatalError with all reasons if the executors cannot run the program (CL-4)."""
        assert self._spark is not None
        assert self._folders is not None
        root, watch = self._folders.root, self._new_watch("the start") if watch is None else watch
        await check_executors(self._spark, self._settings.program, root, watch, shared=self._is_shared, timeout=timeout)
        self._is_probed = True

    def _new_watch(self, waiting: str) -> CallWatch:
        """Return the watch of the calls of an attempt. waiting: names what waits for an executor."""

        def warn(error: SparkStartsNothing) -> None:
            self._log.note_spark(self._spark.facts if self._spark is not None else {})  # shows the address of Spark's page
            self.port.report(error, f"{waiting} waits for Spark")

        limit, here = self.context.config.batch_timeout_secs, self._settings.spark.is_on_this_machine
        start = StartWatch(self.context.clock, limit, lambda: self._spark.facts.get("ui") if self._spark is not None else None, warn)
        return CallWatch(start, FrozenWatch(limit, heartbeats_arrive=here), limit)

    @property
    def _is_shared(self) -> bool:
        """True if executors reach the files of this machine."""
        return self._settings.spool is not None or self._settings.spark.is_on_this_machine

    def _snapshot(self) -> JobsSnapshot:
        return self._log.snapshot(self._open)

    def _report_here(self, report: ErrorReport) -> None:
        """Report an error of an emitter that belongs to no batch."""
        place = f"{report.component_id!r} (task {report.task_id}) {report.verb} "
        self.port.report(remote_error(replace(report, text=place + report.text)), report.next_step)

    def execute(self, tup: Tuple) -> None:
        raise EngineBug("a job runner was sent a tuple", tup=tup)

    # Requests

    async def on_control(self, tup: Tuple) -> None:
        """Run the processing phase of a batch on Spark, or let the emitters take part in a commit."""
        attempt: TransactionAttempt = tup[0]
        try:
            if tup.stream == COMMIT_STREAM:
                await self._commit(attempt, tup)
            else:
                await self._begin(EmitRequest(*tup.values), tup)
        except FatalError:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if was_cancelled(error):
                raise
            self._fail(attempt, error, tup)

    async def _commit(self, attempt: TransactionAttempt, tup: Tuple) -> None:
        status = LevelStatus(0, 0)
        if self._planner is not None:
            try:
                async with call_timeout(self.context.config, "commit()"):
                    await maybe_await(self._planner.wrapped.commit(attempt))
            except Exception as error:  # noqa: BLE001 - of user code: reported, and the attempt fails
                status = self._source_status(error, f"batch {attempt} fails, and is tried again")
        elif self._emitters is not None:
            status = await self._emitters.commit(attempt)
        if status.has_failed:
            await self._settle(attempt, [status], tup)
        else:
            self._report_source(attempt, status)
            self.port.settle_control(tup)

    async def _begin(self, request: EmitRequest, tup: Tuple) -> None:
        """Plan or emit the batch, then start its job. Several jobs run at once."""
        self._end_superseded(request.attempt)
        txid = request.attempt.txid
        folder = await in_thread(self._pool, lambda: self._make_folder(request))
        emitted: LevelStatus | None = None
        if self._planner is not None:
            try:
                request = await self._plan(self._planner, request)
            except Exception as error:  # noqa: BLE001 - of user code: reported, and the attempt fails
                failed = self._source_status(error, f"batch {request.attempt} fails, and is tried again")
                await self._settle(request.attempt, [failed], tup)
                return
        else:
            assert self._emitters is not None
            emitted = await self._emitters.emit(request, folder)
            if emitted.has_failed:
                await self._settle(request.attempt, [emitted], tup)
                return
        opened = self._open[txid] = _OpenJob(request.attempt, tup, folder, self._log.begin(request.attempt))
        opened.aio_task = self.context.create_task(self._run(opened, request, emitted))

    def _make_folder(self, request: EmitRequest) -> str:
        assert self._folders is not None
        self._folders.remove_committed(request.committed)
        return self._folders.make_folder(request.attempt)

    async def _plan(self, planner: PlanningAdapter, request: EmitRequest) -> EmitRequest:
        """Return the request with the planned metadata, by which executors emit the batch."""
        if request.committed > self._committed:
            self._committed = request.committed
            await self._clean_up_before(planner, request)
        async with call_timeout(self.context.config, "plan_partition_batch()"):
            planned = await planner.plan(request)
        return request._replace(replay_metadata=planned, positions={}, awaited={})

    async def _clean_up_before(self, planner: PlanningAdapter, request: EmitRequest) -> None:
        """Tell the user's emitter which txids are committed. An error of the emitter does not fail the current batch."""
        try:
            async with call_timeout(self.context.config, "cleanup_before()"):
                await maybe_await(planner.wrapped.cleanup_before(request.committed + 1))
        except FatalError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's own
            step = "the batch continues, and cleanup_before() is called again later"
            self._report_source(request.attempt, self._source_status(error, step))

    def _source_status(self, error: Exception, next_step: str) -> LevelStatus:
        """Return the outcome of a batch whose planner has raised. It names the user's spout, and not this component."""
        [source] = self._settings.program.described.spouts
        component, task = source.component_id, self._loaded.plan.task_ids[source.component_id][0]
        status = LevelStatus(0, 0)
        if isinstance(error, FatalError):
            status.end = RunEnd(component, task, error.message, error.hint)
            return status
        is_refusal = isinstance(error, REFUSALS)
        if not is_refusal or error.report:  # type: ignore[attr-defined]
            trace = user_traceback(error, full=self.context.config.full_traceback)
            status.reports.append(ErrorReport(component, task, self.context.clock.wall(), error_text(error), None, trace, next_step))
        status.failure = Failure(FAILED if is_refusal else ERROR, component, task, failure_text(error))
        return status

    def _report_source(self, attempt: TransactionAttempt, status: LevelStatus) -> None:
        """Let the tasks of the spout report errors that fail no batch."""
        if status.reports:
            reports = {report.task_id: (report,) for report in status.reports}
            self.port.emit_control((attempt, Outcome(reports=reports)), None, RESULTS_STREAM)

    async def _run(self, opened: _OpenJob, request: EmitRequest, emitted: LevelStatus | None) -> None:
        try:
            watch = self._new_watch(f"batch {opened.attempt}")
            if not self._is_probed:
                await self._probe(watch)
            statuses = await self._call_spark(opened, request, emitted, watch)
            self._check_tries(statuses)
            self._log.end(opened.logged, "failed" if any(status.has_failed for status in statuses) else "done", statuses)
            await self._settle(opened.attempt, statuses, opened.request)
        except FatalError:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if was_cancelled(error):
                raise
            self._log.end(opened.logged, "failed")
            self._fail(opened.attempt, error, opened.request)
            if isinstance(error, WorkerFrozen) and self._spark is not None:
                await replace_executor(self._spark, error)
        finally:
            if self._open.get(opened.attempt.txid) is opened:
                del self._open[opened.attempt.txid]

    async def _call_spark(self, opened: _OpenJob, request: EmitRequest, emitted: LevelStatus | None, watch: CallWatch) -> list[LevelStatus]:
        if emitted is not None and len(self._loaded.plan.partitions) == 1:
            return [emitted]  # there is no bolt before the committers, so no work for Spark
        assert self._spark is not None
        assert self._folders is not None
        job = Job(
            self._folders.program_path,
            self._loaded.plan.partitions,
            Attempt(request, opened.folder if self._is_shared else None),
            None if emitted is None else os.path.join(opened.folder, BLOCKS_FILE),
            self._is_shared,
            opened.folder,
            watch.limit_secs,
            self._loaded.plan.components,
        )
        watch.begin()
        try:
            statuses: list[LevelStatus] = await self._spark.call(run_job, job, on_event=watch.on_event)
        except SparkError:  # perhaps because a process has ended itself
            statuses = await in_thread(self._pool, lambda: notes_in(opened.folder))
            if not statuses:
                raise
        self._log.note_spark(self._spark.facts)
        return statuses if emitted is None else [emitted, *statuses]

    def _check_tries(self, statuses: list[LevelStatus]) -> None:
        """Fail the attempt if Spark has computed a partition twice, and other partitions have read from both tries."""
        number_of = {(status.level, status.partition): status.number for status in statuses}
        for status in statuses:
            for task, number in status.read_from.items():
                # Emitters in this process have no partitions of their own.
                if number_of.get(self._loaded.plan.places[task], number) != number and status.failure is None:
                    component = next(name for name, tasks in self._loaded.plan.task_ids.items() if task in tasks)
                    status.failure = mixed_tries(component, task)
        if any(status.was_told for status in statuses) and not any(status.has_failed for status in statuses):
            # A partition has ended early because of a failed try, and the try that is counted has succeeded.
            text = "Spark has computed a failed partition again, after others had read of its failure. The batch is tried again"
            statuses[0].failure = Failure(FAILED, self.context.component_id, self.context.task_id, text)

    # The end of an attempt

    async def _settle(self, attempt: TransactionAttempt, statuses: list[LevelStatus], tup: Tuple) -> None:
        """Send the outcome to the result runners, and settle the coordinator's request."""
        end = next((each.end for each in statuses if each.end is not None), None)
        failure = next((each.failure for each in statuses if each.failure is not None), None)
        failed = end is not None or failure is not None
        files: dict[int, list[ResultFile]] = {}
        reports: dict[int, list[ErrorReport]] = {}
        metrics: dict[int, list[UserMetric]] = {}
        for status in statuses:
            for described in status.files:
                files.setdefault(described.source, []).append(described)
            for report in status.reports:
                reports.setdefault(report.task_id, []).append(report)
            for metric in status.metrics:
                metrics.setdefault(metric.labels.task_id, []).append(metric)
        outcome = Outcome(
            {} if failed else {source: tuple(each) for source, each in files.items()},
            {task: tuple(each) for task, each in reports.items()},
            {task: tuple(each) for task, each in metrics.items()},
            end,
            succeeded=not failed,
        )
        if failed:
            self.port.emit_control((attempt, outcome), None, RESULTS_STREAM)
            self.port.settle_control(tup, failure or _ended(end))
            return
        self.port.reply(tup, _joined(reply for status in statuses for reply in status.replies.values()))
        self.port.emit_control((attempt, outcome), tup, RESULTS_STREAM)
        self.port.settle_control(tup)

    def _fail(self, attempt: TransactionAttempt, error: BaseException, tup: Tuple) -> None:
        is_refusal = isinstance(error, REFUSALS)
        if not is_refusal or error.report:  # type: ignore[attr-defined]
            self.port.report(error, f"batch {attempt} fails, and is tried again")
        reason: Any = FAILED if is_refusal else ERROR
        self.port.settle_control(tup, Failure(reason, self.context.component_id, self.context.task_id, failure_text(error)))

    def _end_superseded(self, attempt: TransactionAttempt) -> None:
        """Cancel the jobs that a new attempt replaces (TX-3)."""
        for txid in [txid for txid in self._open if txid >= attempt.txid]:
            opened = self._open.pop(txid)
            self._log.end(opened.logged, "replaced")
            if opened.aio_task is not None:
                opened.aio_task.cancel()
            self.port.settle_control(opened.request)

    async def _keep_fresh(self) -> None:
        """Restart the timeout of the batches while their jobs run."""
        while True:
            await asyncio.sleep(self.context.config.batch_timeout_secs / REFRESHES_PER_TIMEOUT)
            for opened in self._open.values():
                self.port.refresh_control(opened.request)

    async def cleanup(self) -> None:
        try:
            if self._planner is not None:
                await maybe_await(self._planner.wrapped.close())
            if self._emitters is not None:
                await self._emitters.close()
        finally:
            if self._spark is not None:
                await self._spark.close()
            if self._folders is not None:
                await in_thread(self._pool, self._folders.close)
            self._pool.shutdown(wait=False)


def _joined(replies: Iterable[Any]) -> dict[Partition, PartitionOutput]:
    """Return the output of all emitters, by partition."""
    joined: dict[Partition, PartitionOutput] = {}
    for reply in replies:
        for partition, output in reply.items():
            joined[partition] = joined[partition].plus(output) if partition in joined else output
    return joined


def _ended(end: RunEnd | None) -> Failure:
    assert end is not None
    return Failure(FAILED, end.component_id, end.task_id, end.message)
