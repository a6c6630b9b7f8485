"""Coordinators that load or have moved: an answer without partitions does not mean a group without commits (KS-5)."""

from typing import Any

import pytest
from aiokafka.protocol.commit import OffsetFetchRequest

from engine.kafka import KafkaSpoutConfig
from engine.kafka.client.consumer_link import ConsumerLink
from engine.kafka.client.partition import PartitionId
from tests.kafka.play import commit, produce
from tests.servers.kafka_fixtures import NewTopic

LOADING, MOVED = 14, 16


async def nothing() -> None:
    """Do nothing, because there are no rebalances."""


@pytest.mark.guarantee("KS-5")
@pytest.mark.parametrize("code", [LOADING, MOVED])
async def test_a_loading_or_moved_coordinator_is_asked_again(kafka: str, new_topic: NewTopic, code: int) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(9))
    await commit(kafka, f"{topic}-group", topic, 5)
    config = KafkaSpoutConfig(brokers=kafka, topics=topic, group=f"{topic}-group", membership="assign")
    link = ConsumerLink(config, "by-hand", None, nothing, lambda partitions, membership: None)
    await link.start()
    try:
        client, refused = link._consumer._client, 0
        send = client.send

        async def refuse(node_id: int, request: Any, **options: Any) -> Any:
            """Answer of a broker since version 2 of the request: a top-level error, and no partitions."""
            nonlocal refused
            answer = await send(node_id, request, **options)
            if isinstance(request, OffsetFetchRequest) and refused < 2:
                refused += 1
                answer.topics, answer.error_code = [], code
            return answer

        client.send = refuse
        assert await link.committed([PartitionId(topic, 0)]) == {PartitionId(topic, 0): (5, "")}
        assert refused == 2
    finally:
        await link.stop()
