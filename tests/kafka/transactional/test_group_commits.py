"""A group shows the positions of committed batches, and of no other ones."""

import asyncio
from typing import Any

import pytest

import engine
from engine import Tuple
from engine.kafka.source import acked_set
from engine.kafka.transactional import KafkaOpaqueSpout, KafkaTransactionalSpout
from engine.transactional import Committer, TransactionalTopologyBuilder
from tests.kafka.play import committed, produce, until_committed
from tests.kafka.transactional.hand import coordinating, settings
from tests.patience import PATIENCE_SECS
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("TX-10")


class Hanging(Committer):
    """Commits its first batch, and never ends in the commit phase of the second one."""

    second_began = asyncio.Event()

    def execute(self, tup: Tuple) -> None:
        """Keep nothing."""

    async def finish_batch(self) -> None:
        if self.attempt.txid == 2:
            self.second_began.set()
            await asyncio.Event().wait()


@pytest.mark.parametrize("kind", [KafkaTransactionalSpout, KafkaOpaqueSpout])
async def test_a_batch_in_doubt_is_not_committed_to_the_group(kind: Any, kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(8))
    Hanging.second_began = asyncio.Event()
    source = kind(settings(kafka, topic, batch_records=4, group=f"{topic}-group"))
    builder = TransactionalTopologyBuilder("doubt", "lines", source, max_spout_pending=2)
    builder.set_committer("stores", Hanging).global_grouping("lines")
    async with engine.run(builder.build()) as run:
        await asyncio.wait_for(Hanging.second_began.wait(), PATIENCE_SECS)
        await run.stop()
    found = await committed(kafka, f"{topic}-group", topic)
    assert found.offset == 4
    note = acked_set.decode(found.metadata)
    assert note is not None
    assert (note.topology, note.is_copy) == ("doubt", True)


async def test_positions_are_committed_while_the_spout_is_idle(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    await produce(kafka, topic, range(8))
    async with coordinating(KafkaTransactionalSpout(settings(kafka, topic, group=f"{topic}-group"))) as coordinator:
        coordinator.committed = {f"{topic}-0": [0, 5, 5], f"{topic}-1": None}
        coordinator.forgotten()
        await until_committed(kafka, f"{topic}-group", topic, 5)
