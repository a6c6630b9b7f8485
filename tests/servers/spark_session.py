"""A Spark session in the test's own process: small, on the loopback, and ended with all of its processes."""

import gc
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from tests.servers import spark_programs
from tests.servers.process import HOST, STOP_SECS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER: Final = "local[2]"
SETTINGS: Final[Mapping[str, str]] = {
    "spark.master": MASTER,
    "spark.app.name": "tests of stormcell",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.driver.memory": "768m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
}
DELTA_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def session_settings(folder: Path) -> dict[str, str]:
    """Return the settings of a session with its files in a folder. Delta Lake and PostgreSQL's driver are added if they are available."""
    delta, jdbc = spark_programs.delta_jars(), spark_programs.jdbc_jars()
    return {
        **SETTINGS,
        **(DELTA_SETTINGS if delta else {}),
        "spark.jars": ",".join(map(str, (*delta, *jdbc))),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"{spark_programs.jvm_options()} -Dderby.system.home={folder}",
        "spark.pyspark.python": sys.executable,
    }


@contextmanager
def session(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator["SparkSession"]:
    """Open the only session of this process. `settings` override those of `session_settings`."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    assert SparkContext._gateway is None, "this process has a session already"
    with patch.dict(os.environ, spark_programs.environment(folder)):
        builder = SparkSession.builder.config(map={**session_settings(folder), **(settings or {})})
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        _end(spark)


@contextmanager
def pysparks_own_sockets() -> Iterator[None]:
    """Collect, outside of any test, the sockets that pyspark leaves to the garbage collector."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        gc.freeze()
        yield
        gc.collect()
        gc.unfreeze()


def _end(spark: "SparkSession") -> None:
    """End the session, its JVM, and the connections to the JVM. pyspark ends the last two with the process only."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway.proc.poll() is None:  # else it has already ended
        spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.terminate()  # a forked child of a test may still hold the other end of its standard input
    gateway.proc.wait(STOP_SECS)
    SparkContext._gateway = SparkContext._jvm = None
