"""`run_pipeline`: the queries of a pipeline in Spark's child process, from the first look at the folder to the end."""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack

from engine.clock import Clock
from engine.errors import EngineError
from spark_bridge.handover import HandoverError, storage_at
from spark_bridge.handover.names import CONTRACT
from spark_bridge.pipeline.consumers import claim_checkpoints
from spark_bridge.pipeline.definition import Definition, definition_of
from spark_bridge.pipeline.driver import drive, settle
from spark_bridge.pipeline.errors import PipelineError, refusal
from spark_bridge.pipeline.load import check_readable
from spark_bridge.pipeline.progress import BatchDone, Board, Event, NewestSeen, PipelineSnapshot, QueriesKnown, StatusChanged, Told
from spark_bridge.pipeline.restarts import Restarts
from spark_bridge.pipeline.settings import MOST_RESTARTS, STOP_SECS, PipelineSettings
from spark_bridge.process import SparkConfig, SparkDied, SparkUnavailable
from spark_bridge.process.shared import SparkHold, hold
from spark_bridge.source.options import SourceOptions

Pipeline: TypeAlias = str | os.PathLike[str] | Callable[..., object]
Place: TypeAlias = str | os.PathLike[str]
Until: TypeAlias = Literal["stopped", "caught up"] | int | Awaitable[object]
LOOK_SECS: Final = 0.5
SETTLE_LOOK_SECS: Final = 0.2


class PipelineRun:
    """One run of a pipeline: `completed()` runs it, `drain()` stops it, `snapshot()` shows it. Belongs to the loop that it is used on."""

    def __init__(self, settings: PipelineSettings, spark: SparkConfig, until: Until = "stopped") -> None:
        self.on_progress: list[Callable[[PipelineSnapshot], object]] = []
        """Called with the figures whenever one of them has changed."""
        self.on_note: list[Callable[[str], object]] = []
        """Called with what a person should hear of: restarts, a folder that is not there yet."""
        self._settings = settings
        self._until = until
        self._spark = spark
        self._caught_up = False
        self._has_begun = False
        """True once Spark's process has told of the queries."""
        self._board = Board(settings.name, Clock().now)
        self._restarts = Restarts(most=settings.most_restarts)
        self._stop = asyncio.Event()
        self._over = asyncio.Event()
        self._changed = asyncio.Event()
        self._names: tuple[str, ...] = ()

    def snapshot(self) -> PipelineSnapshot:
        """Return the figures of now."""
        return self._board.snapshot()

    async def drain(self, timeout_secs: float | None = None) -> None:
        """Have each query finish its micro-batch, and wait for the end; after `timeout_secs` raises TimeoutError."""
        self._board.state = "stopping"
        self._stop.set()
        async with asyncio.timeout(timeout_secs):
            await self._over.wait()

    async def completed(self) -> None:
        """Run until stopped, or until what `until` says; raises why the pipeline cannot go on. Cancelled, it stops at once."""
        held = hold(self._spark)  # with whatever else of this loop asks for an equal configuration, such as a SparkTransform
        try:
            if await self._folder_is_there():
                await self._run(held)
            self._board.state = "caught up" if self._caught_up else "stopped"
        except BaseException:
            self._board.state = "failed"
            raise
        finally:
            await held.close()
            self._over.set()

    async def _run(self, held: SparkHold) -> None:
        """Have the pipeline driven, and stopped when it has caught up, where that is asked for."""
        if self._until == "stopped":
            await self._drive(held)
            return
        ending = asyncio.create_task(self._catch_up(held))
        ending.add_done_callback(lambda _: self._stop.set())
        try:
            await self._drive(held)
            if ending.done():
                ending.result()
        finally:
            ending.cancel()
            await asyncio.wait([ending])

    # The folder

    async def _folder_is_there(self) -> bool:
        """Wait for the folder, and see whose it is; False where the pipeline was stopped before it was there."""
        try:
            storage = storage_at(self._settings.folder, self._settings.storage)
            if not await asyncio.to_thread(storage.exists, CONTRACT):
                self._board.state = "waiting for the folder"
                self._note(f"waiting for the hand-over {storage.url}: its topology makes it when it starts; or correct the folder")
                while not await asyncio.to_thread(storage.exists, CONTRACT):
                    if await _is_set(self._stop, LOOK_SECS):
                        return False
            self._board.state = "starting"
            newest = await asyncio.to_thread(_claim, self._settings)
            self._board.hear(NewestSeen(newest))
        except HandoverError as error:
            raise refusal(error) from error
        return True

    # Spark's process

    async def _drive(self, held: SparkHold) -> None:
        """Have the pipeline driven, by one process of Spark after the other, until it has come to its end."""
        while not self._stop.is_set():
            try:
                error = await self._call(held)
            except (SparkDied, SparkUnavailable) as death:
                if isinstance(death, SparkUnavailable) and not self._names:
                    raise  # it was never there: rather a wrong master than one that will come back
                await self._pause(death)
                continue
            if error is not None:
                raise error
            return

    async def _call(self, held: SparkHold) -> EngineError | None:
        """Have it driven by one process; where it is stopped before the queries are known, do not wait for Spark to start."""
        self._has_begun = False
        calling: asyncio.Task[EngineError | None] = asyncio.create_task(
            held.call(drive, self._settings, on_event=self._hear, stop=self._stop)
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

    async def _pause(self, death: EngineError) -> None:
        """Wait before the next process; raises PipelineError where there have been too many without a batch between them."""
        pause = self._restarts.pause_after("passing")
        if pause is None:
            hint = (
                death.hint or "See the end of its log above. Nothing is lost: each query goes on where it stood when it is started again."
            )
            raise PipelineError(
                f"{death.message}\nThat was {self._settings.most_restarts + 1} times in a row, without a batch between", hint=hint
            ) from death
        self._board.deaths += 1
        self._board.state = "starting"
        for name in self._names:
            self._board.hear(StatusChanged(name, "restarting", "Spark's process died", pause))
        self._note(f"{death.message.partition('; the end of its log')[0]}; all queries go on from their checkpoints in {pause:g} s")
        await _is_set(self._stop, pause)

    def _hear(self, event: Event) -> None:
        """Take in what Spark's process tells."""
        self._board.hear(event)
        match event:
            case QueriesKnown(planned):
                self._names, self._has_begun = tuple(planned), True
                self._board.state = "stopping" if self._stop.is_set() else "running"
            case StatusChanged(name, "restarting", trouble, pause):
                self._note(f"query {name!r} is started again in {pause:g} s: {trouble}")
            case Told(text):
                self._note(text)
            case BatchDone():
                self._restarts.progressed()
        self._changed.set()
        for listener in self.on_progress:
            listener(self.snapshot())

    def _note(self, text: str) -> None:
        for listener in self.on_note:
            listener(text)

    # Until

    async def _catch_up(self, held: SparkHold) -> None:
        """Return when all queries have done all that there was when it was asked for, or when the producer ended."""
        target = await self._target()
        while self.snapshot().newest_txid < target or not self._names:
            self._changed.clear()
            await self._changed.wait()
        while not await self._has_settled(held, target):
            await _is_set(self._over, SETTLE_LOOK_SECS)
        self._caught_up = True

    async def _target(self) -> int:
        if inspect.isawaitable(self._until):
            await self._until
        elif isinstance(self._until, int):
            return self._until
        try:
            handover = await asyncio.to_thread(self._settings.handover)
            return await asyncio.to_thread(handover.newest)
        except HandoverError as error:
            raise refusal(error) from error

    def _is_beyond(self, target: int) -> bool:
        """Tell whether more came, and all queries are there already: then there is no end to wait for."""
        queries = self.snapshot().queries
        return bool(queries) and all(query.txid > target for query in queries.values())

    async def _has_settled(self, held: SparkHold, target: int) -> bool:
        """Wait until the queries have nothing to do, or all have gone on beyond the target."""
        settling = asyncio.create_task(held.call(settle, self._names))
        try:
            while not settling.done() and not self._is_beyond(target):
                await asyncio.wait([settling], timeout=SETTLE_LOOK_SECS)
            return self._is_beyond(target) or bool(settling.result())
        except EngineError:
            return False  # a query or Spark died: what drives them says so, and starts them again
        finally:
            settling.cancel()


class RunOptions(TypedDict, total=False):
    """What a pipeline may be told beside what it needs."""

    source: Mapping[str, object]
    """Options of the data source for all queries: maxTransactionsPerBatch, maxRowsPerBatch, startingTxid, storage.<name>."""
    stop_secs: float
    """How long a micro-batch under way gets to finish when the pipeline is stopped (60)."""
    most_restarts: int
    """So many deaths in a row, without a batch between them, are survived (5)."""


class HostOptions(RunOptions, total=False):
    """What beside it the program that runs a pipeline may want."""

    stop: asyncio.Event
    """Once set, each query finishes its micro-batch, and the pipeline ends."""
    on_progress: Callable[[PipelineSnapshot], object]
    """Called with the figures whenever one of them has changed."""
    on_note: Callable[[str], object]
    """Called with what a person should hear of: restarts, a folder that is not there yet."""


async def run_pipeline(
    pipeline: Pipeline,
    folder: Place,
    *,
    checkpoints: Place,
    spark: SparkConfig | None = None,
    until: Until = "stopped",
    **options: Unpack[HostOptions],
) -> PipelineSnapshot:
    """Run a pipeline over a hand-over folder, beside whatever runs on this loop; return the last figures. `options`: see `HostOptions`.

    `pipeline`: a file as `file.py[:name]`, or a function. Each of its queries is a consumer of the folder, and has its checkpoint in
    `checkpoints`, where a restart goes on. `until`: "stopped", which is when `stop` is set; "caught up" with what the folder has now;
    a txid; or an awaitable, such as the end of the engine's run: when it is done, all that the folder has then is processed.
    Cancelled, it stops at once; what was under way comes again next time.

    Raises PipelineFileError, PipelineRefused, PipelineError, SparkMissing, what an awaited `until` raises, and SparkUnavailable where Spark
    was not there from the beginning: later on it is waited for.
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


def settings_of(pipeline: Pipeline, folder: Place, checkpoints: Place, options: RunOptions) -> PipelineSettings:
    """Return what Spark's process is told; raise PipelineFileError or PipelineRefused for what is wrong with it."""
    if isinstance(pipeline, (str, os.PathLike)):
        what: str | Definition = os.fspath(pipeline)
        check_readable(os.fspath(pipeline))
    else:
        what = definition_of(pipeline, getattr(pipeline, "__qualname__", repr(pipeline)))
    texts = {name: str(value) for name, value in options.get("source", {}).items()}
    place = _place(folder)
    storage = _storage({**texts, "path": place})
    most_restarts = options.get("most_restarts", MOST_RESTARTS)
    return PipelineSettings(what, place, _place(checkpoints), texts, storage, options.get("stop_secs", STOP_SECS), most_restarts)


def _place(folder: Place) -> str:
    """Return a folder as any process understands it."""
    text = os.fspath(folder)
    return text if "://" in text else os.path.abspath(text)


def _storage(options: Mapping[str, str]) -> Mapping[str, Any]:
    try:
        return SourceOptions.parse(options).storage
    except HandoverError as error:
        raise refusal(error) from error


def _claim(settings: PipelineSettings) -> int:
    """Claim the folder of checkpoints; return the newest txid that the hand-over has."""
    handover = settings.handover()
    claim_checkpoints(storage_at(settings.checkpoints), handover.contract)
    return handover.newest()


async def _is_set(event: asyncio.Event, secs: float) -> bool:
    """Wait so long, or until the event is set; return whether it is."""
    try:
        await asyncio.wait_for(event.wait(), secs)
    except TimeoutError:
        return False
    return True


async def _drain_when(stop: asyncio.Event, run: PipelineRun) -> None:
    await stop.wait()
    await run.drain()
