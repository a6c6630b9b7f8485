"""Windows over Kafka: partitions that are read to their end hold no watermark back (ET-3), and results are exact (WI-1)."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer

from engine import Config
from engine import run as start_run
from engine.kafka import KafkaSpout, KafkaSpoutConfig
from engine.streams import Flow, json_of, seconds, tumbling
from tests.servers.kafka_fixtures import NewTopic

BEGIN_MS = 1_760_000_000_000 // 60_000 * 60_000


class Click(NamedTuple):
    page: str
    at: int


def flow_of(kafka: str, topic: str, config: Config, seen: list[Any], **options: Any) -> Flow:
    spout_config = KafkaSpoutConfig(brokers=kafka, topics=topic, group=f"{topic}-group", **options)
    flow = Flow("clicks", config)
    clicks = flow.stream("clicks", lambda: KafkaSpout(spout_config), Click, value=json_of(Click), parallelism=2)
    timed = clicks.event_time("at", max_out_of_order=seconds(2), idle_secs=1.0)
    counts = timed.key_by("page").window(tumbling(seconds(10))).count(name="counts", parallelism=2)
    counts.sink("seen", lambda row: seen.append((row.key, (row.start_us // 1_000 - BEGIN_MS) // 1_000, row.value)))
    return flow


async def send(kafka: str, topic: str, clicks: list[tuple[str, int]], partition: int | None = None) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        for page, secs in clicks:
            value = json.dumps({"page": page, "at": BEGIN_MS + secs * 1_000}).encode()
            await producer.send(topic, value, partition=secs % 2 if partition is None else partition)
        await producer.flush()


async def until(condition: Any, secs: float = 30.0) -> None:
    for _ in range(round(secs / 0.05)):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"not in {secs:g} s")


@pytest.mark.guarantee("ET-3", "WI-1")
async def test_an_empty_partition_holds_no_window_back(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=3)
    seen: list[Any] = []
    await send(kafka, topic, [("/", 1), ("/", 2), ("/help", 3), ("/", 11), ("/", 15)])
    async with start_run(flow_of(kafka, topic, Config(message_timeout_secs=20), seen).topology()) as run:
        await until(lambda: len(seen) >= 2)
        assert sorted(seen) == [("/", 0, 2), ("/help", 0, 1)], "the window from 10 s on is open, because a row may still come"
        await send(kafka, topic, [("/", 30)], partition=2)
        await until(lambda: len(seen) >= 3)
        assert seen[2] == ("/", 10, 2), "all other partitions are read to their end"
        await run.stop()


@pytest.mark.guarantee("WI-1", "ET-4")
async def test_windows_over_kafka_go_on_after_a_restart(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = await new_topic(partitions=2)
    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db", state_checkpoint_interval_ms=200, message_timeout_secs=20)
    clicks = [(f"/{number % 3}", number - number * 7 % 3) for number in range(400)]
    seen: list[Any] = []
    await send(kafka, topic, clicks[:250])
    async with start_run(flow_of(kafka, topic, config, seen).topology()) as run:
        await until(lambda: len(seen) >= 20)
        await run.drain()
    await send(kafka, topic, clicks[250:])
    async with start_run(flow_of(kafka, topic, config, seen, stop_at_end=True).topology()) as run:
        await run.completed()
    assert {(page, start): count for page, start, count in seen} == Counter((page, secs // 10 * 10) for page, secs in clicks)
    assert len(seen) == len({(page, start) for page, start, _ in seen}), "each result comes once"
