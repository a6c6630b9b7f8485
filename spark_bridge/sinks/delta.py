"""Sink into a table of Delta Lake."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException, PySparkException

from spark_bridge.sinks.batch import Sink, SinkBatch, SinkError, StoredBatch, is_new_batch, parse_stored_batch, raised_in_a_task
from spark_bridge.sinks.parquet_values import check_types, write_exact_times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NO_TABLE: Final = frozenset(
    {
        "DELTA_MISSING_DELTA_TABLE",
        "DELTA_PATH_DOES_NOT_EXIST",
        "DELTA_TABLE_NOT_FOUND",
        "DELTA_TABLE_ONLY_OPERATION",
        "TABLE_OR_VIEW_NOT_FOUND",
    }
)
JARS: Final = (
    "Start Spark with the jars of Delta Lake for its version (io.delta:delta-spark_4.1_2.13 and io.delta:delta-storage), "
    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog."
)


@dataclass(frozen=True)
class Delta(Sink):
    """Appends rows to a Delta table. Delta stores the newest micro-batch of each query (txnAppId, txnVersion), and skips repeats.

    A query of the same name with another checkpoint is refused at its start, unless `replaces` has the id of the former one. Each commit
    names its query in `userMetadata`. Before the first micro-batch of a checkpoint, the sink searches the table's history for that name.
    """

    table: str
    """Path or URL, which contains a slash, or the name of a table in the catalog."""
    replaces: str | None = None
    """Id of an abandoned checkpoint of this query. The error that asks for it contains the id."""

    def write(self, df: "DataFrame", batch: SinkBatch) -> None:
        """Append a micro-batch. Delta skips a stored one. Raises SinkError."""
        try:
            if batch.batch_id == 0:
                stored = self._stored_batch(df.sparkSession, batch)
                if not is_new_batch(stored, batch, f"the Delta table {self.table!r}", self.replaces):
                    return
            self._append(df, batch)
        except PySparkException as error:
            if raised_in_a_task(error):
                raise
            raise self._sink_error(error) from error

    def _append(self, df: "DataFrame", batch: SinkBatch) -> None:
        check_types(df.schema, f"the Delta table {self.table!r}")
        write_exact_times(df.sparkSession)
        metadata = json.dumps({"query": batch.query, "query_id": batch.query_id, "batch_id": batch.batch_id})
        writer = df.write.format("delta").mode("append").option("userMetadata", metadata)
        writer = writer.option("txnAppId", f"{batch.query}/{batch.query_id}").option("txnVersion", batch.batch_id)
        if "/" in self.table:
            writer.save(self.table)
        else:
            writer.saveAsTable(self.table)

    def _stored_batch(self, spark: "SparkSession", batch: SinkBatch) -> StoredBatch | None:
        """Return the newest micro-batch of a query with this name."""
        table = f"delta.`{self.table}`" if "/" in self.table else self.table
        try:
            history = spark.sql(f"DESCRIBE HISTORY {table}").select("userMetadata").where("userMetadata IS NOT NULL").collect()
        except AnalysisException as error:
            if error.getCondition() in NO_TABLE:
                return None
            raise
        commits = (_parse_metadata(row.userMetadata) for row in history)
        newest = next((each for each in commits if each.get("query") == batch.query), None)
        where = f"the Delta table {self.table!r}"
        return None if newest is None else parse_stored_batch(where, newest.get("query_id"), newest.get("batch_id"))

    def _sink_error(self, error: PySparkException) -> SinkError:
        text = str(error).partition("JVM stacktrace:")[0].strip()
        if error.getCondition() == "DATA_SOURCE_NOT_FOUND" or "DeltaSparkSessionExtension" in str(error):
            return SinkError(f"this Spark has no Delta Lake: {text}", hint=JARS)
        hint = "If the columns differ from the query's, change them (ALTER TABLE, or select()), or write to another table."
        return SinkError(f"writing to the Delta table {self.table!r} failed: {text}", hint=hint)


def _parse_metadata(metadata: str) -> dict[str, Any]:
    """Return the metadata of a commit. Empty for a commit of another program."""
    try:
        fields = json.loads(metadata)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
