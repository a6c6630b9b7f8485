"""Output of one task for one attempt. Writes Parquet files of the rows, and of rows that do not fit. Runs in a thread."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from engine.api import Fields
from engine.json_text import json_text
from engine.safe_text import safe_repr
from engine.transactional import TransactionAttempt
from spark_bridge.handover import REJECTS_SCHEMA, StagedFile, Storage
from spark_bridge.handover.manifest import DigestedOutput
from spark_bridge.handover.names import FILES, REJECTS, StagedName
from spark_bridge.writer.columns import BadRow, Columns, Row, bad_row_error, value_at
from spark_bridge.writer.exact_values import value_text
from spark_bridge.writer.open_folder import HandoverSettings

HINT: Final = "Correct such rows in an earlier bolt, correct the schema, or write on_bad_row='reject' to store them separately."
FILE_ROWS: Final = 1_048_576
"""Rows of a file before the next one begins. Spark reads at least one file per partition."""
FILE_BYTES: Final = 64 << 20
"""Bytes of a file before the next one begins. An executor holds a whole file in memory to verify it before it returns a row."""
ROW_GROUP_ROWS: Final = 131_072
"""Rows that wait in memory, as Arrow, before they are written."""
ROW_CHARS: Final = 1 << 18
"""Characters of a rejected row that are kept. A burst of such rows fits an Arrow column."""
PARTS_OF_TRY: Final = 1_000_000
"""Numbers of parts that each try of a task has."""


class Unconverted(NamedTuple):
    """Rows with a value that is not plain. The thread converts them, and finds rows that do not fit."""

    rows: list[Row]
    fields: Fields
    columns: Columns


BurstRows: TypeAlias = pa.RecordBatch | Unconverted


class StagedFiles(NamedTuple):
    """Finished, durable files of one attempt at one task."""

    files: tuple[StagedFile, ...]
    rejects: tuple[StagedFile, ...]


class StagingPlace(NamedTuple):
    """The writer of some files. No two writers have the same place."""

    attempt: TransactionAttempt
    task: int
    tasks: int
    task_try: int = 0
    """Number of the try on Spark. If Spark computes a task again, files of the first try exist, or are still written."""


class PartitionOutput:
    """Writes the rows of one attempt at one task to files that no other attempt, task or try writes."""

    def __init__(self, storage: Storage, settings: HandoverSettings, place: StagingPlace) -> None:
        self._storage, self._settings = storage, settings
        self._attempt, self._task, self._tasks, self._try = place
        self._rows = 0
        self._file: ParquetFile | None = None
        self._reject_file: ParquetFile | None = None
        self._finished: list[StagedFile] = []

    def write_bursts(self, bursts: list[BurstRows]) -> None:
        """Write rows. Raises FatalError for a row that does not fit the schema, unless rejects are kept."""
        for burst in bursts:
            if isinstance(burst, pa.RecordBatch):
                self._rows += burst.num_rows
                self._write(burst)
            else:
                self._convert(burst)

    def finish_files(self) -> StagedFiles:
        """Finish the open files, make them durable, and return all files."""
        if self._file is not None:
            self._finished.append(self._file.finish_file())
            self._file = None
        rejects: tuple[StagedFile, ...] = ()
        if self._reject_file is not None:
            rejects = (self._reject_file.finish_file(),)
            self._reject_file = None
        return StagedFiles(tuple(self._finished), rejects)

    def discard_files(self) -> None:
        """Remove unfinished files after the attempt was superseded. Retention removes the finished files."""
        for file in (self._file, self._reject_file):
            if file is not None:
                file.discard_file()
        self._file = self._reject_file = None

    def _convert(self, burst: Unconverted) -> None:
        batches, bad = burst.columns.convert(burst.rows)
        if bad:
            self._reject(burst.fields.names, burst.rows, bad)
        self._rows += len(burst.rows)
        for batch in batches:
            self._write(batch)

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._file is None:
            self._file = self._open_file(FILES, len(self._finished), self._settings.schema)
        self._file.write_batch(batch)
        if self._file.rows >= FILE_ROWS or self._file.byte_count >= FILE_BYTES:
            self._finished.append(self._file.finish_file())
            self._file = None

    def _open_file(self, folder: str, part: int, schema: pa.Schema) -> "ParquetFile":
        part += self._try * PARTS_OF_TRY
        name = str(StagedName(*self._attempt, task=self._task, tasks=self._tasks, part=part, folder=folder))
        return ParquetFile(self._storage, name, schema, self._settings.compression)

    def _reject(self, names: Sequence[str], rows: list[Row], bad: list[BadRow]) -> None:
        if not self._settings.keeps_rejects:
            first = bad[0]._replace(row=self._rows + bad[0].row)
            raise bad_row_error(self._attempt, self._settings.schema, names, rows[bad[0].row], first, HINT)
        if self._reject_file is None:
            self._reject_file = self._open_file(REJECTS, 0, REJECTS_SCHEMA)
        columns: list[list[Any]] = [
            [self._attempt.txid] * len(bad),
            [self._task] * len(bad),
            [self._rows + each.row for each in bad],
            [_reject_text(names, rows[each.row], each) for each in bad],
            [row_as_json(names, rows[each.row]) for each in bad],
        ]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, REJECTS_SCHEMA, strict=True)]
        self._reject_file.write_batch(pa.RecordBatch.from_arrays(arrays, schema=REJECTS_SCHEMA))


class ParquetFile:
    """One staged Parquet file. Collects record batches, and writes them in row groups."""

    def __init__(self, storage: Storage, name: str, schema: pa.Schema, compression: str) -> None:
        """Create the file. Raises NameTaken if it exists."""
        self._storage, self._name, self._schema = storage, name, schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self.rows = 0
        self._open = ExitStack()
        with storage.translate_errors("write", name):
            self._digested = DigestedOutput(self._open.enter_context(storage.open_output(name)))
            self._output = self._digested.buffered()
            texts = dictionary_columns(schema)
            self._writer = pq.ParquetWriter(self._output, schema, compression=compression, use_dictionary=texts, write_page_checksum=True)

    @property
    def byte_count(self) -> int:
        """Size of the file, without the rows that wait in memory."""
        return int(self._output.tell())

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows, or collect them until a row group is full."""
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self._write_row_group()

    def finish_file(self) -> StagedFile:
        """Write the remaining rows and make the file durable."""
        self._write_row_group()
        with self._storage.translate_errors("write", self._name):
            self._writer.close()
            byte_count = self.byte_count
            self._output.close()
            self._open.close()
        return StagedFile(self._name, self.rows, byte_count, self._digested.digest())

    def discard_file(self) -> None:
        """Close and remove the file."""
        with suppress(OSError, ValueError, pa.ArrowException):  # the file is removed, so its content does not matter
            self._writer.close()
            self._output.close()
        # The storage's context must end with an exception, because a normal end would make the file durable.
        with suppress(_Discarded):
            self._open.__exit__(_Discarded, _Discarded(), None)
        self._storage.remove(self._name)

    def _write_row_group(self) -> None:
        if self._waiting:
            waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
            with self._storage.translate_errors("write", self._name):
                self._writer.write_table(pa.Table.from_batches(waiting, self._schema), row_group_size=ROW_GROUP_ROWS)


class _Discarded(Exception):
    """Ends the context of a file that will not be finished."""


def dictionary_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that Parquet encodes with a dictionary, which are only texts.

    Numbers and times mostly differ from row to row. A dictionary makes their columns three times as large and twice as slow.

    >>> dictionary_columns(pa.schema([("host", pa.string()), ("price", pa.float64())]))
    ['host']
    """
    return [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]


def row_as_json(names: Sequence[str], row: Row) -> str:
    """Return the values of a tuple by field, without its attempt. What JSON cannot express is replaced by its text.

    If the whole is longer than ROW_CHARS, each value is shortened.

    >>> row_as_json(("attempt", "host", "at"), (None, "a", {1}))
    '{"host": "a", "at": "{1}"}'
    """
    values = dict(zip(names[1:], row[1:], strict=True))
    text = json_text(values)
    return text if len(text) <= ROW_CHARS else json_text({name: safe_repr(value) for name, value in values.items()})


def _reject_text(names: Sequence[str], row: Row, bad: BadRow) -> str:
    """Return the column, its value and the reason. A lone surrogate, which UTF-8 cannot encode, is escaped."""
    text = f"{bad.column} is {value_text(value_at(names, row, bad))}: {bad.error}"
    return text.encode("utf-8", "backslashreplace").decode()
