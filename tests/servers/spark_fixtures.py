"""Fixtures for tests that need Spark. Each server serves the whole session. tests/conftest.py imports them.

A process has at most one Spark session. No variable selects a running cluster, because the tests hand over folders of this machine.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeAlias

import pytest

from tests.servers import spark_cluster as cluster_module
from tests.servers import spark_connect_server, spark_programs, spark_session
from tests.servers.process import HOST
from tests.servers.required import required
from tests.servers.shared import session_folder, shared_port
from tests.servers.spark_cluster import SparkCluster
from tests.servers.spark_connect_server import SparkConnectServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewSparkCluster: TypeAlias = Callable[..., SparkCluster]
NewSparkConnect: TypeAlias = Callable[..., SparkConnectServer]


@pytest.fixture(scope="session")
def process_spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Return the session of this process. It ends with the process. Tests use the fixture `spark`."""
    required(spark_programs.why_not())
    with ExitStack() as ends:
        yield ends.enter_context(spark_session.session(tmp_path_factory.mktemp("spark")))
        ends.enter_context(spark_session.pysparks_own_sockets())


@pytest.fixture
def spark(process_spark: "SparkSession") -> "Iterator[SparkSession]":
    """Return the local session of this process, with two threads. It has Delta Lake and PostgreSQL's driver if they are available."""
    with spark_session.pysparks_own_sockets():
        yield process_spark


@pytest.fixture
def with_delta(spark: "SparkSession") -> None:
    """Require Delta Lake, else skip the test. CI also skips it on a version of Spark without Delta Lake."""
    if not spark_programs.spark_version().startswith(f"{spark_programs.DELTA_SPARK}."):
        pytest.skip(str(spark_programs.why_no_delta()))
    required(spark_programs.why_no_delta())


@pytest.fixture
def with_jdbc(spark: "SparkSession") -> None:
    """Require PostgreSQL's driver."""
    required(spark_programs.why_no_jdbc())


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the master of the cluster that all tests of the session share: "spark://host:port". It has two workers."""
    required(cluster_module.why_not())
    with shared_port(session_folder(tmp_path_factory, "spark-cluster"), SparkCluster) as port:
        yield f"spark://{HOST}:{port}"


@pytest.fixture
def new_spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewSparkCluster]:
    """Start clusters for this test alone, with the options of `SparkCluster`. They end with the test."""
    required(cluster_module.why_not())
    with ExitStack() as clusters:
        yield lambda **options: clusters.enter_context(SparkCluster(tmp_path_factory.mktemp("spark-cluster"), **options))


@pytest.fixture
def own_spark_cluster(new_spark_cluster: NewSparkCluster) -> SparkCluster:
    """Start a cluster for this test only. The test may kill its executors and workers."""
    return new_spark_cluster()


@pytest.fixture(scope="session")
def spark_connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of the Connect server that all tests of the session share: "sc://host:port"."""
    required(spark_connect_server.why_not())
    with shared_port(session_folder(tmp_path_factory, "spark-connect"), SparkConnectServer) as port:
        yield f"sc://{HOST}:{port}"


@pytest.fixture
def new_spark_connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewSparkConnect]:
    """Start Connect servers for this test alone, with the options of `SparkConnectServer`. They end with the test."""
    required(spark_connect_server.why_not())
    with ExitStack() as servers:
        yield lambda **options: servers.enter_context(SparkConnectServer(tmp_path_factory.mktemp("spark-connect"), **options))


@pytest.fixture
def own_spark_connect(new_spark_connect: NewSparkConnect) -> SparkConnectServer:
    """Start a Connect server for this test only. The test may kill and freeze it."""
    return new_spark_connect()
