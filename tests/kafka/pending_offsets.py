"""Offsets that wait for the end of another program's transaction, and reads that must wait for them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from engine.kafka.client.stable_offsets import StableOffsetFetch
from tests.kafka.play import PATIENCE_SECS, PAUSE_SECS
from tests.servers.kafka_admin import fresh_name


@asynccontextmanager
async def pending_offset(
    kafka: str, group: str, topic: str, offset: int, metadata: str = "", *, transactional_id: str | None = None
) -> AsyncIterator[AIOKafkaProducer]:
    """Store an offset of partition 0 in a transaction. The block may commit it; else it is aborted."""
    async with AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=transactional_id or fresh_name("another")) as producer:
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(offset, metadata)}, group)
        try:
            yield producer
        finally:
            if producer._txn_manager.is_in_transaction():
                with contextlib.suppress(KafkaError):  # it may have been fenced
                    await producer.abort_transaction()


async def end_transaction(producer: AIOKafkaProducer, outcome: str) -> None:
    """Commit or abort."""
    await (producer.commit_transaction() if outcome == "commit" else producer.abort_transaction())


class StableReads:
    """Counts the requests for stable offsets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests = 0
        prepare = StableOffsetFetch.prepare

        def count(request: StableOffsetFetch, versions: Any) -> Any:
            self.requests += 1
            return prepare(request, versions)

        monkeypatch.setattr(StableOffsetFetch, "prepare", count)

    async def until_refused_twice(self, reading: "asyncio.Future[Any]") -> None:
        """Wait for the third request of a read: the broker has refused the first two. Fail if the read ends."""
        async with asyncio.timeout(PATIENCE_SECS):
            while self.requests < 3:
                assert not reading.done(), reading
                await asyncio.sleep(PAUSE_SECS)
        assert not reading.done(), reading
