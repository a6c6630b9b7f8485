"""`python -m bench.spark.bare_parquet`: the same rows by pyarrow alone, one file for each batch, as JSON. Nothing is forced to the disk."""

import argparse
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from bench.compare.work import print_result
from bench.spark.rows import BATCH_ROWS, WARM_ROWS, Row, rows, table_of
from spark_bridge.writer.partition_output import dictionary_columns


def write(found: list[Row], folder: Path) -> None:
    """Write each batch."""
    for first in range(0, len(found), BATCH_ROWS):
        table = table_of(found[first : first + BATCH_ROWS])
        pq.write_table(table, folder / f"{first}.parquet", compression="zstd", use_dictionary=dictionary_columns(table.schema))


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    arguments = parser.parse_args()
    found = rows(arguments.rows)
    with tempfile.TemporaryDirectory() as folder:
        write(found[:WARM_ROWS], Path(folder))
        began = time.monotonic()
        write(found, Path(folder))
        print_result(len(found), time.monotonic() - began)


if __name__ == "__main__":
    main()
