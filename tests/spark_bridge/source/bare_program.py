"""A program for a cluster whose Pythons have this package from a zip alone: a stream into two sinks, of which one executor dies.

spark-submit --py-files stormcell.zip bare_program.py HANDOVER OUT      prints the rows of both sinks, and how many executors died
"""

import json
import os
import signal
import sqlite3
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import spark_bridge
from spark_bridge import Parquet, SinkBatch, Sqlite, register

HANDOVER, OUT = sys.argv[1:]


def dies_once(batches):
    """End the executor of the first task of txid 2: the parent of this Python's daemon."""
    for batch in batches:
        if 2 in batch.column("txid").to_pylist() and not os.path.exists(f"{OUT}/died"):
            Path(OUT, "died").write_text(spark_bridge.__file__)
            daemon = os.getppid()
            os.kill(int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
        yield batch


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    register(spark)
    sinks = [Parquet(f"{OUT}/words"), Sqlite(f"{OUT}/words.db", "words")]

    def write(rows, batch_id: int) -> None:
        for sink in sinks:
            sink.write(rows, SinkBatch("words", "one", batch_id))

    options = {"consumer": "c", "maxTransactionsPerBatch": "2", "maxPartitionBytes": "1"}
    batches = spark.readStream.format("stormcell").options(**options).load(HANDOVER)
    query = batches.mapInArrow(dies_once, batches.schema).writeStream.foreachBatch(write).option("checkpointLocation", f"{OUT}/checkpoint")
    started = query.start()
    started.processAllAvailable()
    started.stop()
    parquet = sorted((row.txid, row.n) for row in sinks[0].read(spark).collect())
    sqlite = sorted(sqlite3.connect(f"{OUT}/words.db").execute("SELECT txid, n FROM words"))
    packages = [spark_bridge.__file__, Path(OUT, "died").read_text()]
    print(json.dumps({"parquet": parquet, "sqlite": sqlite, "packages": packages}))
    spark.stop()


if __name__ == "__main__":
    main()
