"""Archive of Spark's classes, which Java maps into its memory. A session then starts in less than half the time.

`python -m spark_bridge prepare` creates it once. A session uses many features, and Java writes the loaded classes at its exit.
An archive is valid for exactly these jars. If the size or time of a jar has changed, Java prints a warning and ignores the archive. The
name of an archive therefore contains a digest of the jars, so that a session never finds an invalid one.

`python -m spark_bridge.process.child.class_archive PATH FOLDER` creates one at PATH, with temporary files in FOLDER.
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_bridge.installation import install_command
from spark_bridge.process.child.diagnosis import java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

END_SECS: Final = 120.0


def archive_path() -> Path:
    """Return the path of the archive for this Java, this Spark and these settings folders, in the user's cache. The file may not exist."""
    return _folder() / f"{_location_digest()}-{_digest(_files_to_compare())}.jsa"


def archives() -> list[Path]:
    """Return all archives for this location of Java and Spark, including those of earlier versions there."""
    return sorted(_folder().glob(f"{_location_digest()}*.jsa"))


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stormcell" / "spark-classes"


def _location_digest() -> str:
    return _digest([os.path.realpath(java() or ""), spark_home(), *class_path_folders(), os.environ.get("SPARK_DIST_CLASSPATH", "")])


def _files_to_compare() -> list[str]:
    """Return the names, sizes and times of Spark's jars and of Java's own classes. Java compares these too."""
    modules = Path(os.path.realpath(java() or "")).parent.parent / "lib" / "modules"
    lines = []
    for path in (modules, *sorted(Path(spark_home(), "jars").glob("*.jar"))):
        if path.exists():
            status = path.stat()
            lines.append(f"{path.name} {status.st_size} {status.st_mtime_ns}")
    return lines


def _digest(texts: list[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def spark_home() -> str:
    """Return the folder of the installed Spark. Raise ModuleNotFoundError with the package to install."""
    try:
        from pyspark.find_spark_home import _find_spark_home
    except ModuleNotFoundError:
        text = f"Spark needs pyspark, which is not installed. Install it: {install_command('spark')}"
        raise ModuleNotFoundError(text, name="pyspark") from None
    return str(_find_spark_home())  # type: ignore[no-untyped-call]


def class_path_folders() -> list[str]:
    """Return the settings folders at both ends of Spark's class path. An archive is valid for one class path."""
    own = os.environ.get("SPARK_CONF_DIR") or os.path.join(spark_home(), "conf")
    return [own, *(os.environ.get(name, "") for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"))]


def java_option() -> str:
    """Return the option of Java for the archive. Empty without an archive."""
    path = archive_path()
    return f"-XX:SharedArchiveFile={path}" if path.exists() and " " not in str(path) else ""


def create_archive(path: str, folder: str) -> None:
    """Create the archive."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("class archive").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.sql.warehouse.dir", os.path.join(folder, "warehouse"))
    builder = builder.config("spark.driver.extraJavaOptions", f"-XX:ArchiveClassesAtExit={path} -Djava.io.tmpdir={folder}")
    spark = builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
    _load_classes(spark, folder)
    spark.stop()
    jvm = SparkContext._gateway.proc  # type: ignore[union-attr]
    jvm.stdin.close()
    jvm.wait(END_SECS)


def _load_classes(spark: "SparkSession", folder: str) -> None:
    """Use the features that most pipelines need, so that Spark loads their classes."""
    from pyspark.sql import functions as F
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    class Reader(SimpleDataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:
            return {"at": 0}

        def read(self, start: dict[str, int]) -> object:  # type: ignore[override]
            end = min(start["at"] + 10, 30)
            return iter([(each,) for each in range(start["at"], end)]), {"at": end}

        def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> object:  # type: ignore[override]
            return iter([(each,) for each in range(start["at"], end["at"])])

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "a_little"

        def schema(self) -> str:
            return "id long"

        def simpleStreamReader(self, schema: object) -> Reader:
            return Reader()

    def both_ways(rows: "DataFrame", batch: int) -> None:
        rows.persist()
        rows.write.mode("append").parquet(os.path.join(folder, "rows"))
        rows.count()
        rows.unpersist()

    times = (F.lit(1_700_000_000) + F.col("id")).cast("timestamp")
    spark.dataSource.register(Source)
    stream = spark.readStream.format("a_little").load().withColumn("at", times).withWatermark("at", "10 seconds")
    for number, rows in enumerate((stream, stream.groupBy(F.window("at", "5 seconds")).count().select("count"))):
        query = rows.writeStream.foreachBatch(both_ways).option("checkpointLocation", os.path.join(folder, f"checkpoint{number}"))
        query.trigger(availableNow=True).start().awaitTermination()
    table = spark.range(1000).withColumn("text", F.concat(F.lit("a"), F.col("id").cast("string"))).withColumn("at", times)
    table = table.join(table.select("id", F.upper("text").alias("other")), "id").dropDuplicates(["text"]).orderBy("text")
    table.write.parquet(os.path.join(folder, "table"))
    spark.read.parquet(os.path.join(folder, "table")).groupBy("at").agg(F.max("other"), F.approx_count_distinct("id")).toArrow()


if __name__ == "__main__":
    create_archive(sys.argv[1], sys.argv[2])
