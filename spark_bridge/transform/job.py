"""What Spark's process does for one share of a batch: from a file of rows to a file of rows. Imports no engine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True)
class Job:
    """One share of a batch."""

    function: Callable[[Any], Any]
    """Of the user's: DataFrame -> DataFrame."""
    ddl: str
    """The columns of the input."""
    rows_path: str
    """A Parquet file."""
    result_path: str
    """Where the result goes, as a stream of Arrow."""
    fields: tuple[str, ...]
    """The columns that are asked of the result."""
    executors_read: bool
    """True where the executors reach `rows_path`; else its rows go through the driver."""


class WrongResult(Exception):
    """What the user's function returned is none, or lacks columns."""


def run(spark: Any, call: Any, job: Job) -> int:
    """Do it; return how many rows came."""
    result: pa.Table = _asked(job, job.function(_input(spark, job))).toArrow()
    with pa.OSFile(job.result_path, "wb") as file, pa.ipc.new_stream(file, result.schema) as writer:
        writer.write_table(result)
    rows: int = result.num_rows
    return rows


def _input(spark: Any, job: Job) -> Any:
    if job.executors_read:
        return spark.read.schema(job.ddl).option("parquet.page.verify-checksum.enabled", "true").parquet(job.rows_path)
    return spark.createDataFrame(pq.read_table(job.rows_path, memory_map=False, page_checksum_verification=True), schema=job.ddl)


def _asked(job: Job, result: Any) -> Any:
    """Return the columns of the result that are asked for, in their order."""
    name = getattr(job.function, "__qualname__", repr(job.function))
    columns = getattr(result, "columns", None)
    if columns is None or not hasattr(result, "toArrow"):
        raise WrongResult(f"{name}() returned {result!r}, which is no DataFrame")
    missing = [field for field in job.fields if field not in columns]
    if missing:
        raise WrongResult(f"{name}() returned no column {missing[0]!r}, which output_fields names (it has: {', '.join(columns)})")
    return result.select(*(f"`{field.replace('`', '``')}`" for field in job.fields))
