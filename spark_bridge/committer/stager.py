"""The stager: a batch bolt with n tasks, each of which writes its share of a batch to Parquet files, in the processing phase (SP-2)."""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, ClassVar, Final

from engine.topology import Fields
from engine.transactional import BurstBolt
from spark_bridge.committer.admission import HandoverAdmission
from spark_bridge.committer.columns import Columns, Row, places_of
from spark_bridge.committer.open_folder import FolderOf, OpenFolder
from spark_bridge.committer.share_writer import Burst, ShareWriter, Unconverted

if TYPE_CHECKING:
    from spark_bridge.committer.spark_handover import SparkHandover

BURST_ROWS: Final = 2_048
"""Rows that become columns at once. Plain ones do so on the loop, in 0.2 ms, while they are in the processor's cache, and their tuples
are free: given to a thread they would cost the interpreter's lock, and twice as much."""
CHUNK_ROWS: Final = 16_384
"""Rows that are given to the thread at once. Two chunks at most wait for it, then the tuples of the batch do."""
REPORT: Final = Fields("task", "files", "rejects")


class Stager(BurstBolt):
    """One attempt at one task. Tells the decider which files it has written; what nobody names in a manifest is not there."""

    output_fields = REPORT
    burst_rows: ClassVar[int] = BURST_ROWS
    needs_transactional_spout: ClassVar[bool] = True
    """What is in a manifest is never replaced, so a replay has to be the same batch."""

    def __init__(self, handover: "SparkHandover") -> None:
        self._handover = handover
        self.reads: Final = tuple(handover.arrow_schema.names)
        """The fields of its input that become columns."""
        self.admission: Final = HandoverAdmission(handover)
        self._columns: tuple[Fields, Columns] | None = None
        """For tuples of these fields."""
        self._bursts: list[Burst] = []
        self._rows = 0
        """In `_bursts`."""
        self._writing: asyncio.Task[None] | None = None
        """The newest chunk that was given to the thread."""
        self._folder: OpenFolder | None = None
        self._share: ShareWriter | None = None
        self._is_finished = False

    def execute_many(self, rows: list[Row], fields: Fields) -> Awaitable[None] | None:
        if self._columns is None or self._columns[0] is not fields:
            schema = self._handover.arrow_schema
            self._columns = (fields, Columns(schema, places_of(schema, fields.names)))
        columns = self._columns[1]
        batch = columns.convert_plain(rows)
        self._bursts.append(Unconverted(rows, fields, columns) if batch is None else batch)
        self._rows += len(rows)
        return self._write_chunk() if self._rows >= CHUNK_ROWS else None

    def _write_chunk(self) -> Awaitable[None] | None:
        """Give the thread what there is; where it has not done with the last of it, the tuples that come wait meanwhile."""
        chunk, self._bursts, self._rows = self._bursts, [], 0
        if self._writing is not None and not self._writing.done():
            return self._write_after(self._writing, chunk)
        if self._writing is not None:
            self._writing.result()
        self._begin_write(chunk)
        return None

    async def _write_after(self, before: "asyncio.Task[None]", chunk: list[Burst]) -> None:
        await before
        self._begin_write(chunk)

    def _begin_write(self, chunk: list[Burst]) -> None:
        self._writing = asyncio.get_running_loop().create_task(self._write(chunk))
        self._writing.add_done_callback(_retrieve)

    async def _write(self, chunk: list[Burst]) -> None:
        folder, share = await self._opened()
        await folder.call(lambda: share.add(chunk))

    async def _opened(self) -> tuple[OpenFolder, ShareWriter]:
        if self._folder is None or self._share is None:
            context = self.context
            self._folder = await self.resources.opened(FolderOf(self._handover, context.component_id))
            self._share = ShareWriter(self._folder.storage, self._handover.style, self.attempt, context.task_index, context.tasks)
        return self._folder, self._share

    async def finish_batch(self) -> None:
        if self._writing is not None:
            await self._writing
        if self._bursts:
            await self._write(self._bursts)
        if self._share is None or self._folder is None:
            self.collector.emit((self.context.task_index, (), ()))
            return
        staged = await self._folder.call(self._share.finish)
        self._is_finished = True
        self.context.counter("handover_rows_staged").add(sum(file.rows for file in staged.files))
        self.context.counter("handover_rows_rejected").add(sum(file.rows for file in staged.rejects))
        self.collector.emit((self.context.task_index, staged.files, staged.rejects))

    def cleanup(self) -> None:
        """Remove what is half written; what is whole is swept by the decider."""
        if self._writing is not None:
            self._writing.cancel()
        if self._folder is not None and self._share is not None and not self._is_finished:
            self._folder.call_later(self._share.abandon)


def _retrieve(writing: "asyncio.Task[None]") -> None:
    """The attempt may be over: asyncio is not to complain of what nobody waits for."""
    if not writing.cancelled():
        writing.exception()
