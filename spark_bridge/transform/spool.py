"""Temporary files of attempts, with rows for Spark and with results. The functions block, so the bolt calls them in its task's thread."""

import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from engine.api import TaskContext, Tuple
from engine.errors import StateUnavailable
from engine.in_thread import in_thread
from engine.names import POOL_NAME
from engine.transactional import TransactionAttempt
from spark_bridge.handover.storage.api import reason
from spark_bridge.process.spool_folder import make_spool_folder, remove_spool_folder
from spark_bridge.writer.columns import Columns, Row, bad_row_error, places_of

CHUNK_ROWS: Final = 8_192
"""Rows that are converted to columns in one step. Between two steps the event loop can take the GIL."""
SLICE_ROWS: Final = 1_024
"""Rows of the result that are converted to tuples and emitted in one step."""
BAD_ROW_HINT: Final = "Filter or correct such rows in an earlier bolt, or correct schema= of SparkTransform."
_T = TypeVar("_T")


@dataclass(frozen=True)
class Spool:
    """Resource of a task, which has a folder for temporary files."""

    root: str | None

    async def open(self, context: TaskContext) -> "OpenSpool":
        """Return the open spool. The folder is created for the first attempt."""
        return OpenSpool(self.root, context.component_id)


class OpenSpool:
    """Creates the files of attempts, and removes the folder with the task.

    At its first use it also removes folders of processes that are known to be dead.
    """

    def __init__(self, root: str | None, component_id: str) -> None:
        self._root = None if root is None else os.path.abspath(root)
        self._folder: str | None = None
        self._closed = False
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"{POOL_NAME} {component_id}")

    async def run_in_thread(self, work: Callable[[], _T]) -> _T:
        """Run blocking work in the one thread of this task."""
        return await in_thread(self._pool, work)

    def run_later(self, work: Callable[[], None]) -> None:
        """Queue work for the thread. Does nothing after `close`, which removes the whole folder."""
        if not self._closed:
            self._pool.submit(work)

    def create_files(self, attempt: TransactionAttempt) -> "AttemptFiles":
        """Create the folder of an attempt. Raise StateUnavailable if that fails."""
        try:
            if self._folder is None:
                self._folder = make_spool_folder(self._root)
            folder = os.path.join(self._folder, f"{attempt.txid}-{attempt.attempt_id}")
            os.mkdir(folder)
        except OSError as error:
            raise _write_error(self._root or tempfile.gettempdir(), error) from error
        return AttemptFiles(folder, attempt)

    async def close(self) -> None:
        """Remove the folder after the queued work."""
        self._closed = True
        await self.run_in_thread(self._remove)
        self._pool.shutdown(wait=False)

    def _remove(self) -> None:
        """Remove the folder in the thread. Earlier work in the thread may have created the folder after its caller was cancelled."""
        if self._folder is not None:
            remove_spool_folder(self._folder)


class AttemptFiles:
    """Files of one attempt at one task: the rows for Spark, and its result."""

    def __init__(self, folder: str, attempt: TransactionAttempt) -> None:
        self._folder = folder
        self._attempt = attempt
        self.rows_path: Final = os.path.join(folder, "rows.parquet")
        self.result_path: Final = os.path.join(folder, "result.arrow")

    def write_rows(self, schema: pa.Schema, tuples: list[Tuple]) -> None:
        """Write the rows. Raise FatalError for the first row that does not fit the schema."""
        try:
            with pq.ParquetWriter(self.rows_path, schema, compression="zstd", write_page_checksum=True) as writer:
                for names, rows, first in _chunks(tuples):
                    batches, bad = Columns(schema, places_of(schema, names)).convert(rows)
                    if bad:
                        first_bad = bad[0]._replace(row=first + bad[0].row)
                        raise bad_row_error(self._attempt, schema, names, rows[bad[0].row], first_bad, BAD_ROW_HINT)
                    for batch in batches:
                        writer.write_batch(batch)
        except OSError as error:
            raise _write_error(self._folder, error) from error

    def read_slices(self, row_count: int) -> Generator[list[Row]]:
        """Yield the result in slices of rows. Raise StateUnavailable if it is damaged or does not have `row_count` rows."""
        found = 0
        try:
            with pa.memory_map(self.result_path) as file, pa.ipc.open_stream(file) as reader:
                for batch in reader:
                    batch.validate(full=True)
                    found += batch.num_rows
                    for begin in range(0, batch.num_rows, SLICE_ROWS):
                        part = batch.slice(begin, SLICE_ROWS)
                        yield list(zip(*(column.to_pylist() for column in part.columns), strict=True))
        except (OSError, ValueError, pa.ArrowException) as error:
            raise _read_error(self.result_path, reason(error)) from error
        if found != row_count:
            raise _read_error(self.result_path, f"it has {found} rows, but Spark wrote {row_count}")

    def remove(self) -> None:
        """Remove the folder of the attempt."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _chunks(tuples: list[Tuple]) -> Iterator[tuple[tuple[str, ...], list[Row], int]]:
    """Yield chunks of rows with equal fields, their fields, and the number of their first row. Each stream has its own fields."""
    begin = 0
    while begin < len(tuples):
        fields = tuples[begin].fields
        end = begin
        while end < min(len(tuples), begin + CHUNK_ROWS) and tuples[end].fields is fields:
            end += 1
        yield fields.names, [tup.values for tup in tuples[begin:end]], begin
        begin = end


def _write_error(path: str, error: OSError) -> StateUnavailable:
    text = f"the spool {path!r} cannot be written: {reason(error)}"
    return StateUnavailable(text, hint="Free space on its disk, or set another folder with spool=. The batch is replayed.")


def _read_error(path: str, why: str) -> StateUnavailable:
    hint = "Check the disk of the spool, or set another folder with spool=. The batch is replayed."
    return StateUnavailable(f"the result of a batch, {path!r}, cannot be read: {why}", hint=hint)
