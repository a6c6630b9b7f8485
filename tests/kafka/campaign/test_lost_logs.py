"""Logs that lose records, against what Java's client reads in the end: unclean elections, retention, and topics that are created again.

Each record that exists in the end is processed at least once (once in transactions), and each loss is reported.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest

import engine
from engine import Config, Run
from engine.kafka.transactional import KafkaOpaqueSpout, KafkaTransactionalSpout
from engine.transactional import BatchBolt, TransactionalTopologyBuilder
from tests.kafka.campaign.cluster import cluster, create_unclean, until_led_by
from tests.kafka.campaign.java_client import JavaClient, java_client
from tests.kafka.play import Notes, heard, playing, produce, settings
from tests.kafka.transactional.hand import forget_before
from tests.kafka.transactional.hand import settings as batch_settings
from tests.patience import PATIENCE_SECS
from tests.servers.kafka_admin import create_topic, delete_topic
from tests.servers.kafka_fixtures import NewTopic

pytestmark = [pytest.mark.guarantee("KS-15"), pytest.mark.deep]

CUT, LOST, NEW = 95, 5, 10


class Collecting(BatchBolt):
    """Collects the values of the last attempt of each transaction."""

    def __init__(self, values: dict[int, list[int]]) -> None:
        self._values, self._own = values, list[int]()

    def execute(self, tup: Any) -> None:
        self._own.append(tup["value"])

    def finish_batch(self) -> None:
        self._values[self.attempt.txid] = self._own


async def until(condition: Any) -> None:
    async with asyncio.timeout(PATIENCE_SECS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def in_batches(spout: Any, state: Path) -> tuple[Any, dict[int, list[int]]]:
    """Return a topology that collects the values of each transaction."""
    values: dict[int, list[int]] = {}
    builder = TransactionalTopologyBuilder("collects", "lines", spout, 1)
    builder.set_bolt("values", lambda: Collecting(values)).global_grouping("lines")
    return engine.run(builder.build(), Config(state_provider=f"sqlite:///{state}", batch_interval_ms=10)), values


@pytest.mark.timeout(300)
async def test_an_unclean_election_while_three_spouts_run(tmp_path: Path) -> None:
    """Given a leader without the last records, then each spout reads the records that it has, and reports the loss."""
    async with cluster(tmp_path) as (first, second, third):
        kafka = first.bootstrap
        topic = await create_unclean(kafka)
        config = settings(kafka, topic, offset_commit_period_ms=100, client={"metadata_max_age_ms": 1000})
        batches = batch_settings(kafka, topic, batch_wait_ms=20.0, client={"metadata_max_age_ms": 1000})
        notes = Notes()
        transactional, exact = in_batches(KafkaTransactionalSpout(batches), tmp_path / "t.db")
        opaque, replaced = in_batches(KafkaOpaqueSpout(batches), tmp_path / "o.db")
        got: list[Callable[[], list[int]]] = [lambda: notes.got, lambda: [*chain(*exact.values())], lambda: [*chain(*replaced.values())]]
        async with playing(config, notes) as one, transactional as two, opaque as three:
            texts = [heard(run) for run in (one, two, three)]
            await until_led_by(kafka, topic, 2, 2)
            await produce(kafka, topic, range(CUT), acks="all")
            await asyncio.to_thread(third.stop)
            await until_led_by(kafka, topic, 2, 1)
            await produce(kafka, topic, range(CUT, CUT + LOST), acks="all")
            await until(lambda: all(len(values()) == CUT + LOST for values in got))
            await asyncio.sleep(1)
            await asyncio.to_thread(second.stop)
            await asyncio.to_thread(third.start)
            await until_led_by(kafka, topic, 3, 1)
            await produce(kafka, topic, range(1000, 1000 + NEW))
            await until(lambda: all(1000 + NEW - 1 in values() for values in got))
            async with java_client(kafka) as java:
                exists = await values_of(java, topic)
        assert exists == [*range(CUT), *range(1000, 1000 + NEW)]
        for values, told in zip(got, texts, strict=True):
            assert values() == [*range(CUT + LOST), *range(1000, 1000 + NEW)]
            assert any("lost the records from offset 95 on, which were read up to offset 100" in text for text in told), told


@pytest.mark.parametrize("seed", range(3))
async def test_topics_that_are_created_again_and_records_that_are_deleted(kafka: str, new_topic: NewTopic, seed: int) -> None:
    """Given runs that end, deleted records and new topics in any order, then each record that still exists at a start is processed."""
    draws = Random(seed)
    topic = await new_topic(partitions=1)
    config = settings(kafka, topic, offset_commit_period_ms=50, client={"metadata_max_age_ms": 300})
    number, came, before = 0, Counter[int](), 0
    async with java_client(kafka) as java:
        for _ in range(5):
            event = draws.choice(["create again", "delete records", "nothing"])
            size = draws.randrange(5, 40)
            if event == "create again":
                await delete_topic(kafka, topic)
                await create_topic(kafka, topic, 1)
                before = 0
            await produce(kafka, topic, range(number, number + size))
            if event == "delete records":
                await forget_before(kafka, topic, before + draws.randrange(1, size))
            exists = {value for value in await values_of(java, topic) if value >= number}
            assert exists
            number, before = number + size, before + size
            notes = Notes()
            async with playing(config, notes) as run:
                await read_all(run, notes, exists, draws)
            came.update(notes.got)
            assert exists <= set(notes.got), (seed, event)
    assert max(came.values()) == 1, "every run ended with a commit"


async def values_of(java: JavaClient, topic: str) -> list[int]:
    """Return the values that Java's client finds in a topic."""
    return [int(row.value or b"") for row in await java.read(topic)]


async def read_all(run: Run, notes: Notes, exists: set[int], draws: Random) -> None:
    """Wait until these values came, and end the run."""
    await notes.until(lambda: exists <= set(notes.got))
    await asyncio.sleep(draws.random() / 10)
    await run.drain()
