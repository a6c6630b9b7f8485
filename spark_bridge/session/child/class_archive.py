"""The classes of Spark in a file that Java maps into its memory, so that a session is there in less than half the time.

It is made once, by a session that does a little of everything and leaves what it has loaded at its end (`python -m spark_bridge prepare`).
It is for these very files: where a jar is not of the size and the time that it was, Java warns and loads its classes as ever. So the
name of an archive tells of them, and one that does not fit is not found.

`python -m spark_bridge.session.child.class_archive PATH FOLDER` makes one: there, with what is temporary in that folder.
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_bridge.session.child.diagnosis import java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

END_SECS: Final = 120.0


def archive_path() -> Path:
    """Return where the archive for this Java, this Spark and these folders of settings is, or would be: in the user's cache folder."""
    return _folder() / f"{_places()}-{_digest(_files())}.jsa"


def archives() -> list[Path]:
    """Return all that are there for this place of Java and of Spark, also of what was installed there before."""
    return sorted(_folder().glob(f"{_places()}*.jsa"))


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stormcell" / "spark-classes"


def _places() -> str:
    return _digest([os.path.realpath(java() or ""), spark_home(), *class_path_folders(), os.environ.get("SPARK_DIST_CLASSPATH", "")])


def _files() -> list[str]:
    """Return what Java compares: the names, sizes and times of Spark's jars and of Java's own classes."""
    modules = Path(os.path.realpath(java() or "")).parent.parent / "lib" / "modules"
    told = []
    for path in (modules, *sorted(Path(spark_home(), "jars").glob("*.jar"))):
        if path.exists():
            seen = path.stat()
            told.append(f"{path.name} {seen.st_size} {seen.st_mtime_ns}")
    return told


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def spark_home() -> str:
    """Return the folder of Spark that is started here; raise ModuleNotFoundError, which says what to install."""
    try:
        from pyspark.find_spark_home import _find_spark_home
    except ModuleNotFoundError:
        fix = "pip install 'stormcell[spark]'"
        raise ModuleNotFoundError(f"Spark needs pyspark, which is not installed. Install it: {fix}", name="pyspark") from None
    return str(_find_spark_home())  # type: ignore[no-untyped-call]


def class_path_folders() -> list[str]:
    """Return the folders of settings, with which Spark's class path begins and ends. An archive is for one class path."""
    own = os.environ.get("SPARK_CONF_DIR") or os.path.join(spark_home(), "conf")
    return [own, *(os.environ.get(name, "") for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"))]


def java_option() -> str:
    """Return what Java is told of the archive; nothing where there is none."""
    path = archive_path()
    return f"-XX:SharedArchiveFile={path}" if path.exists() and " " not in str(path) else ""


def make(path: str, folder: str) -> None:
    """Make the archive."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("class archive").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.sql.warehouse.dir", os.path.join(folder, "warehouse"))
    builder = builder.config("spark.driver.extraJavaOptions", f"-XX:ArchiveClassesAtExit={path} -Djava.io.tmpdir={folder}")
    spark = builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
    _do_a_little_of_everything(spark, folder)
    spark.stop()
    jvm = SparkContext._gateway.proc  # type: ignore[union-attr]
    jvm.stdin.close()
    jvm.wait(END_SECS)


def _do_a_little_of_everything(spark: "SparkSession", folder: str) -> None:
    """Have Spark load the classes that pipelines mostly need."""
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
    make(sys.argv[1], sys.argv[2])
