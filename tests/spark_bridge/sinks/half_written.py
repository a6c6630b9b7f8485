"""A driver that is killed or paused during the write of a micro-batch to Parquet.

python -m tests.spark_bridge.sinks.half_written FOLDER killed|held TXID     held: until the test writes to the pipe `go`
"""

import functools
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from spark_bridge.sinks import Parquet, SinkBatch
from tests.servers.spark_session import session

SCHEMA: Final = "word string, n bigint, txid bigint"


def interrupted(folder: str, how: str, jvm: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows. Then, with a staging folder on disk, the driver dies or waits. Runs in a task."""
    yield from batches
    if how == "killed":
        os.kill(jvm, signal.SIGKILL)
    Path(folder, "begun").write_text("begun")
    Path(folder, "go").read_text()


def main(folder: str, how: str, txid: str) -> None:
    with session(Path(folder, f"spark-{how}")) as spark:
        jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
        rows = spark.createDataFrame([("a", 1, int(txid))], SCHEMA).coalesce(1)
        Parquet(f"{folder}/words").write(
            rows.mapInArrow(functools.partial(interrupted, folder, how, jvm), SCHEMA), SinkBatch("words", "one", int(txid))
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
