"""Sink into a folder of Parquet files. Each subfolder is replaced as a whole."""

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from spark_bridge.handover import ForeignFile, Storage, TornFile, storage_at
from spark_bridge.handover.checked_json import decode, encode
from spark_bridge.sinks.batch import Sink, SinkBatch, SinkError, StoredBatch, is_new_batch
from spark_bridge.sinks.parquet_values import check_types, write_exact_times
from spark_bridge.sinks.staging import clean_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POINTER: Final = "_stormcell/complete.json"
"""Path below the folder. Spark reads no rows from names that begin with an underscore."""
KIND: Final = "complete"
REPAIR: Final = (
    "Restore it from a copy. Without a copy, remove it if the query still has its former checkpoint: the next micro-batch writes the file "
    "again."
)
TXID: Final = "txid"
BATCH: Final = "query_batch"
By: TypeAlias = Literal["txid", "batch"]


@dataclass(frozen=True)
class Complete:
    """Content of the pointer, which names the newest complete micro-batch. Written after the rows of a micro-batch."""

    query: str
    query_id: str
    batch_id: int
    by: By
    reached: int = 0
    """Newest txid that this checkpoint has written."""
    txid: int = 0
    """Newest complete txid, of any checkpoint."""


@dataclass(frozen=True)
class Parquet(Sink):
    """Writes rows to `txid=7/`, or without a column `txid` to `query_batch=41/`. A repeat after a crash replaces the subfolder.

    `read` returns only complete micro-batches. Other readers of Parquet may see incomplete rows in the newest subfolders. Only one query
    may write to a folder. With a new checkpoint, subfolders by txid are replaced, so no row is duplicated. Subfolders by micro-batch refuse
    a new checkpoint, because its batch ids begin with 0 again. Then write to another folder.
    """

    path: str
    """Path or URL for Spark. The driver process also accesses it (a URL through pyarrow or fsspec)."""
    by: By | None = None
    """Name of the subfolders. The default is "txid" if the rows have that column. Use "batch" for a query whose later micro-batches
    contain rows of earlier txids, such as a join of two streams."""
    storage: dict[str, Any] = field(default_factory=dict)
    """Options of the file system of the storage."""

    def write(self, df: "DataFrame", batch: SinkBatch) -> None:
        """Write a micro-batch and then the pointer, or skip a complete one. Raises SinkError."""
        complete = self.complete()
        by = self.by or ("txid" if TXID in df.columns else "batch")
        if complete is not None and not self._is_new_batch(complete, batch, by):
            return
        check_types(df.schema, self.path)
        self._check_names(df.columns, by)
        write_exact_times(df.sparkSession)
        reached = complete.reached if complete is not None and complete.query_id == batch.query_id else 0
        if by == "txid":
            clean_once(df.sparkSession, self._storage(), self.path)
            reached = max(reached, self._write_by_txid(df, reached))
        else:
            df.write.mode("overwrite").parquet(f"{self.path}/{BATCH}={batch.batch_id}")
        txid = max(reached, 0 if complete is None else complete.txid)
        self._write_pointer(Complete(batch.query, batch.query_id, batch.batch_id, by, reached, txid))

    def complete(self) -> Complete | None:
        """Return the newest complete micro-batch. None before the first one."""
        content = self._storage().read(POINTER)
        return None if content is None else _parse_pointer(content, f"{self.path}/{POINTER}")

    def read(self, spark: "SparkSession") -> "DataFrame":
        """Return the rows of all complete micro-batches. Raises SinkError if there is none."""
        from pyspark.sql import functions as F

        complete = self.complete()
        if complete is None:
            raise SinkError(f"{self.path} has no complete micro-batch yet", hint="Start the query that writes to it, or correct the path.")
        column, newest = (TXID, complete.txid) if complete.by == "txid" else (BATCH, complete.batch_id)
        rows = spark.read.option("parquet.page.verify-checksum.enabled", "true").parquet(self.path)
        return rows.withColumn(column, F.col(column).cast("bigint")).where(F.col(column) <= newest)

    def _is_new_batch(self, complete: Complete, batch: SinkBatch, by: str) -> bool:
        if complete.query != batch.query or complete.by != by:
            text = f"{self.path} belongs to query {complete.query!r} (by {complete.by}), but query {batch.query!r} (by {by}) writes to it"
            raise SinkError(text, hint="Give each query its own folder.")
        if by == "txid" and complete.query_id != batch.query_id:
            return True
        return is_new_batch(StoredBatch(complete.query_id, complete.batch_id), batch, self.path)

    def _check_names(self, names: list[str], by: str) -> None:
        """Raise SinkError for a column with the name of the subfolders by micro-batch, which readers would take for its value."""
        if by == "batch" and any(name.lower() == BATCH for name in names):
            text = f"{self.path}: the query has a column {BATCH!r}, and the subfolders have that name"
            raise SinkError(text, hint="Rename the column in the query.")

    def _write_by_txid(self, df: "DataFrame", reached: int) -> int:
        """Write the rows. Return their newest txid, or 0 without rows.

        A row of a complete txid fails the job before anything is replaced, because its subfolder has rows of an earlier micro-batch. A row
        without a txid also fails the job, because each micro-batch would replace the rows of the previous one. Outer joins create rows
        without a txid.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        text = f"txid {{}} is complete since an earlier micro-batch, and {self.path} is by txid: write Parquet(path, by='batch')"
        late = F.raise_error(F.replace(F.lit(text), F.lit("{}"), F.col(TXID).cast("string"))).cast("bigint")
        missing = F.raise_error(F.lit(f"a row has no txid, and {self.path} is by txid: write Parquet(path, by='batch')")).cast("bigint")
        checked = df.withColumn(TXID, F.when(F.col(TXID).isNull(), missing).when(F.col(TXID) <= reached, late).otherwise(F.col(TXID)))
        seen = Observation()
        observed = checked.observe(seen, F.max(TXID).alias("newest"))
        observed.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(TXID).parquet(self.path)
        return int(seen.get["newest"] or 0)

    def _write_pointer(self, complete: Complete) -> None:
        storage = self._storage()
        storage.make_folder(POINTER.rpartition("/")[0])
        storage.replace(POINTER, encode(KIND, asdict(complete)))

    def _storage(self) -> Storage:
        return storage_at(self.path, self.storage)


def _parse_pointer(content: bytes, where: str) -> Complete:
    """Return the content of a pointer. Raise SinkError if it is damaged. Earlier versions wrote it without a checksum."""
    try:
        found = decode(content, KIND, where)
    except ForeignFile as error:
        found = _unchecked(content)
        if found.keys() != Complete.__dataclass_fields__.keys():
            raise SinkError(error.message, hint=REPAIR) from error
    except TornFile as error:
        raise SinkError(error.message, hint=REPAIR) from error
    texts, numbers = ("query", "query_id", "by"), ("batch_id", "reached", "txid")
    is_valid = all(isinstance(found.get(name), str) for name in texts) and all(
        type(found.get(name)) is int and 0 <= found[name] < 2**63 for name in numbers
    )
    if not is_valid or len(found) != len(texts) + len(numbers) or found["by"] not in get_args(By):
        raise SinkError(f"{where} is damaged: its content is {found}", hint=REPAIR)
    return Complete(**found)


def _unchecked(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
