"""The servers that these tests start."""

from tests.servers.postgres_fixtures import new_database, postgres
from tests.servers.spark_fixtures import (
    new_spark_cluster,
    new_spark_connect,
    own_spark_cluster,
    own_spark_connect,
    process_spark,
    spark,
    spark_cluster,
    spark_connect,
    with_delta,
    with_jdbc,
)
from tests.spark_bridge.bare_python import bare_python

__all__ = [
    "bare_python",
    "new_database",
    "new_spark_cluster",
    "new_spark_connect",
    "own_spark_cluster",
    "own_spark_connect",
    "postgres",
    "process_spark",
    "spark",
    "spark_cluster",
    "spark_connect",
    "with_delta",
    "with_jdbc",
]
