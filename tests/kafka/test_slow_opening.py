"""Records that the client reads before the start position of their partition is known."""

import asyncio
from typing import Any

import pytest

from engine.kafka.client.consumer_link import Batches, ConsumerLink
from engine.kafka.source import start_positions
from tests.kafka.play import Notes, commit, playing, produce, settings
from tests.servers.kafka_fixtures import NewTopic


@pytest.mark.guarantee("KS-1")
async def test_at_most_once_survives_records_of_a_partition_that_is_not_open_yet(
    kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, came = await new_topic(partitions=1), asyncio.Event()
    await produce(kafka, topic, range(20))
    config = settings(kafka, topic, guarantee="at_most_once")
    await commit(kafka, config.group or "", topic, 10)
    find, poll = start_positions.find_start_positions, ConsumerLink.poll

    async def find_late(*arguments: Any) -> Any:
        await came.wait()
        return await find(*arguments)

    async def noted_poll(link: ConsumerLink, *arguments: Any) -> Batches:
        batches = await poll(link, *arguments)
        if batches:
            came.set()
        return batches

    monkeypatch.setattr(start_positions, "find_start_positions", find_late)
    monkeypatch.setattr(ConsumerLink, "poll", noted_poll)
    notes = Notes()
    async with playing(config, notes) as run:
        await notes.until(lambda: len(notes.got) >= 10 or run.state != "running")

    assert notes.got == list(range(10, 20)), run.error
