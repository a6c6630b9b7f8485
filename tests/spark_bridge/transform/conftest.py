"""The session that all tests of a process share, and the servers."""

from tests.servers.spark_fixtures import new_spark_connect, own_spark_connect, spark_cluster, spark_connect
from tests.spark_bridge.spark_fixtures import spark_child, temporary_files

__all__ = ["new_spark_connect", "own_spark_connect", "spark_child", "spark_cluster", "spark_connect", "temporary_files"]
