"""A table of Delta Lake."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException, PySparkException

from spark_bridge.sinks.batch import Noted, Sink, SinkBatch, SinkError, is_new, noted_of, raised_in_a_task

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
    """Rows are appended to a Delta table, which itself knows the newest micro-batch of each query (txnAppId, txnVersion) and skips repeats.

    With another checkpoint a query of the same name is refused when it begins, unless `replaces` names the one that is given up: each
    commit tells its query in `userMetadata`, and the table's history is looked through before the first micro-batch of a checkpoint.
    """

    table: str
    """A path or URL, which has a slash; or the name of a table of the catalog."""
    replaces: str | None = None
    """The id of a checkpoint of this query that is given up: that of the error which asks for it."""

    def write(self, df: "DataFrame", batch: SinkBatch) -> None:
        """Append a micro-batch; Delta skips it where it is there. Raises SinkError."""
        try:
            if batch.batch_id == 0:
                noted = self._noted(df.sparkSession, batch)
                if not is_new(noted, batch, f"the Delta table {self.table!r}", self.replaces):
                    return
            self._append(df, batch)
        except PySparkException as error:
            if raised_in_a_task(error):
                raise
            raise self._explained(error) from error

    def _append(self, df: "DataFrame", batch: SinkBatch) -> None:
        told = json.dumps({"query": batch.query, "query_id": batch.query_id, "batch_id": batch.batch_id})
        writer = df.write.format("delta").mode("append").option("userMetadata", told)
        writer = writer.option("txnAppId", f"{batch.query}/{batch.query_id}").option("txnVersion", batch.batch_id)
        if "/" in self.table:
            writer.save(self.table)
        else:
            writer.saveAsTable(self.table)

    def _noted(self, spark: "SparkSession", batch: SinkBatch) -> Noted | None:
        """The newest micro-batch of a query of this name: each checkpoint begins with 0, and asks then."""
        table = f"delta.`{self.table}`" if "/" in self.table else self.table
        try:
            history = spark.sql(f"DESCRIBE HISTORY {table}").select("userMetadata").where("userMetadata IS NOT NULL").collect()
        except AnalysisException as error:
            if error.getCondition() in NO_TABLE:
                return None
            raise
        told = (_told(row.userMetadata) for row in history)
        newest = next((each for each in told if each.get("query") == batch.query), None)
        where = f"the Delta table {self.table!r}"
        return None if newest is None else noted_of(where, newest.get("query_id"), newest.get("batch_id"))

    def _explained(self, error: PySparkException) -> SinkError:
        said = str(error).partition("JVM stacktrace:")[0].strip()
        if error.getCondition() == "DATA_SOURCE_NOT_FOUND" or "DeltaSparkSessionExtension" in str(error):
            return SinkError(f"this Spark has no Delta Lake: {said}", hint=JARS)
        hint = "Where its columns are others than those of the query: write to another table, or change them (ALTER TABLE, or select())."
        return SinkError(f"writing to the Delta table {self.table!r} failed: {said}", hint=hint)


def _told(metadata: str) -> dict[str, Any]:
    """What a commit tells; nothing where others wrote it."""
    try:
        told = json.loads(metadata)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}
