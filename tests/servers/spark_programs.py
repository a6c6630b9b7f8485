"""What servers and sessions of Spark are started with: the programs that pyspark brings, and jars that are copied singly."""

import importlib.metadata
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.servers.maven import jars, why_no_jars, why_no_java
from tests.servers.process import HOST

NAME: Final = "spark-jars"
DELTA_SPARK: Final = "4.1"
DELTA: Final = ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0")
"""For this version of Spark only. Not all of what they depend on can be had, and Spark has what they need."""
JDBC: Final = ("org.postgresql:postgresql:42.7.8",)
JVM_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def why_not() -> str | None:
    """Return why no Spark can be started here; None where it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: make dev"
    return why_no_java()


def why_no_delta() -> str | None:
    """Return why a session cannot have Delta Lake; None where it can, after fetching its jars where that is not done."""
    if not spark_version().startswith(f"{DELTA_SPARK}."):
        return f"Delta Lake is there for Spark {DELTA_SPARK} alone, this is {spark_version()}"
    return why_no_jars(NAME, DELTA, alone=True)


def why_no_jdbc() -> str | None:
    """Return why a session cannot have PostgreSQL's driver; None where it can, after fetching it where that is not done."""
    return why_no_jars(NAME, JDBC, alone=True)


def jvm_options() -> str:
    """Those of a process with Spark's own class path: its classes come from the archive, where `prepare` has made one."""
    from spark_bridge.process.child.class_archive import java_option

    return f"{JVM_OPTIONS} {java_option()}".rstrip()


def prepare() -> None:
    """Have the jars and the archive of Spark's classes in the cache; nothing where they cannot be had."""
    if why_not() is None:
        from spark_bridge.process import archive_builder
        from spark_bridge.process.child.class_archive import archive_path

        if not archive_path().exists():
            archive_builder.build_archive()
        why_no_delta()
        why_no_jdbc()


def delta_jars() -> list[Path]:
    """Return those of Delta Lake; none where it cannot be had."""
    return jars(NAME, DELTA, alone=True) if why_no_delta() is None else []


def jdbc_jars() -> list[Path]:
    """Return those of PostgreSQL's driver; none where it cannot be had."""
    return jars(NAME, JDBC, alone=True) if why_no_jdbc() is None else []


def spark_version() -> str:
    """The version of Spark that is installed."""
    return importlib.metadata.version("pyspark")


def spark_home() -> Path:
    """The folder of pyspark, with its `bin` and its `jars`."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def environment(folder: Path) -> Mapping[str, str]:
    """What a process of Spark is told: no settings of this machine's user, the loopback alone, this Python."""
    return {
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(spark_home() / "conf"),  # which pyspark does not bring
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
