"""One share of a batch on its way to Spark and back: files of a folder that is temporary. All of it is used in a thread."""

import functools
import os
import shutil
import socket
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
from spark_bridge.writer.columns import Columns, Row, bad_row_error, places_of

CHUNK_ROWS: Final = 8_192
"""Rows that become columns at once: between two chunks the loop gets the interpreter."""
SLICE_ROWS: Final = 1_024
"""Rows of the result that become tuples, and are emitted, at once."""
CLEAN: Final = "Clean such rows before they come here, or correct the schema of SparkTransform."
PREFIX: Final = "stormcell-spool-"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Spool:
    """The folder of a task, as a resource."""

    root: str | None

    async def open(self, context: TaskContext) -> "OpenSpool":
        """Return it; it is made for its first share."""
        return OpenSpool(self.root, context.component_id)


class OpenSpool:
    """Makes shares; its folder goes with the task. What was left by a process of this machine that is dead goes too."""

    def __init__(self, root: str | None, component_id: str) -> None:
        self._root = None if root is None else os.path.abspath(root)
        self._folder: str | None = None
        self._closed = False
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"{POOL_NAME} {component_id}")

    async def call(self, work: Callable[[], _T]) -> _T:
        """Call what takes its time in the one thread of this task."""
        return await in_thread(self._pool, work)

    def call_later(self, work: Callable[[], None]) -> None:
        """Have it be called behind what the thread does, if the folder does not go by itself."""
        if not self._closed:
            self._pool.submit(work)

    def share(self, attempt: TransactionAttempt) -> "Share":
        """Return the share of this attempt; raise StateUnavailable where there can be no folder."""
        try:
            if self._folder is None:
                root = self._root or tempfile.gettempdir()
                _sweep(root)
                self._folder = tempfile.mkdtemp(prefix=f"{PREFIX}{_this_machine()}-{os.getpid()}-", dir=root)
                os.chmod(self._folder, 0o755)  # executors may run as somebody else
            folder = os.path.join(self._folder, f"{attempt.txid}-{attempt.attempt_id}")
            os.mkdir(folder)
        except OSError as error:
            raise _unwritable(self._root or tempfile.gettempdir(), error) from error
        return Share(folder, attempt)

    async def close(self) -> None:
        """Remove the folder, behind what is done in the threads."""
        self._closed = True
        if self._folder is not None:
            await self.call(functools.partial(shutil.rmtree, self._folder, ignore_errors=True))
        self._pool.shutdown(wait=False)


class Share:
    """The rows of one attempt at one task, and what Spark made of them."""

    def __init__(self, folder: str, attempt: TransactionAttempt) -> None:
        self._folder = folder
        self._attempt = attempt
        self.rows_path: Final = os.path.join(folder, "rows.parquet")
        self.result_path: Final = os.path.join(folder, "result.arrow")

    def write(self, schema: pa.Schema, tuples: list[Tuple]) -> None:
        """Write the rows; raise FatalError for the first that does not fit."""
        try:
            with pq.ParquetWriter(self.rows_path, schema, compression="zstd", write_page_checksum=True) as writer:
                for names, rows, first in _chunks(tuples):
                    batch, bad = Columns(schema, places_of(schema, names)).convert(rows)
                    if bad:
                        first_bad = bad[0]._replace(row=first + bad[0].row)
                        raise bad_row_error(self._attempt, schema, names, rows[bad[0].row], first_bad, CLEAN)
                    writer.write_batch(batch)
        except OSError as error:
            raise _unwritable(self._folder, error) from error

    def slices(self, rows: int) -> Generator[list[Row]]:
        """Yield the rows of the result, so many at once. Raises StateUnavailable where they are not the `rows` that Spark wrote."""
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
            raise _unreadable(self.result_path, reason(error)) from error
        if found != rows:
            raise _unreadable(self.result_path, f"it has {found} rows, and Spark wrote {rows}")

    def remove(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _chunks(tuples: list[Tuple]) -> Iterator[tuple[tuple[str, ...], list[Row], int]]:
    """Yield rows of the same fields, with these and the number of the first: tuples of several streams have different ones."""
    begin = 0
    while begin < len(tuples):
        fields = tuples[begin].fields
        end = begin
        while end < min(len(tuples), begin + CHUNK_ROWS) and tuples[end].fields is fields:
            end += 1
        yield fields.names, [tup.values for tup in tuples[begin:end]], begin
        begin = end


def _unwritable(path: str, error: OSError) -> StateUnavailable:
    what = f"the spool {path!r} cannot be written: {reason(error)}"
    return StateUnavailable(what, hint="Make room, or name another folder by spool=; the batch is tried again.")


def _unreadable(path: str, why: str) -> StateUnavailable:
    hint = "See whether the disk of the spool is in order, or name another folder by spool=; the batch is tried again."
    return StateUnavailable(f"the result of a batch, {path!r}, cannot be read: {why}", hint=hint)


def _this_machine() -> str:
    return socket.gethostname().replace("-", "_")


def _sweep(root: str) -> None:
    """Remove the folders of processes of this machine that are no more."""
    own = f"{PREFIX}{_this_machine()}-"
    for name in os.listdir(root):
        pid = name.removeprefix(own).partition("-")[0]
        if name.startswith(own) and pid.isdigit() and not _is_alive(int(pid)):
            shutil.rmtree(os.path.join(root, name), ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
