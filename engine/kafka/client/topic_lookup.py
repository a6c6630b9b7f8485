"""Makes aiokafka look up topics with their ids and without creating them, and logs topics that appear and disappear.

By default aiokafka asks the brokers to create each topic that it looks up. aiokafka also logs a missing topic several times a second.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from aiokafka.cluster import ClusterMetadata
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import BrokerNotAvailableError, KafkaError, LeaderNotAvailableError, UnknownTopicOrPartitionError
from aiokafka.protocol.metadata import MetadataRequest

from engine.kafka.client.advertised_brokers import AdvertisedClient
from engine.kafka.client.log_requests import IdentifiedMetadata, MetadataResponseV10, MetadataWithIds
from engine.log import EngineLogger

LOGGER: Final = EngineLogger("engine.kafka")
_UNKNOWN: Final[int] = UnknownTopicOrPartitionError.errno
_ABSENT: Final = frozenset({_UNKNOWN, LeaderNotAvailableError.errno})


def prepare_client(client: Any) -> None:
    """Make an `AIOKafkaClient` look up topics without creating them, and tell which brokers it cannot reach.

    Call this before the client connects.
    """
    client.__class__ = _Client
    client.begin_watching()
    client.cluster.__class__ = _Cluster
    client.cluster.gone_topics = set()
    client.cluster.topic_ids, client.cluster.leader_epochs = {}, {}


async def matching_topics(consumer: Any, pattern: str) -> list[str]:
    """Ask the brokers, and return the topics whose names match the pattern from their beginning."""
    try:
        found: Collection[str] = await consumer.topics()
    except KafkaError as error:
        if type(error) is not KafkaError:
            raise
        raise BrokerNotAvailableError(str(error)) from error  # aiokafka raises a bare KafkaError if no broker answers
    return [topic for topic in found if re.match(pattern, topic)]


def log_found_topics(topics: Collection[str]) -> None:
    """Log that these topics exist now, after they were missing."""
    for topic in sorted(topics):
        LOGGER.warning("topic %r exists now", topic)


class _Client(AdvertisedClient):
    """Client whose connections are of class `_Connection`."""

    async def _get_conn(self, *args: Any, **options: Any) -> Any:
        connection = await super()._get_conn(*args, **options)
        if connection is not None:
            connection.__class__ = _Connection
        return connection

    async def _connect_to(self, host: str, port: int) -> Any:
        connection = await super()._connect_to(host, port)
        connection.__class__ = _Connection
        return connection


class _Connection(AIOKafkaConnection):  # type: ignore[misc]
    def send(self, request: Any, expect_response: bool = True) -> Any:
        if isinstance(request, MetadataRequest):
            return self._look_up(MetadataWithIds(request))
        return super().send(request, expect_response)

    async def _look_up(self, request: MetadataWithIds) -> Any:
        answer = await super().send(request)
        return IdentifiedMetadata(answer) if isinstance(answer, MetadataResponseV10) else answer


class _Cluster(ClusterMetadata):  # type: ignore[misc]
    """Cluster metadata that logs each disappeared topic once. aiokafka logs any missing topic at each refresh."""

    gone_topics: set[str]
    topic_ids: Mapping[str, bytes]
    """Ids of the topics of the newest answer. Empty for brokers older than Kafka 2.8."""
    leader_epochs: Mapping[tuple[str, int], int]

    def update_metadata(self, metadata: Any) -> None:
        if isinstance(metadata, IdentifiedMetadata):
            self.topic_ids, self.leader_epochs = metadata.topic_ids, metadata.leader_epochs
        gone = {topic for code, topic, *_ in metadata.topics if code == _UNKNOWN and self.partitions_for_topic(topic) is not None}
        metadata.topics = [one for one in metadata.topics if one[0] not in _ABSENT]
        super().update_metadata(metadata)
        for topic in sorted(gone - self.gone_topics):
            LOGGER.warning("topic %r was deleted. The lookup is repeated, and the topic is never created.", topic)
        back = {topic for topic in self.gone_topics if self.partitions_for_topic(topic) is not None}
        for topic in sorted(back):
            LOGGER.warning("topic %r exists again", topic)
        self.gone_topics = (self.gone_topics | gone) - back
