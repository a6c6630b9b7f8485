"""`Stager` is a batch bolt. Its tasks write their rows to Parquet files in the processing phase (SP-2)."""

import asyncio
from collections.abc import Awaitable
from typing import ClassVar, Final

from engine.api import Burst, Fields
from engine.transactional import BurstBolt
from spark_bridge.task_try import TASK_TRY
from spark_bridge.writer.backpressure import HandoverBackpressure
from spark_bridge.writer.columns import Columns, places_of
from spark_bridge.writer.open_folder import FolderResource, HandoverSettings, OpenFolder
from spark_bridge.writer.partition_output import BurstRows, PartitionOutput, StagingPlace, Unconverted

BURST_ROWS: Final = 2_048
"""Rows that are converted in one call.

Plain rows are converted on the event loop, in 0.2 ms, while they are in the processor's cache, and their tuples are freed. A thread would
hold the GIL for the conversion, and take twice as long.
"""
CHUNK_ROWS: Final = 16_384
"""Rows that are passed to the thread in one call. At most two chunks wait for the thread. After that the tuples of the batch wait."""
REPORT: Final = Fields("task", "files", "rejects")
"""Fields of a stager task's report to the manifest committer."""


class Stager(BurstBolt):
    """Stager of one attempt at one task. It reports its files to the manifest committer. Files without a manifest are invisible."""

    output_fields = REPORT
    burst_rows: ClassVar[int] = BURST_ROWS
    needs_transactional_spout: ClassVar[bool] = True
    """A manifest is never replaced, so a replay must have the same batch."""

    def __init__(self, settings: HandoverSettings) -> None:
        self._settings = settings
        self.reads: Final = tuple(settings.schema.names)
        """Fields of its input that become columns."""
        self.admission: Final = HandoverBackpressure(settings)
        self._columns: tuple[Fields, Columns] | None = None
        """Conversion of tuples of these fields."""
        self._bursts: list[BurstRows] = []
        self._rows = 0
        """Number of rows in `_bursts`."""
        self._writing: asyncio.Task[None] | None = None
        """Newest chunk that was passed to the thread."""
        self._folder: OpenFolder | None = None
        self._output: PartitionOutput | None = None
        self._is_finished = False

    def execute_many(self, burst: Burst) -> Awaitable[None] | None:
        rows, fields = burst.rows, burst.fields
        if self._columns is None or self._columns[0] is not fields:
            schema = self._settings.schema
            self._columns = (fields, Columns(schema, places_of(schema, fields.names)))
        columns = self._columns[1]
        batch = columns.convert_plain(rows)
        self._bursts.append(Unconverted(rows, fields, columns) if batch is None else batch)
        self._rows += len(rows)
        return self._write_chunk() if self._rows >= CHUNK_ROWS else None

    def _write_chunk(self) -> Awaitable[None] | None:
        """Pass the collected rows to the thread. While the thread works on an earlier chunk, the returned coroutine waits for it."""
        chunk, self._bursts, self._rows = self._bursts, [], 0
        if self._writing is not None and not self._writing.done():
            return self._write_after(self._writing, chunk)
        if self._writing is not None:
            self._writing.result()
        self._begin_write(chunk)
        return None

    async def _write_after(self, before: "asyncio.Task[None]", chunk: list[BurstRows]) -> None:
        await before
        self._begin_write(chunk)

    def _begin_write(self, chunk: list[BurstRows]) -> None:
        self._writing = asyncio.get_running_loop().create_task(self._write(chunk))
        self._writing.add_done_callback(_retrieve_exception)

    async def _write(self, chunk: list[BurstRows]) -> None:
        folder, output = await self._open_output()
        await folder.run_in_thread(lambda: output.write_bursts(chunk))

    async def _open_output(self) -> tuple[OpenFolder, PartitionOutput]:
        if self._folder is None or self._output is None:
            context = self.context
            self._folder = await self.resources.opened(FolderResource(self._settings, context.component_id))
            place = StagingPlace(self.attempt, context.task_index, context.tasks, TASK_TRY.get())
            self._output = PartitionOutput(self._folder.storage, self._settings, place)
        return self._folder, self._output

    async def finish_batch(self) -> None:
        if self._writing is not None:
            await self._writing
        if self._bursts:
            await self._write(self._bursts)
        if self._output is None or self._folder is None:
            self.collector.emit((self.context.task_index, (), ()))
            return
        staged = await self._folder.run_in_thread(self._output.finish_files)
        self._is_finished = True
        self.context.counter("handover_rows_staged").add(sum(file.rows for file in staged.files))
        self.context.counter("handover_rows_rejected").add(sum(file.rows for file in staged.rejects))
        self.collector.emit((self.context.task_index, staged.files, staged.rejects))

    def cleanup(self) -> None:
        """Remove unfinished files. If the attempt was superseded, retention removes the finished files."""
        if self._writing is not None:
            self._writing.cancel()
        if self._folder is not None and self._output is not None and not self._is_finished:
            self._folder.submit_to_thread(self._output.discard_files)


def _retrieve_exception(writing: "asyncio.Task[None]") -> None:
    """Mark the exception as seen. Nobody awaits the task of a superseded attempt, and asyncio would log a warning."""
    if not writing.cancelled():
        writing.exception()
