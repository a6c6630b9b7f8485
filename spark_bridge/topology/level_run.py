"""Runs the tasks of one partition of one level, for one attempt, on the engine's own actors. Imports no pyspark."""

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from engine.api import Tuple, Values
from engine.clock import Clock
from engine.errors import FAILED, TASK_DIED, TIMEOUT, ComponentError, Failure, FatalError
from engine.kernel import Mailbox, Source, post_control, post_rows
from engine.names import BATCH_STREAM, REPORT_STREAM
from engine.runtime.error_report import ErrorReport
from engine.runtime.task_group import TaskGroup
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_runner import BatchRunner
from engine.transactional.open_batches import EmitRequest
from spark_bridge.task_try import TASK_TRY
from spark_bridge.topology.blocks import NOTICE, Block, Run
from spark_bridge.topology.hang_watch import HangWatch, note_of
from spark_bridge.topology.level_status import LevelStatus, run_end
from spark_bridge.topology.loaded_program import LoadedProgram
from spark_bridge.topology.outbox import Outbox
from spark_bridge.topology.row_sender import RowSender


@dataclass(frozen=True, slots=True)
class Attempt:
    """The parts of a job that change with each attempt."""

    request: EmitRequest
    """The coordinator's request. `replay_metadata` has the planned metadata, if executors emit."""
    results_folder: str | None
    """Folder for result files. None: results come back through Spark."""


def run_level(loaded: LoadedProgram, attempt: Attempt, level: int, partition: int, number: int, blocks: Iterable[Block]) -> Iterator[Block]:
    """Run one partition of a level. Read its blocks, and yield blocks for the levels below and for the end of the job.

    number: different for each try of this partition. blocks: sorted by level, source and sequence. Level 0 reads none. Blocks for later
    levels pass through.
    """
    outbox, folder = Outbox(loaded.plan, level, partition, number), attempt.results_folder
    if folder is not None and (note := note_of(folder, level, partition)) is not None:
        outbox.send_notice(replace(note, number=number))
        yield from outbox.take()
        return
    TASK_TRY.set(number)
    with asyncio.Runner() as runner:
        clock = Clock.of(runner.get_loop())
        began = clock.now()
        run = LevelRun(loaded, attempt, level, partition, number, outbox)
        with HangWatch(
            runner, loaded.program.config.batch_timeout_secs, LevelStatus(level, partition, number), folder, run.on_hang
        ) as watch:
            try:
                watch.run(run.open())
                for block in blocks:
                    if block.level == level:
                        watch.run(run.take(block))
                    else:
                        outbox.pass_on(block)
                    if outbox.is_full:
                        yield from outbox.take()
                while not watch.run(run.finish()):
                    yield from outbox.take()
            finally:
                watch.run(run.close())
        run.status.secs = clock.now() - began
        outbox.send_notice(run.status)
        yield from outbox.take()


class LevelRun:
    """The tasks of one partition, for one attempt. A `GroupListener` of its own group."""

    def __init__(self, loaded: LoadedProgram, attempt: Attempt, level: int, partition: int, number: int, outbox: Outbox) -> None:
        self._loaded = loaded
        self._attempt = attempt
        self._id: TransactionAttempt = attempt.request.attempt
        self._outbox = outbox
        self._local = tuple(loaded.plan.tasks_at(level, partition))
        self._unfinished = set(self._local)
        self._sources: dict[tuple[int, str], Source] = {}
        self._progress = asyncio.Event()
        self._was_told = False
        self._is_opening = True
        self._reached = (-1, 0.0)
        """Result of `_reached_now` at the end of the last timeout."""
        self._group: TaskGroup | None = None
        self._sender: RowSender | None = None
        self.status = LevelStatus(level, partition, number)

    # The stages of its life

    async def open(self) -> None:
        """Prepare the instances. At level 0, give the emitters their request."""
        program = self._loaded.program
        group = self._group = TaskGroup(
            program.topology(),  # a new one, because its bolts share asyncio tasks, which belong to one event loop
            program.config,
            self._local,
            seed=_seed(program.seed, self._id.txid),
            apart=self._loaded.plan.apart,
            listener=self,
        )
        self._sender = RowSender(self._loaded, group, self._id, self.status, self._outbox, self._attempt.results_folder)
        try:
            async with asyncio.timeout(program.config.batch_timeout_secs):
                await group.begin()
        except TimeoutError:
            self._fail_opening(f"prepare() did not return within {program.config.batch_timeout_secs:g} s (batch_timeout_secs)")
        except ComponentError as error:
            spec = self._loaded.topology.components[error.component_id]
            on_error = spec.settings.on_error or program.config.on_error
            if isinstance(error.error, FatalError) or not isinstance(error.error, Exception) or on_error == "stop":
                self.on_end(error)
            else:  # the next attempt makes new instances, so a short outage must not end the run
                self._fail(Failure(TASK_DIED, error.component_id, error.task_id, error.message.removeprefix(f"{error.place}: ")))
        self._is_opening = False
        if self.status.has_failed:
            return
        self._report_for_others(group)
        if self.status.level == 0:
            [coordinator] = group.run_context.task_ids[next(iter(self._loaded.topology.components))]
            request = Source(group.component_of[coordinator], BATCH_STREAM, coordinator, self._request_fields)
            for task in self._local:
                if group.component_of[task] == self._loaded.program.described.spouts[0].component_id:
                    post_control(group.bolts[task].core.mailbox, tuple(self._attempt.request), request)

    def on_hang(self, text: str) -> None:
        """A plain call is about to be interrupted. An instance that hangs in `prepare` is not made again for this attempt."""
        if self._is_opening:
            self._fail_opening(text)
            for bolt in () if self._group is None else self._group.bolts.values():
                bolt.core.closing = True

    def _fail_opening(self, text: str) -> None:
        made = [bolt.info for bolt in self._group.bolts.values() if bolt.component is not None] if self._group is not None else []
        self._fail(Failure(TIMEOUT, made[-1].component_id, made[-1].task_id, text) if made else Failure(TIMEOUT, error=text))

    @property
    def _request_fields(self) -> Any:
        return self._loaded.topology.components[next(iter(self._loaded.topology.components))].streams[BATCH_STREAM]

    def _report_for_others(self, group: TaskGroup) -> None:
        """Post the reports of tasks that cannot send tuples to the tasks here, because they run in other partitions."""
        for task in self._local:
            if group.component_of[task] in self._loaded.plan.apart:
                for source in group.bolts[task].run_context.sources_of(group.bolts[task].spec):
                    if source not in self._local:
                        post_control(group.bolts[task].core.mailbox, (self._id, {}), self._source(source, REPORT_STREAM))

    async def take(self, block: Block) -> None:
        """Give the rows of a block to its task. Returns at once after a failure."""
        if block.source == NOTICE:
            self._was_told = self.status.was_told = True
        if self._is_over():
            return
        group = self._live_group
        if self.status.read_from.setdefault(block.source, block.attempt) != block.attempt:
            self._fail(mixed_tries(group.component_of[block.source], block.source))
            return
        mailbox = group.bolts[block.target].core.mailbox
        try:
            runs: list[Run] = block.content()
        except Exception as error:  # noqa: BLE001 - of user code: a value that cannot be unpickled
            self._live_sender.refuse(block.source, error, None, "a value cannot be read in another process")
            return
        for stream, rows in runs:
            origin, position = self._source(block.source, stream), 0
            if stream == REPORT_STREAM:
                for values in rows:
                    post_control(mailbox, values, origin)
                continue
            while (position := post_rows(mailbox, self._id, rows, position, origin, None)) < len(rows):
                await self._make_room(mailbox)
                if self._is_over():
                    return

    async def finish(self) -> bool:
        """Wait until all tasks have reported, or the attempt has failed. Return False, to be called again, if the outbox is full."""
        while self._unfinished and not self._is_over():
            if self._outbox.is_full:
                return False
            await self._wait()
        if not self._is_over():
            self._live_sender.finish()
        return True

    async def close(self) -> None:
        """End the actors. Close the result files."""
        if self._group is not None:
            self.status.executed = {task: bolt.core.executed for task, bolt in self._group.bolts.items()}
            self.status.emitted = {task: bolt.core.emitted for task, bolt in self._group.bolts.items()}
            self.status.metrics = list(self._group.metrics.read())
            await self._group.close()
        if self._sender is not None:
            self._sender.close()

    # Progress

    async def _make_room(self, mailbox: Mailbox) -> None:
        while mailbox.full and not self._is_over():
            await self._wait()

    async def _wait(self) -> None:
        """Pass on what the tasks have sent, then wait until one of them has made progress."""
        self._progress.clear()
        self._live_sender.take_rows()
        if self._is_over():
            return
        timeout_secs = self._loaded.program.config.batch_timeout_secs
        try:
            async with asyncio.timeout(timeout_secs):
                await self._progress.wait()
        except TimeoutError:
            before, self._reached = self._reached, self._reached_now()
            if self._reached == before:
                task = min(self._unfinished, default=self._local[0])
                text = f"no progress for {timeout_secs:g} s (batch_timeout_secs)"
                self._fail(Failure(TIMEOUT, self._live_group.component_of[task], task, text))

    def _reached_now(self) -> tuple[int, float]:
        """Return figures that grow while calls return, although nothing is emitted."""
        bolts = self._live_group.bolts.values()
        executed = sum(bolt.core.executed for bolt in bolts)
        return executed, max((bolt.component.progress_at for bolt in bolts if isinstance(bolt.component, BatchRunner)), default=0.0)

    def _source(self, task: int, stream: str) -> Source:
        key = (task, stream)
        if key not in self._sources:
            self._sources[key] = self._live_group.source(task, stream)
        return self._sources[key]

    def _is_over(self) -> bool:
        return self._was_told or self.status.has_failed

    @property
    def _live_group(self) -> TaskGroup:
        assert self._group is not None
        return self._group

    @property
    def _live_sender(self) -> RowSender:
        assert self._sender is not None
        return self._sender

    # The group tells

    def on_progress(self) -> None:
        self._progress.set()

    def on_control(self, task_id: int, values: Values, stream: str) -> None:
        if stream == REPORT_STREAM:
            self._unfinished.discard(task_id)
            self._progress.set()

    def on_reply(self, task_id: int, answer: Any) -> None:
        self.status.replies[task_id] = answer

    def on_settled(self, task_id: int, tup: Tuple, failure: Failure | None) -> None:
        if failure is not None:
            self._fail(failure)

    def on_death(self, task_id: int, failure: Failure) -> None:
        self._fail(failure)

    def on_report(self, report: ErrorReport) -> None:
        self.status.reports.append(report)

    def on_end(self, error: ComponentError) -> None:
        if self.status.end is None:
            self.status.end = run_end(error)
        self._progress.set()

    def _fail(self, failure: Failure) -> None:
        if self.status.failure is None:
            self.status.failure = failure
        self._progress.set()


def mixed_tries(component: str, task: int) -> Failure:
    """Return the failure of an attempt in which Spark has mixed two computations of a task.

    Both may have divided the same rows in different ways, so rows could be lost or doubled.
    """
    return Failure(FAILED, component, task, "Spark has computed it twice, and its results came from both. The batch is tried again")


def _seed(run_seed: int, txid: int) -> int:
    """Return the seed of the random choices of a batch. A task that Spark computes again makes the same choices."""
    return int.from_bytes(hashlib.blake2b(f"{run_seed} {txid}".encode(), digest_size=7).digest(), "big")
