"""The broker that these tests read from and write to."""

from tests.servers.kafka_fixtures import kafka, new_broker, new_topic, own_broker

__all__ = ["kafka", "new_broker", "new_topic", "own_broker"]
