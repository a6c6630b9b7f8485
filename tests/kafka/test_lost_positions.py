"""Stored positions of an exact KafkaSpout that are set by hand, or do not exist (KS-18). Real brokers."""

import asyncio
import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

import engine
from engine.errors import ComponentError, FatalError
from engine.kafka import KafkaSpoutConfig
from engine.kafka.source import start_positions
from engine.kafka.source.ledger_positions import LedgerPositions
from engine.kafka.source.partitions import Partitions
from tests.kafka.exact_play import QUICK, Told, count_all, counting, engine_config, filled, once, set_position, stored_positions, until
from tests.kafka.play import counted, heard, produce, settings
from tests.servers.kafka_admin import admin, create_topic, delete_topic
from tests.servers.kafka_fixtures import NewTopic


@pytest.mark.guarantee("KS-18")
async def test_a_position_set_by_hand_is_used(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = await filled(new_topic, kafka, 30)
    config = settings(kafka, topic)
    assert await count_all(config, tmp_path) == once(30)
    await set_position(tmp_path, f"{topic}-1", 8)
    assert await count_all(config, tmp_path) == once(30) + Counter([25, 28])
    assert (await stored_positions(tmp_path))[f"{topic}-1"]["first_partitions"] == 3


async def lost(config: KafkaSpoutConfig, folder: Path) -> str:
    """Run, and return the error that ends the run."""
    with pytest.raises(ComponentError) as found:
        await count_all(config, folder)
    assert isinstance(found.value.__cause__, FatalError)
    return str(found.value)


async def delete_below(kafka: str, topic: str, offset: int) -> None:
    """Delete the first records of partition 0."""
    async with admin(kafka) as client:
        await client.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=offset)})


@pytest.mark.guarantee("KS-18")
async def test_a_position_below_the_first_record_ends_the_run_or_is_skipped(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    config = settings(kafka, topic)
    assert await count_all(config, tmp_path) == once(10)
    await produce(kafka, topic, range(10, 30))
    await delete_below(kafka, topic, 20)
    text = await lost(config, tmp_path)
    assert f"{topic}-0: offset 10 does not exist; the broker has offsets 20 to 29" in text
    assert f"python -m engine positions set URL exact kafka {topic}-0=20" in text
    assert "on_lost='skip'" in text
    assert (await stored_positions(tmp_path))[f"{topic}-0"]["offset"] == 10, "nothing is moved"
    told, skipping = Told(), dataclasses.replace(config, on_lost="skip", stop_at_end=True)
    async with engine.run(counting(skipping, told), engine_config(tmp_path)) as run:
        texts = heard(run)
        await run.completed()
        assert counted(run, "kafka_out_of_range") == 1
    assert told.counts == once(10) + once(20, 30)
    assert any("does not exist" in text for text in texts)


@pytest.mark.guarantee("KS-18")
async def test_a_position_beyond_the_end_ends_the_run(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    config = settings(kafka, topic)
    assert await count_all(config, tmp_path) == once(10)
    await set_position(tmp_path, f"{topic}-0", 17)
    text = await lost(config, tmp_path)
    assert f"{topic}-0: offset 17 does not exist; the broker has offsets 0 to 9" in text
    assert f"{topic}-0=0" in text


@pytest.mark.guarantee("KS-18", "KS-15")
@pytest.mark.parametrize("running", [False, True])
async def test_a_topic_that_was_created_again_ends_the_run(kafka: str, new_topic: NewTopic, tmp_path: Path, running: bool) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    config, told = settings(kafka, topic, **QUICK), Told()
    if not running:
        assert await count_all(config, tmp_path) == once(10)
        await create_again(kafka, topic)
        text = await lost(config, tmp_path)
    else:

        async def run_and_create_again() -> None:
            async with engine.run(counting(config, told), engine_config(tmp_path)) as run, asyncio.timeout(60):
                await until(lambda: told.counts == once(10), run)
                await create_again(kafka, topic)
                await run.completed()

        with pytest.raises(ComponentError) as found:
            await run_and_create_again()
        text = str(found.value)
    assert f"{topic}-0" in text
    assert "created again" in text or "does not exist" in text
    assert "offset 10" in text
    assert f"python -m engine positions set URL exact kafka {topic}-0=0" in text


async def create_again(kafka: str, topic: str) -> None:
    await delete_topic(kafka, topic)
    await create_topic(kafka, topic, 1)
    await produce(kafka, topic, range(100, 130))


@pytest.mark.guarantee("KS-18")
def test_a_position_of_another_kind_is_refused() -> None:
    ledger: Any = LedgerPositions(settings("a:1", "x"), None, Partitions(), lambda error: None, lambda: None)  # type: ignore[arg-type]
    for position in {"lines": 3}, {"lines-0": "x"}, {"lines-0": -1}, {"lines-0": {"log": None}}, [1]:
        with pytest.raises(FatalError, match="is no position of a KafkaSpout"):
            ledger.begin(position)


def read_what_is_left(patch: pytest.MonkeyPatch) -> None:
    """Mutant of scenario 26: a position that the broker does not have goes on at the first record, as without a ledger."""

    async def find(link: Any, config: KafkaSpoutConfig, topology: str, search: Any) -> Any:
        return await unchanged(link, dataclasses.replace(config, on_lost="skip", out_of_range="earliest"), topology, search)

    unchanged = start_positions.find_start_positions
    patch.setattr(start_positions, "find_start_positions", find)


@pytest.mark.guarantee("KS-18")
async def test_the_simpler_rule_that_reads_what_is_left_loses_or_doubles_rows(
    kafka: str, new_topic: NewTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 26."""
    below, beyond = await new_topic(partitions=1), await new_topic(partitions=1)
    for topic in below, beyond:
        (tmp_path / topic).mkdir()
        await produce(kafka, topic, range(10))
        assert await count_all(settings(kafka, topic), tmp_path / topic) == once(10)
    await produce(kafka, below, range(10, 30))
    await delete_below(kafka, below, 20)
    await set_position(tmp_path / beyond, f"{beyond}-0", 17)

    read_what_is_left(monkeypatch)
    assert await count_all(settings(kafka, below), tmp_path / below) == once(10) + once(20, 30), "lost: 10 to 19"
    assert await count_all(settings(kafka, beyond), tmp_path / beyond) == once(10) + once(10), "doubled: all"
