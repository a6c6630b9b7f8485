"""Writes the handed-over rows by pyarrow alone, one file for each batch. Does not force files to the disk."""

import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from bench.measuring import rate_figures
from bench.spark.rows import BATCH_ROWS, WARM_ROWS, Row, make_rows, table_of
from spark_bridge.writer.partition_output import dictionary_columns


def write(rows: int) -> dict[str, float]:
    """Write `rows` rows, after a few rows to warm up."""
    found = make_rows(rows)
    with tempfile.TemporaryDirectory() as folder:
        _write_batches(found[:WARM_ROWS], Path(folder))
        began = time.monotonic()
        _write_batches(found, Path(folder))
        return rate_figures(rows, time.monotonic() - began)


def _write_batches(rows: list[Row], folder: Path) -> None:
    for first in range(0, len(rows), BATCH_ROWS):
        table = table_of(rows[first : first + BATCH_ROWS])
        pq.write_table(table, folder / f"{first}.parquet", compression="zstd", use_dictionary=dictionary_columns(table.schema))
