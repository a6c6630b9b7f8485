"""A Spark session, a cluster and a Connect server run jobs and end with all of their processes."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.servers.keeper import descendants
from tests.servers.process import accepts
from tests.servers.spark_cluster import SparkCluster, driver_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.deep

PROGRAM = """
import sys
from pathlib import Path
from tests.servers.spark_session import session

settings = dict(one.split("=", 1) for one in sys.argv[2:])
with session(Path(sys.argv[1]), settings) as spark:
    rows = spark.sparkContext.parallelize(range(10), 4).map(lambda n: (__import__("os").getppid(), n)).collect()
    print(spark.sparkContext.master, len({worker for worker, _ in rows}), sum(n for _, n in rows))
"""
REMOTE = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(spark.range(10).count())
"""


def said_by(program: str, *arguments: str) -> str:
    """Return the output of a separate program."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_session_runs_jobs_in_this_python(spark: "SparkSession") -> None:
    assert spark.range(10).count() == 10
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]


def test_a_session_calls_python_functions_back(spark: "SparkSession", tmp_path: Path) -> None:
    seen: list[int] = []
    writer = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load().writeStream
    writer = writer.foreachBatch(lambda rows, batch_id: seen.append(rows.count())).option("checkpointLocation", str(tmp_path))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert seen[0] == 5


def test_a_session_has_delta_lake(spark: "SparkSession", with_delta: None, tmp_path: Path) -> None:
    for _ in range(2):
        writer = spark.range(3).write.format("delta").mode("append").option("txnAppId", "a").option("txnVersion", 1)
        writer.save(str(tmp_path / "table"))
    assert spark.read.format("delta").load(str(tmp_path / "table")).count() == 3


async def test_a_session_has_the_driver_of_postgres(spark: "SparkSession", with_jdbc: None, new_database: str) -> None:
    from urllib.parse import urlsplit

    url = urlsplit(new_database)
    reader = spark.read.format("jdbc").options(url=f"jdbc:postgresql://{url.hostname}:{url.port}{url.path}", driver="org.postgresql.Driver")
    rows = reader.options(user=url.username, password=url.password, query="SELECT 7 AS n").load().collect()
    assert [row.n for row in rows] == [7]


def heirs_of(variable: str) -> list[int]:
    """Return the processes of this machine that have this environment variable."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has just ended
            if variable.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def test_a_session_leaves_no_process_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a variable that all processes of a session inherit, when the program has ended, then no process has it."""
    mark = f"SESSION_{uuid4().hex}"
    monkeypatch.setenv(mark, "")
    program = PROGRAM + f"    from tests.servers.test_spark import heirs_of\n    print(len(heirs_of({mark!r})))"
    *result, during = said_by(program, str(tmp_path)).split()
    assert result == ["local[2]", "1", "45"]
    assert int(during) >= 3  # this program, the Java process and a Python worker
    monkeypatch.delenv(mark)
    assert heirs_of(mark) == []


def test_a_cluster_runs_jobs_on_both_workers(spark_cluster: str, tmp_path: Path) -> None:
    settings = {**driver_settings(), "spark.master": spark_cluster}
    said = said_by(PROGRAM, str(tmp_path), *(f"{name}={value}" for name, value in settings.items()))
    assert said == f"{spark_cluster} 2 45"


def test_a_cluster_ends_with_all_that_it_started(own_spark_cluster: SparkCluster) -> None:
    family = descendants(own_spark_cluster.process.pid)
    assert len(family) >= 3
    own_spark_cluster.stop()
    assert not accepts(own_spark_cluster.port)
    assert not any(Path(f"/proc/{pid}").exists() for pid in family)


def test_a_connect_server_serves_clients(spark_connect: str) -> None:
    assert said_by(REMOTE, spark_connect) == "10"
