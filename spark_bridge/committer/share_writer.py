"""What one task stages of one attempt: its rows, and those that do not fit. Used in a thread."""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from engine.topology import Fields
from engine.transactional import TransactionAttempt
from spark_bridge.committer.columns import BadRow, Columns, Row
from spark_bridge.committer.misfit import misfit
from spark_bridge.committer.part_writer import PartWriter
from spark_bridge.handover import REJECTS_SCHEMA, StagedFile, Storage
from spark_bridge.handover.names import FILES, REJECTS, StagedName

CLEAN: Final = "Clean such rows before they come here, correct the schema, or write on_bad_row='reject', which keeps them apart."
FILE_ROWS: Final = 1_048_576
"""After so many rows the next file begins: one partition of Spark reads at least one file."""
FILE_BYTES: Final = 64 << 20
"""So it does after so many bytes: an executor has a whole file in memory, to verify it before it gives out a row."""


class Share(NamedTuple):
    """What was staged."""

    files: tuple[StagedFile, ...]
    rejects: tuple[StagedFile, ...]


class Style(NamedTuple):
    """How rows are written."""

    schema: pa.Schema
    compression: str
    keeps_rejects: bool
    """False: a row that does not fit ends the run."""


class Unconverted(NamedTuple):
    """Rows of which some value is not plain: what becomes of them is found in the thread."""

    rows: list[Row]
    fields: Fields
    columns: Columns


Burst: TypeAlias = pa.RecordBatch | Unconverted


class ShareWriter:
    """Writes the rows of one attempt at one task to files of its own."""

    def __init__(self, storage: Storage, style: Style, attempt: TransactionAttempt, task: int, tasks: int) -> None:
        self._storage, self._style = storage, style
        self._attempt, self._task, self._tasks = attempt, task, tasks
        self._rows = 0
        self._part: PartWriter | None = None
        self._reject_part: PartWriter | None = None
        self._files: list[StagedFile] = []

    def add(self, bursts: list[Burst]) -> None:
        """Write rows. Raises FatalError for one that does not fit, unless those are kept."""
        for burst in bursts:
            if isinstance(burst, pa.RecordBatch):
                self._rows += burst.num_rows
                self._add(burst)
            else:
                self._convert(burst)

    def finish(self) -> Share:
        """Return what was written, which is durable."""
        if self._part is not None:
            self._files.append(self._part.finish())
            self._part = None
        rejects: tuple[StagedFile, ...] = ()
        if self._reject_part is not None:
            rejects = (self._reject_part.finish(),)
            self._reject_part = None
        return Share(tuple(self._files), rejects)

    def abandon(self) -> None:
        """The attempt is over: remove what is not finished."""
        for part in (self._part, self._reject_part):
            if part is not None:
                part.abandon()
        self._part = self._reject_part = None

    def _convert(self, burst: Unconverted) -> None:
        batch, bad = burst.columns.convert(burst.rows)
        if bad:
            self._reject(burst.fields.names, burst.rows, bad)
        self._rows += len(burst.rows)
        if batch.num_rows:
            self._add(batch)

    def _add(self, batch: pa.RecordBatch) -> None:
        if self._part is None:
            self._part = PartWriter(self._storage, self._name(FILES, len(self._files)), self._style.schema, self._style.compression)
        self._part.add(batch)
        if self._part.rows >= FILE_ROWS or self._part.byte_count >= FILE_BYTES:
            self._files.append(self._part.finish())
            self._part = None

    def _name(self, folder: str, part: int) -> str:
        return str(StagedName(*self._attempt, task=self._task, tasks=self._tasks, part=part, folder=folder))

    def _reject(self, names: Sequence[str], rows: list[Row], bad: list[BadRow]) -> None:
        if not self._style.keeps_rejects:
            first = bad[0]._replace(row=self._rows + bad[0].row)
            raise misfit(self._attempt, self._style.schema, names, rows[bad[0].row], first, CLEAN)
        if self._reject_part is None:
            self._reject_part = PartWriter(self._storage, self._name(REJECTS, 0), REJECTS_SCHEMA, self._style.compression)
        columns: list[list[Any]] = [
            [self._attempt.txid] * len(bad),
            [self._task] * len(bad),
            [self._rows + each.row for each in bad],
            [f"{each.column}: {_written(each.error)}" for each in bad],
            [as_json(names, rows[each.row]) for each in bad],
        ]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, REJECTS_SCHEMA, strict=True)]
        self._reject_part.add(pa.RecordBatch.from_arrays(arrays, schema=REJECTS_SCHEMA))


def as_json(names: Sequence[str], row: Row) -> str:
    """Return the values of a tuple without its attempt, by field; a value that JSON has not stands as Python writes it.

    >>> as_json(("attempt", "host", "at"), (None, "a", {1}))
    '{"host": "a", "at": "{1}"}'
    """
    values = dict(zip(names[1:], row[1:], strict=True))
    try:
        return json.dumps(values, default=repr)
    except (TypeError, ValueError, RecursionError):
        return json.dumps({name: repr(value) for name, value in values.items()})


def _written(text: str) -> str:
    """Return a text that can be written as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()
