"""The servers that these tests start."""

from tests.servers.kafka_fixtures import kafka, new_broker, new_topic, own_broker
from tests.servers.left_open import nothing_left_open
from tests.servers.postgres_fixtures import new_database, new_postgres, own_postgres, postgres
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
from tests.servers.zookeeper_fixtures import new_zookeeper, own_zookeeper, zookeeper

__all__ = [
    "kafka",
    "new_broker",
    "new_database",
    "new_postgres",
    "new_spark_cluster",
    "new_spark_connect",
    "new_topic",
    "new_zookeeper",
    "nothing_left_open",
    "own_broker",
    "own_postgres",
    "own_spark_cluster",
    "own_spark_connect",
    "own_zookeeper",
    "postgres",
    "process_spark",
    "spark",
    "spark_cluster",
    "spark_connect",
    "with_delta",
    "with_jdbc",
    "zookeeper",
]
