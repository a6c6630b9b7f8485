"""A transactional topology from Kafka to Kafka writes each record once despite failures and kills (TX-7, TX-8, TX-10)."""

import asyncio
import random
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from engine import TopologyError
from engine.kafka.transactional import KafkaCommitter, KafkaOpaqueSpout
from engine.transactional import TransactionalTopologyBuilder
from tests.kafka.play import committed, produce
from tests.kafka.transactional import copying
from tests.kafka.transactional.committer_task import committer_config, seen
from tests.kafka.transactional.copying import Keyed, copy, topology_of
from tests.kafka.transactional.hand import settings
from tests.kills.moments import in_flight
from tests.kills.program import command_of
from tests.kills.steps import Step
from tests.servers.kafka_fixtures import NewTopic
from tests.transactional.kills.steps import STEPS as TRANSACTION_STEPS

pytestmark = [pytest.mark.guarantee("TX-7"), pytest.mark.guarantee("TX-8"), pytest.mark.guarantee("TX-10")]
LIMIT_SECS = 60
RECORDS = 6_000
BATCH_RECORDS = 150
"""50 of each partition."""
IN_COMMIT = "copies: in the commit to the broker"
STEPS = TRANSACTION_STEPS | {IN_COMMIT: Step(IN_COMMIT, "engine.kafka.client.producer_link:TransactionLink.commit_transaction", in_flight)}
KILLED_AT = ("coordinator: committed, and taken in", IN_COMMIT, "coordinator: saved, not answered")
MOST_BATCHES = max(1, RECORDS // BATCH_RECORDS // (len(KILLED_AT) + 1))
"""Batches after which a process must have died, so that the last process also has some."""


async def filled(new_topic: NewTopic, kafka: str, count: int) -> str:
    topic = await new_topic(partitions=3)
    for partition in range(3):
        await produce(kafka, topic, range(partition, count, 3), partition=partition)
    return topic


async def test_failed_batches_are_replayed_and_each_record_is_written_once(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    source, target = await filled(new_topic, kafka, 900), await new_topic(partitions=2)
    url = f"sqlite:///{tmp_path / 'state.db'}"
    Keyed.failing = {0, 3, 6, 7, 400, 401, 899}
    async with asyncio.timeout(LIMIT_SECS):
        await copy(topology_of(kafka, source, target, group=f"{target}-group"), url)
    assert sorted(map(int, await seen(kafka, target))) == list(range(900))
    await produce(kafka, source, range(900, 905), partition=1)
    async with asyncio.timeout(LIMIT_SECS):
        await copy(topology_of(kafka, source, target, tasks=1, group=f"{target}-group"), url)
    assert sorted(map(int, await seen(kafka, target))) == list(range(905))
    assert (await committed(kafka, f"{target}-group", source, 1)).offset == 305


@pytest.mark.deep
async def test_a_run_killed_several_times_writes_each_record_once(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    source, target = await filled(new_topic, kafka, RECORDS), await new_topic(partitions=2)
    command = (copying.__file__, kafka, source, target, f"sqlite:///{tmp_path / 'state.db'}")
    draws = random.Random(20)
    for step in KILLED_AT:
        status, said = await ended(command_of(f"{__name__}:STEPS", step, draws.randint(1, MOST_BATCHES), *command))
        assert status == -signal.SIGKILL, f"{step}: {said}"
    assert 0 < len(await seen(kafka, target)) < RECORDS, "it was killed in the midst of it"
    status, said = await ended([sys.executable, *command])
    assert status == 0, said
    assert sorted(map(int, await seen(kafka, target))) == list(range(RECORDS))


async def ended(command: list[str]) -> tuple[int | None, str]:
    """Run a process to its end. Return its status and output."""
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(LIMIT_SECS):
        _, said = await process.communicate()
    return process.returncode, said.decode()


def test_a_committer_and_an_opaque_spout_are_refused() -> None:
    builder = TransactionalTopologyBuilder("refused", "lines", KafkaOpaqueSpout(settings("127.0.0.1:9092", "lines")))
    builder.set_bolt("copies", lambda: KafkaCommitter(committer_config("127.0.0.1:9092", "out"))).shuffle_grouping("lines")
    with pytest.raises(TopologyError, match=r"KafkaCommitter cannot replace values that it stored for a txid, and the spout is opaque"):
        builder.build()


@pytest.mark.parametrize(
    ("keyed_by", "fault"),
    [(None, "has no key, so it has one task"), ("value", "each key must be written by one task, and shuffle_grouping")],
)
def test_several_tasks_need_a_fields_grouping(keyed_by: Any, fault: str) -> None:
    from engine.kafka.transactional import KafkaTransactionalSpout

    builder = TransactionalTopologyBuilder("refused", "lines", KafkaTransactionalSpout(settings("127.0.0.1:9092", "lines")))
    config = committer_config("127.0.0.1:9092", "out", keyed_by=keyed_by)
    builder.set_bolt("copies", lambda: KafkaCommitter(config), 2).shuffle_grouping("lines")
    with pytest.raises(TopologyError, match=fault):
        builder.build()
