"""Job of one attempt in Spark's process. Reads a file of rows, calls the user's function, and writes the result. Imports no engine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True)
class Job:
    """One task's part of a batch."""

    function: Callable[[Any], Any]
    """The user's function: DataFrame -> DataFrame."""
    ddl: str
    """Columns of the input."""
    rows_path: str
    """Parquet file of the input."""
    result_path: str
    """File for the result, in Arrow's stream format."""
    fields: tuple[str, ...]
    """Columns of the result to return."""
    executors_read: bool
    """True if executors can read `rows_path`. Otherwise the rows go through the driver."""


class WrongResult(Exception):
    """The user's function did not return a DataFrame, or the DataFrame lacks columns."""


def run_job(spark: Any, call: Any, job: Job) -> int:
    """Run the job. Return the number of rows in the result."""
    result: pa.Table = _select_fields(job, job.function(_read_rows(spark, job))).toArrow()
    with pa.OSFile(job.result_path, "wb") as file, pa.ipc.new_stream(file, result.schema) as writer:
        writer.write_table(result)
    row_count: int = result.num_rows
    return row_count


def _read_rows(spark: Any, job: Job) -> Any:
    if job.executors_read:
        return spark.read.schema(job.ddl).option("parquet.page.verify-checksum.enabled", "true").parquet(job.rows_path)
    return spark.createDataFrame(pq.read_table(job.rows_path, memory_map=False, page_checksum_verification=True), schema=job.ddl)


def _select_fields(job: Job, result: Any) -> Any:
    """Return the columns of `fields`, in this order."""
    name = getattr(job.function, "__qualname__", repr(job.function))
    columns = getattr(result, "columns", None)
    if columns is None or not hasattr(result, "toArrow"):
        raise WrongResult(f"{name}() returned {result!r}, which is not a DataFrame")
    missing = [field for field in job.fields if field not in columns]
    if missing:
        raise WrongResult(f"{name}() returned no column {missing[0]!r} of output_fields. Its columns are: {', '.join(columns)}")
    return result.select(*(f"`{field.replace('`', '``')}`" for field in job.fields))
