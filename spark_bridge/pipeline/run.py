"""`run_pipeline` runs the queries of a pipeline in Spark's process, from the wait for the folder to the end."""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack

from engine.clock import Clock
from engine.errors import EngineError
from spark_bridge.handover import HandoverError, storage_at
from spark_bridge.handover.names import CONTRACT
from spark_bridge.pipeline.definition import MAX_RESTARTS, STOP_SECS, Definition, PipelineSettings, check_readable, definition_of
from spark_bridge.pipeline.driver import drive, wait_until_idle
from spark_bridge.pipeline.errors import PipelineError, folder_error
from spark_bridge.pipeline.folder_checks import claim_checkpoints
from spark_bridge.pipeline.progress import (
    BatchDone,
    Event,
    NewestSeen,
    Note,
    PipelineSnapshot,
    ProgressTracker,
    QueriesKnown,
    StatusChanged,
)
from spark_bridge.pipeline.restarts import Restarts
from spark_bridge.process import SparkConfig, SparkDied, SparkUnavailable
from spark_bridge.process.spark_child import SparkHold, hold
from spark_bridge.source.options import SourceOptions

Pipeline: TypeAlias = str | os.PathLike[str] | Callable[..., object]
FolderPath: TypeAlias = str | os.PathLike[str]
Until: TypeAlias = Literal["stopped", "caught up"] | int | Awaitable[object]
FOLDER_POLL_SECS: Final = 0.5
IDLE_POLL_SECS: Final = 0.2


class PipelineRun:
    """One run of a pipeline. `completed()` runs it, `drain()` stops it, and `snapshot()` shows it. Belongs to one event loop."""

    def __init__(self, settings: PipelineSettings, spark: SparkConfig, until: Until = "stopped") -> None:
        self.on_progress: list[Callable[[PipelineSnapshot], object]] = []
        """Called with a snapshot after each event."""
        self.on_note: list[Callable[[str], object]] = []
        """Called with messages for a person, such as restarts or a missing folder."""
        self._settings = settings
        self._until = until
        self._spark = spark
        self._caught_up = False
        self._has_begun = False
        """True after Spark's process has reported the queries."""
        self._tracker = ProgressTracker(settings.name, Clock().now)
        self._restarts = Restarts(most=settings.most_restarts)
        self._stop = asyncio.Event()
        self._over = asyncio.Event()
        self._changed = asyncio.Event()
        self._names: tuple[str, ...] = ()

    def snapshot(self) -> PipelineSnapshot:
        """Return the current progress."""
        return self._tracker.snapshot()

    async def drain(self, timeout_secs: float | None = None) -> None:
        """Let each query finish its micro-batch, and wait for the end. Raise TimeoutError after `timeout_secs`."""
        self._tracker.state = "stopping"
        self._stop.set()
        async with asyncio.timeout(timeout_secs):
            await self._over.wait()

    async def completed(self) -> None:
        """Run until the end that `until` names. Raise the error that ends the pipeline. Cancellation stops it at once."""
        spark = hold(self._spark)  # other users of an equal configuration, such as a SparkTransform, share it
        try:
            if await self._wait_for_folder():
                await self._run(spark)
            self._tracker.state = "caught up" if self._caught_up else "stopped"
        except BaseException:
            self._tracker.state = "failed"
            raise
        finally:
            await spark.close()
            self._over.set()

    async def _run(self, spark: SparkHold) -> None:
        """Drive the pipeline. Stop it when it has caught up, if `until` requires this."""
        if self._until == "stopped":
            await self._drive(spark)
            return
        ending = asyncio.create_task(self._catch_up(spark))
        ending.add_done_callback(lambda _: self._stop.set())
        try:
            await self._drive(spark)
            if ending.done():
                ending.result()
        finally:
            ending.cancel()
            await asyncio.wait([ending])

    # The folder

    async def _wait_for_folder(self) -> bool:
        """Wait for the folder, and claim the checkpoints. Return False if the pipeline was stopped before the folder existed."""
        try:
            storage = storage_at(self._settings.folder, self._settings.storage)
            if not await asyncio.to_thread(storage.exists, CONTRACT):
                self._tracker.state = "waiting for the folder"
                self._note(f"waiting for the hand-over {storage.url}. Start its topology, which creates it, or correct the folder.")
                while not await asyncio.to_thread(storage.exists, CONTRACT):
                    if await _is_set(self._stop, FOLDER_POLL_SECS):
                        return False
            self._tracker.state = "starting"
            newest = await asyncio.to_thread(_claim, self._settings)
            self._tracker.apply_event(NewestSeen(newest))
        except HandoverError as error:
            raise folder_error(error) from error
        return True

    # Spark's process

    async def _drive(self, spark: SparkHold) -> None:
        """Drive the pipeline until its end, in a new process of Spark after each death."""
        while not self._stop.is_set():
            try:
                error = await self._call_driver(spark)
            except (SparkDied, SparkUnavailable) as death:
                if isinstance(death, SparkUnavailable) and not self._names:
                    raise  # Spark never ran, so a wrong master is more likely than a temporary failure
                await self._pause_after(death)
                continue
            if error is not None:
                raise error
            return

    async def _call_driver(self, spark: SparkHold) -> EngineError | None:
        """Drive the pipeline in one process. If it is stopped before the queries are known, do not wait for the start of Spark."""
        self._has_begun = False
        calling: asyncio.Task[EngineError | None] = asyncio.create_task(
            spark.call(drive, self._settings, on_event=self._note_event, stop=self._stop)
        )
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([calling, stopping], return_when=asyncio.FIRST_COMPLETED)
            return await calling if calling.done() or self._has_begun else None
        finally:
            stopping.cancel()
            calling.cancel()
            await asyncio.wait([calling])
            if not calling.cancelled():
                calling.exception()

    async def _pause_after(self, death: EngineError) -> None:
        """Wait before the next process. Raise PipelineError after too many deaths without a finished batch in between."""
        pause = self._restarts.pause_after("passing")
        if pause is None:
            hint = death.hint or "See the end of its log above. Nothing is lost: after a start each query continues from its checkpoint."
            text = f"{death.message}\nSpark's process died {self._settings.most_restarts + 1} times in a row, without a finished batch"
            raise PipelineError(text, hint=hint) from death
        self._tracker.deaths += 1
        self._tracker.state = "starting"
        for name in self._names:
            self._tracker.apply_event(StatusChanged(name, "restarting", "Spark's process died", pause))
        self._note(f"{death.message.partition('; the end of its log')[0]}; all queries continue from their checkpoints in {pause:g} s")
        await _is_set(self._stop, pause)

    def _note_event(self, event: Event) -> None:
        """Apply an event of Spark's process."""
        self._tracker.apply_event(event)
        match event:
            case QueriesKnown(planned):
                self._names, self._has_begun = tuple(planned), True
                self._tracker.state = "stopping" if self._stop.is_set() else "running"
            case StatusChanged(name, "restarting", trouble, pause):
                self._note(f"query {name!r} restarts in {pause:g} s: {trouble}")
            case Note(text):
                self._note(text)
            case BatchDone():
                self._restarts.note_batch()
        self._changed.set()
        for listener in self.on_progress:
            listener(self.snapshot())

    def _note(self, text: str) -> None:
        for listener in self.on_note:
            listener(text)

    # Until

    async def _catch_up(self, spark: SparkHold) -> None:
        """Return when all queries have processed everything up to the target."""
        target = await self._target()
        while self.snapshot().newest_txid < target or not self._names:
            self._changed.clear()
            await self._changed.wait()
        while not await self._is_idle(spark, target):
            await _is_set(self._over, IDLE_POLL_SECS)
        self._caught_up = True

    async def _target(self) -> int:
        """Return the txid at which the pipeline ends. If `until` is awaitable, wait for it first."""
        if inspect.isawaitable(self._until):
            await self._until
        elif isinstance(self._until, int):
            return self._until
        try:
            handover = await asyncio.to_thread(self._settings.handover)
            return await asyncio.to_thread(handover.newest)
        except HandoverError as error:
            raise folder_error(error) from error

    def _is_beyond(self, target: int) -> bool:
        """Tell whether all queries have processed later transactions. With a steady producer, the queries may never become idle."""
        queries = self.snapshot().queries
        return bool(queries) and all(query.txid > target for query in queries.values())

    async def _is_idle(self, spark: SparkHold, target: int) -> bool:
        """Wait until the queries are idle or beyond the target. Return False if a query does not run."""
        waiting = asyncio.create_task(spark.call(wait_until_idle, self._names))
        try:
            while not waiting.done() and not self._is_beyond(target):
                await asyncio.wait([waiting], timeout=IDLE_POLL_SECS)
            return self._is_beyond(target) or bool(waiting.result())
        except EngineError:
            return False  # a query or Spark died, and the driver reports and restarts it
        finally:
            waiting.cancel()


class RunOptions(TypedDict, total=False):
    """Further options of a pipeline."""

    source: Mapping[str, object]
    """Options of the data source for all queries: maxTransactionsPerBatch, maxRowsPerBatch, startingTxid, storage.<name>."""
    stop_secs: float
    """Time for the current micro-batches to finish when the pipeline is stopped. Default: 60."""
    most_restarts: int
    """Largest number of restarts in a row without a finished batch in between. Default: 5."""


class HostOptions(RunOptions, total=False):
    """Further options of `run_pipeline`."""

    stop: asyncio.Event
    """When this event is set, each query finishes its micro-batch, and the pipeline ends."""
    on_progress: Callable[[PipelineSnapshot], object]
    """Called with a snapshot after each event."""
    on_note: Callable[[str], object]
    """Called with messages for a person, such as restarts or a missing folder."""


async def run_pipeline(
    pipeline: Pipeline,
    folder: FolderPath,
    *,
    checkpoints: FolderPath,
    spark: SparkConfig | None = None,
    until: Until = "stopped",
    **options: Unpack[HostOptions],
) -> PipelineSnapshot:
    """Run a pipeline over a hand-over folder on this loop, and return the last snapshot. `options`: see `HostOptions`.

    `pipeline`: a file as `file.py[:name]`, or a function. Each query is a consumer of the folder, and continues from its checkpoint below
    `checkpoints`. `until` is the end of the run: "stopped" (when `stop` is set), "caught up" (with the current content of the folder), a
    txid, or an awaitable such as the end of the engine's run. After the awaitable, the remaining transactions are processed.
    Cancellation stops at once, and the next run repeats unfinished micro-batches.

    Raises PipelineFileError, PipelineRefused, PipelineError, SparkMissing, and errors of an awaited `until`. Raises SparkUnavailable if
    Spark cannot be reached at the start. If Spark is lost later, or killed during its start, the pipeline starts it again.
    """
    settings = settings_of(pipeline, folder, checkpoints, options)
    run = PipelineRun(settings, spark or SparkConfig(), until)
    run.on_progress += [options["on_progress"]] if "on_progress" in options else []
    run.on_note += [options["on_note"]] if "on_note" in options else []
    stopping = asyncio.create_task(_drain_when(options["stop"], run)) if "stop" in options else None
    try:
        await run.completed()
    finally:
        if stopping is not None:
            stopping.cancel()
    return run.snapshot()


def settings_of(pipeline: Pipeline, folder: FolderPath, checkpoints: FolderPath, options: RunOptions) -> PipelineSettings:
    """Return validated settings. Raise PipelineFileError or PipelineRefused."""
    if isinstance(pipeline, (str, os.PathLike)):
        chosen: str | Definition = os.fspath(pipeline)
        check_readable(os.fspath(pipeline))
    else:
        chosen = definition_of(pipeline, getattr(pipeline, "__qualname__", repr(pipeline)))
    texts = {name: str(value) for name, value in options.get("source", {}).items()}
    path = _absolute(folder)
    storage = _storage({**texts, "path": path})
    most_restarts = options.get("most_restarts", MAX_RESTARTS)
    return PipelineSettings(chosen, path, _absolute(checkpoints), texts, storage, options.get("stop_secs", STOP_SECS), most_restarts)


def _absolute(folder: FolderPath) -> str:
    """Return a path that does not depend on the current folder."""
    text = os.fspath(folder)
    return text if "://" in text else os.path.abspath(text)


def _storage(options: Mapping[str, str]) -> Mapping[str, Any]:
    try:
        return SourceOptions.parse(options).storage
    except HandoverError as error:
        raise folder_error(error) from error


def _claim(settings: PipelineSettings) -> int:
    """Claim the folder of checkpoints. Return the newest txid of the hand-over."""
    handover = settings.handover()
    claim_checkpoints(storage_at(settings.checkpoints), handover.contract)
    return handover.newest()


async def _is_set(event: asyncio.Event, secs: float) -> bool:
    """Wait up to `secs` for the event. Return True if it is set."""
    try:
        await asyncio.wait_for(event.wait(), secs)
    except TimeoutError:
        return False
    return True


async def _drain_when(stop: asyncio.Event, run: PipelineRun) -> None:
    await stop.wait()
    await run.drain()
