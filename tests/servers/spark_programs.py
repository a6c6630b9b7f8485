"""Programs and jars of Spark's servers and sessions. pyspark contains the programs."""

import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from unittest.mock import patch

from tests.servers.cache import cache_folder, made_once
from tests.servers.maven import jar_folder, jars, why_no_jars, why_no_java
from tests.servers.process import HOST

NAME: Final = "spark-jars"
DELTA_SPARK: Final = "4.1"
DELTA: Final = ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0")
"""Jars for this version of Spark only, without dependencies. Spark has most dependencies, and the others are not published."""
JDBC: Final = ("org.postgresql:postgresql:42.7.8",)
JVM_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A test session runs for seconds. Its JVM uses a third less CPU if it compiles little."""


def why_not() -> str | None:
    """Return the reason why no Spark can start here, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: make dev"
    return why_no_java()


def why_no_delta() -> str | None:
    """Return the reason why a session cannot have Delta Lake, or None. Fetches its jars the first time."""
    if not spark_version().startswith(f"{DELTA_SPARK}."):
        return f"Delta Lake supports only Spark {DELTA_SPARK}, this is {spark_version()}"
    return why_no_jars(NAME, DELTA, alone=True)


def why_no_jdbc() -> str | None:
    """Return the reason why a session cannot have PostgreSQL's driver, or None. Fetches it the first time."""
    return why_no_jars(NAME, JDBC, alone=True)


def jvm_options() -> str:
    """Return the JVM options of a process with Spark's own class path. The class archive is used if `prepare` has made one."""
    from spark_bridge.process.child.class_archive import java_option

    return f"{JVM_OPTIONS} {java_option()}".rstrip()


def prepare() -> None:
    """Put the jars, the home and its class archive into the cache. Does nothing if they are not available."""
    if why_not() is None:
        why_no_delta()
        why_no_jdbc()
        set_environment()
        from spark_bridge.process import archive_builder
        from spark_bridge.process.child.class_archive import archive_path

        if not archive_path().exists():
            with patch.object(archive_builder, "_PROGRAM", "tests.servers.spark_classes"):
                archive_builder.build_archive()


def delta_jars() -> list[Path]:
    """Return the jars of Delta Lake, or none if they are not available."""
    return jars(NAME, DELTA, alone=True) if why_no_delta() is None else []


def fetched_delta_jars() -> list[Path]:
    """Return the jars of Delta Lake for this Spark, or nothing if nobody has fetched them yet. Starts no other program."""
    return sorted(jar_folder(NAME, DELTA).glob("*.jar")) if spark_version().startswith(f"{DELTA_SPARK}.") else []


def jdbc_jars() -> list[Path]:
    """Return the jar of PostgreSQL's driver, or none if it is not available."""
    return jars(NAME, JDBC, alone=True) if why_no_jdbc() is None else []


def spark_version() -> str:
    """Return the installed version of Spark."""
    return importlib.metadata.version("pyspark")


def spark_home() -> Path:
    """Return a home of Spark: `bin` and jars of pyspark, jars of Delta Lake, and pyspark as a folder.

    It is a copy, which all checkouts share. So they also share its class archive, which is valid for these jars in this place only.

    `$SPARK_HOME/python/lib/pyspark.zip` is the first entry of the path of each Python process that Spark starts. Python compiles every
    module that it imports from a zip. This takes 0.8 s of CPU in each of some hundred processes. A folder has compiled files.
    Delta Lake is among the jars, because the class archive only has classes of Spark's class path.
    """
    installed, delta = _package_folder("pyspark"), fetched_delta_jars()
    files = (importlib.metadata.distribution("pyspark").read_text("RECORD") or "").splitlines()
    parts = [*(line for line in files if line.startswith("pyspark/") and ".pyc," not in line), *(jar.name for jar in delta)]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
    return made_once(cache_folder() / f"spark-home-{spark_version()}-{digest}", lambda home: _make_home(home, installed, delta))


def _make_home(home: Path, installed: Path, delta: list[Path]) -> None:
    shutil.copytree(installed / "bin", home / "bin")
    shutil.copytree(installed / "jars", home / "jars", copy_function=_link_or_copy)
    for jar in delta:
        shutil.copy2(jar, home / "jars")
    for path in (installed / "python" / "lib").glob("*.zip"):
        package = path.name.partition("-")[0].removesuffix(".zip")  # py4j-0.10.9.9-src.zip has the package py4j
        folder = home / "python" / "lib" / path.name / package
        shutil.copytree(_package_folder(package), folder, ignore=shutil.ignore_patterns("jars", "bin", "examples"))


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(os.path.realpath(source), target)  # the jars are 400 MB
    except OSError:  # another file system
        shutil.copy2(source, target)


def _package_folder(name: str) -> Path:
    found = importlib.util.find_spec(name)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def set_environment() -> None:
    """Set the home of Spark and the options of the JVM for this process and those that it starts."""
    if importlib.util.find_spec("pyspark") is not None:
        os.environ["SPARK_HOME"] = str(spark_home())
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM_OPTIONS)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", JVM_OPTIONS)


def environment(folder: Path) -> Mapping[str, str]:
    """Return the environment of a process of Spark: no settings of the user, the loopback alone, this Python."""
    return {
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(spark_home() / "conf"),  # pyspark does not contain it
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
