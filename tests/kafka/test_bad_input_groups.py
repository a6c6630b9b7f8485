"""Shared groups, lost sessions, and interrupted runs (KS-5, KS-6)."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

import engine
from engine import ComponentError, Config, TopologyBuilder
from engine.installation import install_command
from engine.kafka import KafkaSpout
from tests.kafka.play import (
    PATIENCE_SECS,
    PAUSE_SECS,
    Notes,
    Noting,
    all_of,
    committed,
    heard,
    playing,
    produce,
    settings,
)
from tests.servers.kafka_admin import admin, fresh_name
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("KS-6")

QUICK: dict[str, Any] = {"heartbeat_interval_ms": 100}


async def test_two_topologies_in_one_group_are_reported(kafka: str, new_topic: NewTopic) -> None:
    """Given a reading topology, when another one joins its group, then one report names it, and each record comes once."""
    topic = await new_topic(partitions=2)
    for partition in (0, 1):
        await produce(kafka, topic, range(100 * partition, 100 * partition + 100), partition=partition)
    config, first, second = settings(kafka, topic, **QUICK), Notes(), Notes()
    async with playing(config, first, name="first"):
        await first.until(lambda: len(first.got) == 200)
        async with playing(config, second, name="second") as run:
            texts = heard(run)
            await second.until(lambda: any("was committed by topology 'first'" in text for text in texts))
            for partition in (0, 1):
                await produce(kafka, topic, range(1000 * partition, 1000 * partition + 100), partition=partition)
            await second.until(lambda: len(first.got) + len(second.got) == 400)
            assert sum("Two topologies in one group share its records" in text for text in texts) == 1
            assert len(second.got) == 100


async def test_a_group_with_another_assignor(kafka: str, new_topic: NewTopic) -> None:
    topic, group = await new_topic(partitions=2), fresh_name("group")
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=kafka, group_id=group, partition_assignment_strategy=(RangePartitionAssignor,), enable_auto_commit=False
    )
    async with consumer:
        with pytest.raises(ComponentError, match=r"(?s)InconsistentGroupProtocol.*Fix: All members of a group need the same assignor"):
            await all_of(settings(kafka, topic, group=group))
        await produce(kafka, topic, range(10))
        assert await all_of(settings(kafka, topic, group=group, assignor="range"), Notes()) in ([], list(range(10)))


async def test_a_session_lost_while_a_bolt_blocks_the_loop(kafka: str, new_topic: NewTopic) -> None:
    """Given records in flight and a loop blocked beyond the session, when it continues, then uncommitted records come again."""
    topic = await new_topic(partitions=2)
    await produce(kafka, topic, range(10))
    await produce(kafka, topic, range(10, 20), partition=1)
    config, notes = settings(kafka, topic, session_timeout_ms=1000, **QUICK), Notes()
    notes.hold = lambda value: value >= 5
    async with playing(config, notes) as run:
        texts = heard(run)
        await notes.until(lambda: len(notes.got) == 20)
        forgotten = threading.Thread(target=asyncio.run, args=(until_empty(kafka, config.group or ""),))
        forgotten.start()
        forgotten.join()  # the loop stands still
        await notes.until(lambda: sum(value >= 5 for value in notes.got) == 30)
        assert any("removed this member" in text for text in texts)
        notes.hold = lambda value: False
        notes.release()
        await notes.until(lambda: run.snapshot().components["kafka"].acked == 25)
        await run.deactivate()
        assert (await committed(kafka, config.group or "", topic)).offset == 10
        assert (await committed(kafka, config.group or "", topic, 1)).offset == 10
    assert set(notes.got) == set(range(20))


async def until_empty(kafka: str, group: str) -> None:
    """Wait until the group has no members."""
    async with admin(kafka) as client, asyncio.timeout(PATIENCE_SECS):
        while "Empty" not in str(await client.describe_consumer_groups([group])):  # noqa: ASYNC110
            await asyncio.sleep(PAUSE_SECS)


async def test_two_spouts_in_one_topology(kafka: str, new_topic: NewTopic) -> None:
    first, second, notes = await new_topic(partitions=1), await new_topic(partitions=1), Notes()
    await produce(kafka, first, range(10))
    await produce(kafka, second, range(10, 20))
    group = fresh_name("group")
    builder = TopologyBuilder("play")
    for name, topic in (("first", first), ("second", second)):
        config = settings(kafka, topic, group=group, stop_at_end=True)
        builder.set_spout(name, lambda config=config: KafkaSpout(config))
    builder.set_bolt("notes", lambda: Noting(notes)).global_grouping("first").global_grouping("second")
    async with engine.run(builder.build(), Config()) as run:
        async with asyncio.timeout(60):
            await run.completed()
    assert sorted(notes.got) == list(range(20))
    assert [(await committed(kafka, group, topic)).offset for topic in (first, second)] == [10, 10]


FLOW = """
from engine import TopologyBuilder, bolt
from engine.kafka import KafkaSpout, KafkaSpoutConfig

config = KafkaSpoutConfig(brokers="{kafka}", topics="{topic}", group="{group}", translator=lambda record: (int(record.value),), fields="n")


@bolt()
def show(tup):
    print(tup["n"], flush=True)


topology = TopologyBuilder("play")
topology.set_spout("numbers", lambda: KafkaSpout(config))
topology.set_bolt("show", show).shuffle_grouping("numbers")
"""


async def test_ctrl_c_commits_all_acked_offsets(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, group = await new_topic(partitions=1), fresh_name("group")
    await produce(kafka, topic, range(100))
    (tmp_path / "flow.py").write_text(FLOW.format(kafka=kafka, topic=topic, group=group))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-X",
        "dev",
        "-m",
        "engine",
        "run",
        "--plain",
        str(tmp_path / "flow.py"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert [int(await process.stdout.readline()) for _ in range(100)] == list(range(100))
        process.send_signal(signal.SIGINT)
        _, said = await process.communicate()
    assert process.returncode == 0
    assert (await committed(kafka, group, topic)).offset == 100
    said = b"\n".join(line for line in said.splitlines() if b"WARNING asyncio: Executing" not in line)  # a busy machine, in debug mode
    for noise in (b"Unclosed", b"Task was destroyed", b"never retrieved", b"Traceback", b"Error", b"aiokafka"):
        assert noise not in said, said


def test_without_aiokafka_the_import_says_what_to_install() -> None:
    blocked = "import sys; sys.modules['aiokafka'] = None; import engine; import engine.kafka"
    ran = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True, timeout=60, env=dict(os.environ))
    assert ran.returncode == 1
    said = f"ModuleNotFoundError: engine.kafka needs aiokafka, which is not installed. Install it: {install_command('kafka')}"
    assert ran.stderr.splitlines()[-1] == said
