"""Each test of Kafka must close its connections."""

from tests.servers.left_open import nothing_left_open

__all__ = ["nothing_left_open"]
