"""What one task of Spark reads: a few files of the hand-over, in bounded record batches. Runs on executors."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark_bridge.handover import HandoverError, Manifest, StagedFile, StorageUnavailable, TornFile, open_staged, storage_at
from spark_bridge.handover.names import file_text
from spark_bridge.handover.staged_file import RESTORE
from spark_bridge.handover.storage.api import HINT, reason
from spark_bridge.source.options import SourceOptions, Table

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

BATCH_BYTES: Final = 4 << 20
BATCH_ROWS: Final = 65_536
ADDED: Final = (pa.field("txid", pa.int64(), nullable=False), pa.field("batch_time", pa.timestamp("us", tz="UTC"), nullable=False))
"""The columns that rows get beside their own."""


@dataclass(frozen=True)
class FilePart:
    """A file, and what its rows get beside their own columns."""

    file: StagedFile
    txid: int
    time_ms: int


class FilePartition(InputPartition):
    """Some files, in order; its `value` holds them."""

    value: tuple[FilePart, ...]

    def __init__(self, parts: Iterable[FilePart]) -> None:
        super().__init__(tuple(parts))


def partitions_of(manifests: Iterable[Manifest], table: Table, max_bytes: int) -> list[FilePartition]:
    """Return what tasks read of these batches: neighbouring files together as long as they are no more than `max_bytes`."""
    packed: list[list[FilePart]] = []
    taken = max_bytes
    for manifest in manifests:
        for file in manifest.files if table == "rows" else manifest.rejects:
            if taken + file.bytes > max_bytes:
                packed.append([])
                taken = 0
            packed[-1].append(FilePart(file, manifest.txid, manifest.time_ms))
            taken += file.bytes
    return [FilePartition(parts) for parts in packed]


def read_partition(options: SourceOptions, partition: FilePartition | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition with `txid` and `batch_time`; nothing for None. Raises HandoverError, which names file and txid.

    No row of a file is yielded before its size and digest are verified; without a digest (earlier versions) pages are, as they are read.
    """
    parts = () if partition is None else partition.value
    storage = storage_at(options.folder, options.storage)
    for part in parts:
        with open_staged(storage, part.file) as file, _telling(storage.url, part.file):
            yield from _batches(file, part, storage.url)


@contextmanager
def _telling(where: str, file: StagedFile) -> Iterator[None]:
    """Turn what pyarrow says of a file into a HandoverError: without a digest it may be damaged, or the storage away."""
    try:
        yield
    except (OSError, ValueError, MemoryError, NotImplementedError) as error:
        text = f"{where}: {file_text(file.name)} cannot be read: {reason(error)}"
        if file.digest is not None:
            hint = f"Its bytes are those that were committed. Can this pyarrow ({pa.__version__}) read Parquet files of the engine's one?"
            raise HandoverError(text, hint=hint) from error
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageUnavailable(text, hint=HINT) from error
        hint = "It is damaged, or its storage broke off. Try again; if that is no better, restore it from a copy."
        raise TornFile(text, hint=hint) from error


def _batches(file: Any, part: FilePart, where: str) -> Iterator[pa.RecordBatch]:
    from pyarrow.parquet import ParquetFile

    parquet = ParquetFile(file, page_checksum_verification=True)
    if parquet.metadata.num_rows != part.file.rows:
        text = f"{where}: {file_text(part.file.name)} has {parquet.metadata.num_rows} rows, and {part.file.rows} were committed"
        raise TornFile(text, hint=RESTORE)
    own = [name for name in parquet.schema_arrow.names if name != ADDED[0].name]  # rejects tell their txid themselves
    for batch in parquet.iter_batches(batch_size=rows_at_once(parquet.metadata), columns=own):
        yield _with_batch(batch, part)


def rows_at_once(metadata: "FileMetaData") -> int:
    """Return how many rows one record batch has, so that it takes some megabytes: by the size of all rows, uncompressed."""
    size: int = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    rows: int = metadata.num_rows
    return max(1, min(BATCH_ROWS, rows * BATCH_BYTES // max(size, 1)))


def _with_batch(batch: pa.RecordBatch, part: FilePart) -> pa.RecordBatch:
    """Constant columns, as Spark names them."""
    times = pa.array([part.time_ms * 1000], pa.int64()).cast(ADDED[1].type)
    added = [pa.repeat(pa.scalar(part.txid, pa.int64()), batch.num_rows), pa.repeat(times[0], batch.num_rows)]
    return pa.RecordBatch.from_arrays([*batch.columns, *added], schema=pa.schema([*batch.schema, *ADDED]))
