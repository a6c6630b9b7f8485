"""Emitters that run in the engine's process, because their batches cannot be planned beforehand. Their rows go to a file of blocks."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from engine.api import Tuple, Values
from engine.clock import Clock
from engine.errors import ComponentError, Failure
from engine.in_thread import in_thread
from engine.kernel import Source, post_control, take_runs
from engine.metrics import UserMetric
from engine.names import BATCH_STREAM, COMMIT_STREAM
from engine.runtime.error_report import ErrorReport
from engine.runtime.task_group import TaskGroup
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.open_batches import EmitRequest
from spark_bridge.topology.block_files import append_blocks
from spark_bridge.topology.level_status import LevelStatus, run_end
from spark_bridge.topology.loaded_program import LoadedProgram
from spark_bridge.topology.outbox import Outbox
from spark_bridge.topology.row_sender import RowSender

BLOCKS_FILE: Final = "blocks"
"""Name of the file for level 1 in the folder of an attempt."""


class LocalEmitters:
    """All emitter tasks of a spout. They emit one batch at a time. A `GroupListener` of its own group."""

    def __init__(self, loaded: LoadedProgram, pool: ThreadPoolExecutor, report: Callable[[ErrorReport], None]) -> None:
        """pool: for file writes. report: gets the errors that belong to no batch. Those of a batch are in its outcome."""
        [source] = loaded.program.described.spouts
        self._loaded = loaded
        self._pool = pool
        self._report = report
        self._group = TaskGroup(
            loaded.topology,
            loaded.program.config,
            [task for task, place in loaded.plan.places.items() if place[0] == 0],
            seed=loaded.program.seed,
            apart=frozenset(),
            listener=self,
        )
        coordinator = next(iter(loaded.topology.components))
        [self._coordinator] = self._group.run_context.task_ids[coordinator]
        self._streams = {
            stream: Source(coordinator, stream, self._coordinator, loaded.topology.components[coordinator].streams[stream])
            for stream in (BATCH_STREAM, COMMIT_STREAM)
        }
        for bolt in self._group.bolts.values():
            bolt.reporter.logs = False  # the engine's task of the emitter reports the error once more
        self.tasks = self._group.run_context.task_ids[source.component_id]
        self._one_at_a_time = asyncio.Lock()
        self._progress = asyncio.Event()
        self._unsettled: set[int] = set()
        self._status = LevelStatus(0, 0)
        self._is_in_batch = False
        self._counted: dict[Any, Any] = {}
        """Values of the counters after the last batch."""

    async def open(self) -> None:
        """Open the user's emitters. Raises the ComponentError of an emitter that cannot begin."""
        await self._group.begin()

    async def emit(self, request: EmitRequest, folder: str) -> LevelStatus:
        """Let all emitters emit a batch, and write their blocks to files. Return the outcome."""
        async with self._one_at_a_time:
            clock = Clock.of(asyncio.get_running_loop())
            await self._drop_earlier()
            began, status = clock.now(), self._begin(BATCH_STREAM, tuple(request))
            outbox = Outbox(self._loaded.plan, 0, 0, 0)
            sender = RowSender(self._loaded, self._group, request.attempt, status, outbox, folder)
            path = os.path.join(folder, BLOCKS_FILE)
            try:
                while self._unsettled and status.end is None:  # after a failure the other emitters still emit for this attempt
                    if outbox.is_full:
                        await in_thread(self._pool, lambda: append_blocks(path, outbox.take()))
                    else:
                        self._progress.clear()
                        sender.take_rows()
                        await self._progress.wait()
                if not status.has_failed:
                    sender.finish()
                await in_thread(self._pool, lambda: append_blocks(path, outbox.take()))
            finally:
                sender.close()
                self._is_in_batch = False
            status.metrics = self._new_counts()
            status.secs = clock.now() - began
            return status

    async def _drop_earlier(self) -> None:
        """Wait for emitters of an attempt that was given up, such as after a write error. Drop its tuples, which have no attempt."""
        while True:
            self._progress.clear()
            for mailbox in self._group.elsewhere.values():
                take_runs(mailbox)
                mailbox.park()
            if not self._unsettled:
                return
            await self._progress.wait()

    def _new_counts(self) -> list[UserMetric]:
        """Return the metrics of the emitters, with the growth of counters since the last batch."""
        grown = []
        for metric in self._group.metrics.read():
            if metric.kind == "counter":
                key, value = (metric.name, metric.labels, tuple(metric.own_labels.items())), metric.value
                metric = metric._replace(value=value - self._counted.get(key, 0))
                self._counted[key] = value
            grown.append(metric)
        return grown

    async def commit(self, attempt: TransactionAttempt) -> LevelStatus:
        """Let all emitters take part in the commit phase of an attempt."""
        async with self._one_at_a_time:
            await self._drop_earlier()
            status = self._begin(COMMIT_STREAM, (attempt,))
            while self._unsettled and status.end is None:
                self._progress.clear()
                await self._progress.wait()
            self._is_in_batch = False
            return status

    def _begin(self, stream: str, values: Values) -> LevelStatus:
        self._status = LevelStatus(0, 0)
        self._is_in_batch = True
        self._unsettled = set(self.tasks)
        for task in self.tasks:
            post_control(self._group.bolts[task].core.mailbox, tuple(values), self._streams[stream])
        return self._status

    async def live(self) -> None:
        """Wait until this is cancelled, then end the actors. So they never outlive the task that has them, even if nobody calls `close`."""
        try:
            await asyncio.Event().wait()
        finally:
            self._group.abandon()

    async def close(self) -> None:
        """Close the user's emitters."""
        await self._group.close()

    # The group tells

    def on_progress(self) -> None:
        self._progress.set()

    def on_control(self, task_id: int, values: Values, stream: str) -> None:
        self._progress.set()

    def on_reply(self, task_id: int, answer: Any) -> None:
        self._status.replies[task_id] = answer

    def on_settled(self, task_id: int, tup: Tuple, failure: Failure | None) -> None:
        self._unsettled.discard(task_id)
        if failure is not None and self._status.failure is None:
            self._status.failure = failure
        self._progress.set()

    def on_death(self, task_id: int, failure: Failure) -> None:
        self._unsettled.discard(task_id)
        self._status.failure = self._status.failure or failure
        self._progress.set()

    def on_report(self, report: ErrorReport) -> None:
        if self._is_in_batch:
            self._status.reports.append(report)
        else:
            self._report(report)

    def on_end(self, error: ComponentError) -> None:
        self._status.end = run_end(error)
        self._progress.set()
