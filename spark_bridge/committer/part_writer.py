"""One Parquet file that is being staged. Used in a thread."""

from contextlib import ExitStack, suppress
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_bridge.handover import StagedFile, Storage
from spark_bridge.handover.staged_file import DigestedOutput

ROW_GROUP_ROWS: Final = 131_072
"""What waits in memory as Arrow, at most, before it is written."""


def with_dictionary(schema: pa.Schema) -> list[str]:
    """Return the columns that Parquet is to write by dictionary: texts. Numbers and times, which mostly differ from row to row, take twice
    the time and three times the room so.

    >>> with_dictionary(pa.schema([("host", pa.string()), ("price", pa.float64())]))
    ['host']
    """
    return [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]


class _Abandoned(Exception):
    """The file is not to be finished."""


class PartWriter:
    """Takes record batches, and writes them in row groups."""

    def __init__(self, storage: Storage, name: str, schema: pa.Schema, compression: str) -> None:
        """Create the file. Raises NameTaken where another has it."""
        self._storage, self._name, self._schema = storage, name, schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self.rows = 0
        self._open = ExitStack()
        with storage.telling("write", name):
            self._digested = DigestedOutput(self._open.enter_context(storage.open_output(name)))
            self._output = self._digested.buffered()
            texts = with_dictionary(schema)
            self._writer = pq.ParquetWriter(self._output, schema, compression=compression, use_dictionary=texts, write_page_checksum=True)

    @property
    def byte_count(self) -> int:
        """How large the file is, without the rows that wait."""
        return int(self._output.tell())

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows, or have them wait for more."""
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self._write()

    def finish(self) -> StagedFile:
        """Write the rest, and have the file be durable."""
        self._write()
        with self._storage.telling("write", self._name):
            self._writer.close()
            byte_count = self.byte_count
            self._output.close()
            self._open.close()
        return StagedFile(self._name, self.rows, byte_count, self._digested.digest())

    def abandon(self) -> None:
        """Let go of the file, and remove it."""
        with suppress(OSError, ValueError, pa.ArrowException):  # it is of no use, whatever it lacks
            self._writer.close()
            self._output.close()
        with suppress(_Abandoned):
            self._open.__exit__(_Abandoned, _Abandoned(), None)
        self._storage.remove(self._name)

    def _write(self) -> None:
        if self._waiting:
            waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
            with self._storage.telling("write", self._name):
                self._writer.write_table(pa.Table.from_batches(waiting, self._schema), row_group_size=ROW_GROUP_ROWS)
