"""A cluster of three brokers, of which the first one is the controller. The others can be killed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aiokafka.admin import NewTopic

from tests.servers.kafka_admin import admin, fresh_name
from tests.servers.kafka_broker import CLUSTER_ID, FORMAT, KafkaBroker, _archive, _run
from tests.servers.process import HOST

CONTROLLER: Final = 1
COPIED: Final = {"offsets.topic.replication.factor": 3, "offsets.topic.min.insync.replicas": 1}
"""So that each group keeps a coordinator, whichever broker is killed."""
UNCLEAN: Final = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


class ClusterMember(KafkaBroker):
    """A broker of another broker's cluster, without a controller of its own."""

    def __init__(self, folder: Path, node_id: int, controller: KafkaBroker) -> None:
        self._controller_address = f"{HOST}:{controller._controller_port}"
        settings = {
            "process.roles": "broker",
            "node.id": node_id,
            "controller.quorum.bootstrap.servers": self._controller_address,
            **COPIED,
        }
        super().__init__(folder, settings=settings)
        self._settings = {**settings, **self._plain_listener()}

    def _plain_listener(self) -> dict[str, object]:
        """A broker that is no controller has no listener for one."""
        return {"listeners": f"PLAINTEXT://{self.bootstrap}", "advertised.listeners": f"PLAINTEXT://{self.bootstrap}"}

    def start(self) -> None:
        if not (self.folder / "records").exists():
            _run(FORMAT, "format", "-t", CLUSTER_ID, "-c", str(self._write_properties()))
        self._start(f"-XX:SharedArchiveFile={_archive()}", "-Xshare:auto")


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[list[KafkaBroker]]:
    """Start three brokers with the ids 1 to 3, and end them at the end of the block."""
    first = KafkaBroker(folder / "1", settings=COPIED)
    brokers = [first, ClusterMember(folder / "2", 2, first), ClusterMember(folder / "3", 3, first)]
    try:
        for broker in brokers:
            broker.folder.mkdir()
            await asyncio.to_thread(broker.start)
        yield brokers
    finally:
        for broker in reversed(brokers):
            await asyncio.to_thread(broker.stop)


async def create_unclean(kafka: str) -> str:
    """Create a topic on the brokers 2 and 3, either of which may lead without the records of the other."""
    topic = fresh_name("unclean")
    async with admin(kafka) as client:
        answer = await client.create_topics([NewTopic(topic, -1, -1, replica_assignments={0: [2, 3]}, topic_configs=UNCLEAN)])
        assert [code for _, code, *_ in answer.topic_errors] == [0], answer
    return topic


async def until_led_by(kafka: str, topic: str, leader: int, in_sync: int) -> None:
    """Wait until partition 0 has this leader, and this number of replicas in sync."""
    async with admin(kafka) as client:
        while True:
            [seen] = await client.describe_topics([topic])
            if any(one["leader"] == leader and len(one["isr"]) == in_sync for one in seen["partitions"]):
                return
            await asyncio.sleep(0.1)
