"""Parquet in a folder, each part of it replaced as a whole."""

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from spark_bridge.handover import ForeignFile, Storage, TornFile, storage_at
from spark_bridge.handover.checked_json import decode, encode
from spark_bridge.sinks.batch import Noted, Sink, SinkBatch, SinkError, is_new
from spark_bridge.sinks.staging import sweep_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POINTER: Final = "_stormcell/complete.json"
"""Below the folder, where Spark does not look for rows."""
KIND: Final = "complete"
REPAIR: Final = (
    "Restore it from a copy. Without one, move it away, if the query goes on with the checkpoint that it had: its next micro-batch writes "
    "the file anew."
)
TXID: Final = "txid"
BATCH: Final = "query_batch"
By: TypeAlias = Literal["txid", "batch"]


@dataclass(frozen=True)
class Complete:
    """What of a folder counts: the content of its pointer, which is written when a micro-batch is complete."""

    query: str
    query_id: str
    batch_id: int
    by: By
    reached: int = 0
    """The newest txid that this checkpoint has written."""
    txid: int = 0
    """The newest that is complete, by whichever checkpoint."""


@dataclass(frozen=True)
class Parquet(Sink):
    """Rows go to `txid=7/` where they have a column `txid`, else to `query_batch=41/`; after a crash such a folder is replaced.

    Read it by `read`, which leaves out what is not complete; or take any reader of Parquet and mind that the newest folders may be half
    there. One query writes to a folder. With another checkpoint, folders by txid are replaced likewise, so nothing is doubled; folders by
    micro-batch are refused, since they would be mixed: then write to another folder.
    """

    path: str
    """As Spark knows it; the driver reaches it too, by fsspec where it is a URL."""
    by: By | None = None
    """By default by txid where there is that column. A query whose later micro-batches hold rows of earlier txids (a join of two streams)
    is told to say "batch"."""
    storage: dict[str, Any] = field(default_factory=dict)
    """Options of fsspec's file system."""

    def write(self, df: "DataFrame", batch: SinkBatch) -> None:
        """Write a micro-batch and point to it, or skip it where it is complete. Raises SinkError."""
        complete = self.complete()
        by = self.by or ("txid" if TXID in df.columns else "batch")
        if complete is not None and not self._is_new(complete, batch, by):
            return
        reached = complete.reached if complete is not None and complete.query_id == batch.query_id else 0
        if by == "txid":
            sweep_once(df.sparkSession, self._storage(), self.path)
            reached = max(reached, self._write_by_txid(df, reached))
        else:
            df.write.mode("overwrite").parquet(f"{self.path}/{BATCH}={batch.batch_id}")
        txid = max(reached, 0 if complete is None else complete.txid)
        self._point_to(Complete(batch.query, batch.query_id, batch.batch_id, by, reached, txid))

    def complete(self) -> Complete | None:
        """Return what of the folder counts; None before the first micro-batch."""
        content = self._storage().read(POINTER)
        return None if content is None else _read_complete(content, f"{self.path}/{POINTER}")

    def read(self, spark: "SparkSession") -> "DataFrame":
        """Return the rows of all micro-batches that are complete now. Raises SinkError where there is none."""
        from pyspark.sql import functions as F

        complete = self.complete()
        if complete is None:
            raise SinkError(f"{self.path} has no complete micro-batch yet", hint="Start the query that writes there, or correct the path.")
        column, newest = (TXID, complete.txid) if complete.by == "txid" else (BATCH, complete.batch_id)
        rows = spark.read.option("parquet.page.verify-checksum.enabled", "true").parquet(self.path)
        return rows.withColumn(column, F.col(column).cast("bigint")).where(F.col(column) <= newest)

    def _is_new(self, complete: Complete, batch: SinkBatch, by: str) -> bool:
        if complete.query != batch.query or complete.by != by:
            text = f"{self.path} is written by query {complete.query!r} by {complete.by}, and now by {batch.query!r} by {by}"
            raise SinkError(text, hint="Give each query a folder of its own.")
        if by == "txid" and complete.query_id != batch.query_id:
            return True
        return is_new(Noted(complete.query_id, complete.batch_id), batch, self.path)

    def _write_by_txid(self, df: "DataFrame", reached: int) -> int:
        """Return the newest txid of the rows; 0 where there are none.

        A row of a txid that is complete fails the job before anything is replaced: its folder has rows of an earlier
        micro-batch. So does one without a txid, as an outer join makes it: each micro-batch would replace those of the last.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        told = f"txid {{}} is complete since an earlier micro-batch, and {self.path} is by txid: write Parquet(path, by='batch')"
        late = F.raise_error(F.replace(F.lit(told), F.lit("{}"), F.col(TXID).cast("string"))).cast("bigint")
        none = F.raise_error(F.lit(f"a row has no txid, and {self.path} is by txid: write Parquet(path, by='batch')")).cast("bigint")
        checked = df.withColumn(TXID, F.when(F.col(TXID).isNull(), none).when(F.col(TXID) <= reached, late).otherwise(F.col(TXID)))
        seen = Observation()
        observed = checked.observe(seen, F.max(TXID).alias("newest"))
        observed.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(TXID).parquet(self.path)
        return int(seen.get["newest"] or 0)

    def _point_to(self, complete: Complete) -> None:
        storage = self._storage()
        storage.make_folder(POINTER.rpartition("/")[0])
        storage.replace(POINTER, encode(KIND, asdict(complete)))

    def _storage(self) -> Storage:
        return storage_at(self.path, self.storage)


def _read_complete(content: bytes, where: str) -> Complete:
    """Return what a pointer says; earlier versions wrote it without a checksum. Raises SinkError where it is damaged."""
    try:
        found = decode(content, KIND, where)
    except ForeignFile as error:
        found = _unchecked(content)
        if found.keys() != Complete.__dataclass_fields__.keys():
            raise SinkError(error.message, hint=REPAIR) from error
    except TornFile as error:
        raise SinkError(error.message, hint=REPAIR) from error
    texts, numbers = ("query", "query_id", "by"), ("batch_id", "reached", "txid")
    is_right = all(isinstance(found.get(name), str) for name in texts) and all(
        type(found.get(name)) is int and 0 <= found[name] < 2**63 for name in numbers
    )
    if not is_right or len(found) != len(texts) + len(numbers) or found["by"] not in get_args(By):
        raise SinkError(f"{where} is damaged: it says {found}", hint=REPAIR)
    return Complete(**found)


def _unchecked(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
