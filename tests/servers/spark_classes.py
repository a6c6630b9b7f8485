"""Creates the class archive for the Spark processes of the tests. It has more classes than the archive for users.

python -m tests.servers.spark_classes PATH FOLDER      the archive, and a folder for temporary files
"""

import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from spark_bridge.process.child import class_archive
from tests.servers import spark_programs
from tests.servers.process import HOST, free_port
from tests.servers.spark_session import DELTA_SETTINGS, SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT: Final = "org.apache.spark.sql.connect.SparkConnectPlugin"
"""Program of a Connect client that uses this JVM."""
CLIENT: Final = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.range(10).select(udf(lambda number: number, "long")("id").alias("n")).groupBy("n").count().collect()
stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
writer = stream.writeStream.foreachBatch(lambda rows, batch: rows.count()).option("checkpointLocation", sys.argv[2])
writer.trigger(availableNow=True).start().awaitTermination()
"""
CLIENT_SECS: Final = 100


def main(path: str, folder: str) -> None:
    """Use each feature of Spark that the tests use. At its exit Java writes the loaded classes."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    port = free_port()
    own = {
        "spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={path} -Djava.io.tmpdir={folder}",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.plugins": CONNECT,
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
    }
    delta = DELTA_SETTINGS if spark_programs.fetched_delta_jars() else {}
    spark = SparkSession.builder.config(map={**SETTINGS, **delta, **own}).getOrCreate()
    class_archive._load_classes(spark, folder)
    _write_tables(spark, folder, ["parquet", *(["delta"] if delta else [])])
    client = [sys.executable, "-c", CLIENT, f"sc://{HOST}:{port}", f"{folder}/of-the-client"]
    subprocess.run(client, timeout=CLIENT_SECS, check=False)  # without grpc the archive has no classes of Connect
    spark.stop()
    jvm = SparkContext._gateway.proc
    jvm.stdin.close()
    jvm.wait(class_archive.END_SECS)


def _write_tables(spark: "SparkSession", folder: str, formats: Sequence[str]) -> None:
    """Write like the sinks: rows of Python functions, into subfolders, with a transaction id."""
    schema = "word string, n bigint, txid bigint"
    rows = spark.createDataFrame([("a", 1, 1)], schema).mapInArrow(lambda batches: batches, schema)
    for name in formats:
        for version in (1, 2):
            writer = rows.write.format(name).mode("append").partitionBy("txid")
            writer.option("txnAppId", "a").option("txnVersion", version).save(f"{folder}/{name}")
        spark.read.format(name).load(f"{folder}/{name}").collect()


if __name__ == "__main__":
    main(*sys.argv[1:])
