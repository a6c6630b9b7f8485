"""Program for a cluster with this package only in a zip: writes a stream while an executor dies.

spark-submit --py-files stormcell.zip bare_program.py HANDOVER OUT       prints the paths of the package in the driver and in an executor
"""

import json
import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import spark_bridge
from spark_bridge import Parquet, register

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
    options = {"consumer": "c", "maxPartitionBytes": "1"}
    batches = spark.readStream.format("stormcell").options(**options).load(HANDOVER)
    writer = Parquet(f"{OUT}/words").writer(batches.mapInArrow(dies_once, batches.schema), "words")
    writer.option("checkpointLocation", f"{OUT}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    print(json.dumps([spark_bridge.__file__, Path(OUT, "died").read_text()]))
    spark.stop()


if __name__ == "__main__":
    main()
