"""The broker that these tests read from and write to."""

from tests.servers.kafka_fixtures import kafka, new_broker, new_topic, own_broker
from tests.servers.left_open import nothing_left_open

__all__ = ["kafka", "new_broker", "new_topic", "nothing_left_open", "own_broker"]
