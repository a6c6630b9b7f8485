"""Requests for the identity of a partition's log: the ids of topics (KIP-516), and the ends of leader epochs (KIP-320).

aiokafka has neither request, so both are defined here.
"""

from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest, MetadataResponse_v5
from aiokafka.protocol.types import Array, Boolean, CompactArray, CompactString, Int16, Int32, Int64, Schema, String, TaggedFields

_METADATA: Final[int] = MetadataRequest.API_KEY
_METADATA_VERSION: Final = 10
"""First version with topic ids (Kafka 2.8)."""
_EPOCH_ENDS: Final = 23
_EPOCH_ENDS_VERSION: Final = 3
"""First version that a user without rights on the cluster may send (Kafka 2.3)."""
_NO_ID: Final = bytes(16)
_NO_TAGS: Final[Mapping[int, bytes]] = {}
_NO_REPLICA: Final = -1
_ANY_EPOCH: Final = -1


class _Uuid(AbstractType):  # type: ignore[misc]
    """UUID, as its 16 bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(len(_NO_ID))


class MetadataResponseV10(Response):  # type: ignore[misc]
    """Topics with their ids, and partitions with their leader epochs."""

    API_KEY = _METADATA
    API_VERSION = _METADATA_VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", CompactString("utf-8")),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("topic_authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class MetadataRequestV10(RequestStruct):  # type: ignore[misc]
    """Request for topics with their ids."""

    FLEXIBLE_VERSION = True
    API_KEY = _METADATA
    API_VERSION = _METADATA_VERSION
    RESPONSE_TYPE = MetadataResponseV10
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("topic", CompactString("utf-8")), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class MetadataWithIds(MetadataRequest):  # type: ignore[misc]
    """Request for metadata with topic ids, which creates no topic."""

    def __init__(self, request: MetadataRequest) -> None:
        super().__init__(request._topics, allow_auto_topic_creation=False)

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Any:
        """Return the request in version 10, or in aiokafka's newest version for a broker older than Kafka 2.8."""
        lowest, highest = versions.get(_METADATA, (0, 0))
        if not lowest <= _METADATA_VERSION <= highest:
            return super().prepare(versions)
        topics = None if self._topics is None else [(_NO_ID, topic, _NO_TAGS) for topic in self._topics]
        return MetadataRequestV10(topics, False, False, False, _NO_TAGS)


class IdentifiedMetadata(MetadataResponse_v5):  # type: ignore[misc]
    """Answer in the form that aiokafka knows, with topic ids and leader epochs beside it."""

    def __init__(self, answer: MetadataResponseV10) -> None:
        topics = [
            (code, topic, is_internal, [(*row[:3], *row[4:7]) for row in partitions])  # without the leader epoch and the tags
            for code, topic, _, is_internal, partitions, *_ in answer.topics
        ]
        brokers = [(node_id, host, port, rack) for node_id, host, port, rack, _ in answer.brokers]
        super().__init__(answer.throttle_time_ms, brokers, answer.cluster_id, answer.controller_id, topics)
        self.topic_ids = {topic: topic_id for _, topic, topic_id, *_ in answer.topics if topic_id != _NO_ID}
        self.leader_epochs = {
            (topic, number): epoch for _, topic, _, _, partitions, *_ in answer.topics for _, number, _, epoch, *_ in partitions
        }


class EpochEndsResponse(Response):  # type: ignore[misc]
    """For each partition the largest leader epoch up to the given one, and its end offset."""

    API_KEY = _EPOCH_ENDS
    API_VERSION = _EPOCH_ENDS_VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                ("partitions", Array(("error_code", Int16), ("partition", Int32), ("leader_epoch", Int32), ("end_offset", Int64))),
            ),
        ),
    )


class EpochEndsRequestV3(RequestStruct):  # type: ignore[misc]
    """OffsetForLeaderEpoch of a consumer."""

    API_KEY = _EPOCH_ENDS
    API_VERSION = _EPOCH_ENDS_VERSION
    RESPONSE_TYPE = EpochEndsResponse
    SCHEMA = Schema(
        ("replica_id", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                ("partitions", Array(("partition", Int32), ("current_leader_epoch", Int32), ("leader_epoch", Int32))),
            ),
        ),
    )


class EpochEndsRequest(Request[EpochEndsRequestV3]):  # type: ignore[misc]
    """Asks the leader of partitions where a leader epoch of each ends. Raises NotImplementedError for a broker older than Kafka 2.3."""

    API_KEY = _EPOCH_ENDS

    def __init__(self, epochs: Mapping[Any, int]) -> None:
        self._topics: dict[str, list[tuple[int, int, int]]] = {}
        for (topic, number), epoch in epochs.items():
            self._topics.setdefault(topic, []).append((number, _ANY_EPOCH, epoch))

    def build(self, request_struct_class: type[EpochEndsRequestV3]) -> EpochEndsRequestV3:
        return request_struct_class(_NO_REPLICA, list(self._topics.items()))
