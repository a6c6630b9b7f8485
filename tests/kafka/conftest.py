"""A test of Kafka closes what it opens."""

from tests.servers.left_open import nothing_left_open

__all__ = ["nothing_left_open"]
