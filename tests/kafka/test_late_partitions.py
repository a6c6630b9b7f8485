"""A spout that stops at the end, and gets the partitions of a leaving member."""

from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from engine import SpoutExhausted
from engine.kafka import KafkaSpout
from tests.kafka.play import Notes, playing, produce, settings
from tests.servers.kafka_fixtures import NewTopic


@pytest.mark.guarantee("KS-6")
async def test_an_ended_task_reads_the_partitions_of_a_leaving_member(
    kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given three members for two partitions, when the middle one leaves, then the idle task reads its partition."""
    topic = await new_topic(partitions=2)
    await produce(kafka, topic, range(10), partition=0)
    await produce(kafka, topic, range(10, 20), partition=1)
    times: dict[str, Any] = {"heartbeat_interval_ms": 100, "revoke_drain_ms": 100.0}
    config, notes = settings(kafka, topic, assignor="roundrobin", stop_at_end=True, **times), Notes()
    ended, rest = set[KafkaSpout](), KafkaSpout.rest

    def noted_rest(spout: KafkaSpout) -> None:
        try:
            rest(spout)
        except SpoutExhausted:
            ended.add(spout)
            raise

    monkeypatch.setattr(KafkaSpout, "rest", noted_rest)
    notes.hold = lambda value: value == 5
    options: dict[str, Any] = {"group_id": config.group, "heartbeat_interval_ms": 100, "enable_auto_commit": False}
    options["partition_assignment_strategy"] = (RoundRobinPartitionAssignor,)
    other = AIOKafkaConsumer(topic, bootstrap_servers=kafka, client_id="play.kafka.0a", **options)  # between the names of the two tasks
    async with other:
        await notes.until(other.assignment)
        async with playing(config, notes, tasks=2) as run:
            await notes.until(lambda: len(notes.got) == 10 and len(other.assignment()) == 1)
            await notes.until(lambda: len(ended) == 2)
            await other.stop()
            await notes.until(lambda: len(notes.got) == 20 or run.state != "running")
            notes.release()
            await run.completed()
    assert sorted(notes.got) == list(range(20))
