"""Partition of a query. One task of Spark reads its files of the hand-over in bounded record batches. Runs on executors."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark_bridge.handover import HandoverError, Manifest, StagedFile, StorageUnavailable, TornFile, open_staged, storage_at
from spark_bridge.handover.manifest import RESTORE_FILE
from spark_bridge.handover.names import file_text
from spark_bridge.handover.storage.api import HINT, reason
from spark_bridge.source.options import SourceOptions, Table

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

BATCH_BYTES: Final = 4 << 20
BATCH_ROWS: Final = 65_536
ADDED: Final = (pa.field("txid", pa.int64(), nullable=False), pa.field("batch_time", pa.timestamp("us", tz="UTC"), nullable=False))
"""Columns that the source adds to each row."""


@dataclass(frozen=True)
class FilePart:
    """A file, and the values of the added columns."""

    file: StagedFile
    txid: int
    time_ms: int


class FilePartition(InputPartition):
    """Files in order. Spark keeps them in `value`."""

    value: tuple[FilePart, ...]

    def __init__(self, parts: Iterable[FilePart]) -> None:
        super().__init__(tuple(parts))


def partitions_of(manifests: Iterable[Manifest], table: Table, max_bytes: int) -> list[FilePartition]:
    """Return the partitions of these batches. Neighbouring files share one up to `max_bytes`."""
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
    """Yield the rows of a partition with `txid` and `batch_time`. For None yield no rows. Raises HandoverError with file and txid.

    The size and digest of a file are verified before its first row. Files of earlier versions have no digest, so their page checksums are
    verified during the read.
    """
    parts = () if partition is None else partition.value
    storage = storage_at(options.folder, options.storage)
    for part in parts:
        with open_staged(storage, part.file) as file, _translate_errors(storage.url, part.file):
            yield from _read_batches(file, part, storage.url)


@contextmanager
def _translate_errors(where: str, file: StagedFile) -> Iterator[None]:
    """Translate errors of pyarrow to HandoverError. A file without a digest may be damaged, or its storage may be unreachable."""
    try:
        yield
    except (OSError, ValueError, MemoryError, NotImplementedError) as error:
        text = f"{where}: {file_text(file.name)} cannot be read: {reason(error)}"
        if file.digest is not None:
            hint = f"Its content is as committed. Check that this pyarrow ({pa.__version__}) can read files of the engine's pyarrow."
            raise HandoverError(text, hint=hint) from error
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageUnavailable(text, hint=HINT) from error
        hint = "The file is damaged, or its storage failed. Try again. If that does not help, restore the file from a copy."
        raise TornFile(text, hint=hint) from error


def _read_batches(file: Any, part: FilePart, where: str) -> Iterator[pa.RecordBatch]:
    from pyarrow.parquet import ParquetFile

    parquet = ParquetFile(file, page_checksum_verification=True)
    if parquet.metadata.num_rows != part.file.rows:
        text = f"{where}: {file_text(part.file.name)} has {parquet.metadata.num_rows} rows, but {part.file.rows} were committed"
        raise TornFile(text, hint=RESTORE_FILE)
    own = [name for name in parquet.schema_arrow.names if name != ADDED[0].name]  # rejects already have a column txid
    for batch in parquet.iter_batches(batch_size=rows_per_batch(parquet.metadata), columns=own):
        yield _add_columns(batch, part)


def rows_per_batch(metadata: "FileMetaData") -> int:
    """Return the rows per record batch, so that a batch has about 4 MiB. Uses the uncompressed size of the file."""
    size: int = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    rows: int = metadata.num_rows
    return max(1, min(BATCH_ROWS, rows * BATCH_BYTES // max(size, 1)))


def _add_columns(batch: pa.RecordBatch, part: FilePart) -> pa.RecordBatch:
    """Return the batch with the added columns, which have one value each."""
    times = pa.array([part.time_ms * 1000], pa.int64()).cast(ADDED[1].type)
    added = [pa.repeat(pa.scalar(part.txid, pa.int64()), batch.num_rows), pa.repeat(times[0], batch.num_rows)]
    return pa.RecordBatch.from_arrays([*batch.columns, *added], schema=pa.schema([*batch.schema, *ADDED]))
