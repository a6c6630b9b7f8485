"""`positions set --to-time` lets an exact Kafka spout continue at a time (PO-4). Real brokers."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from engine.cli.main import run_command_line
from tests.cli.test_positions_command import play
from tests.kafka.exact_play import NAME, SPOUT, count_all, stored_positions
from tests.kafka.play import settings
from tests.kafka.tools import Captured
from tests.servers.kafka_fixtures import NewTopic

BEGIN_SECS = int(time.time()) - 3600


async def produce_each_minute(kafka: str, topic: str, values: Sequence[int], partition: int) -> None:
    """Append records. The timestamp of a value is this number of minutes after the begin."""
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        for value in values:
            at = (BEGIN_SECS + 60 * value) * 1000
            await producer.send_and_wait(topic, str(value).encode(), partition=partition, timestamp_ms=at)


def minute(value: float) -> str:
    """Return a time in the form of the command."""
    return datetime.fromtimestamp(BEGIN_SECS + 60 * value, UTC).isoformat()


async def set_to_time(
    capsys: Captured, folder: Path, kafka: str, at: str, *partitions: str, status: int = 0
) -> tuple[str, str]:
    """Run the command, and return its standard output and error."""
    arguments = ["positions", "set", f"sqlite:///{folder}/state.db", NAME, SPOUT, *partitions, "--to-time", at, "--brokers", kafka]
    capsys.readouterr()
    found = await asyncio.to_thread(run_command_line, arguments)
    out, err = capsys.readouterr()
    assert found == status, out + err
    return out, err


async def read_once(kafka: str, new_topic: NewTopic, folder: Path) -> str:
    """Return a topic of two partitions whose values 0, 2, … 18 and 1, 3, 5 have been counted."""
    topic = await new_topic(partitions=2)
    await produce_each_minute(kafka, topic, range(0, 20, 2), 0)
    await produce_each_minute(kafka, topic, [1, 3, 5], 1)
    assert await count_all(settings(kafka, topic), folder) == Counter([*range(0, 20, 2), 1, 3, 5])
    return topic


@pytest.mark.guarantee("PO-4")
async def test_the_next_run_continues_at_the_first_record_of_the_time(
    kafka: str, new_topic: NewTopic, tmp_path: Path, capsys: Captured
) -> None:
    topic = await read_once(kafka, new_topic, tmp_path)
    out, err = await set_to_time(capsys, tmp_path, kafka, minute(10.5))
    assert {name: row[-1] for name, *row in map(str.split, out.splitlines()[1:])} == {f"{topic}-0": "6", f"{topic}-1": "3"}
    assert f"{topic}-1 has no record of {minute(10.5)} or later, so it continues at its end, 3." in err
    assert f"{topic}-0 has" not in err
    await produce_each_minute(kafka, topic, [21], 1)
    assert await count_all(settings(kafka, topic), tmp_path) == Counter([*range(0, 20, 2), 1, 3, 5, 21]) + Counter([12, 14, 16, 18])


@pytest.mark.guarantee("PO-4")
async def test_a_record_of_exactly_this_time_is_the_first_one(kafka: str, new_topic: NewTopic, tmp_path: Path, capsys: Captured) -> None:
    topic = await read_once(kafka, new_topic, tmp_path)
    before = (await stored_positions(tmp_path))[f"{topic}-0"]
    await set_to_time(capsys, tmp_path, kafka, minute(3), f"{topic}-1")
    assert await stored_positions(tmp_path) == {f"{topic}-0": before, f"{topic}-1": 1}
    assert (await count_all(settings(kafka, topic), tmp_path))[3] == 2


@pytest.mark.guarantee("PO-4")
async def test_a_time_before_all_records_is_a_backfill(kafka: str, new_topic: NewTopic, tmp_path: Path, capsys: Captured) -> None:
    topic = await read_once(kafka, new_topic, tmp_path)
    await set_to_time(capsys, tmp_path, kafka, "2001-01-01")
    counts = await count_all(settings(kafka, topic), tmp_path)
    assert set(counts.values()) == {2}
    assert len(counts) == 13


@pytest.mark.guarantee("PO-4")
async def test_what_cannot_be_found_changes_nothing(kafka: str, new_topic: NewTopic, tmp_path: Path, capsys: Captured) -> None:
    topic = await read_once(kafka, new_topic, tmp_path)
    before = await stored_positions(tmp_path)
    texts = {
        (kafka, minute(3), f"{topic}-7"): f"'{topic}-7' is no partition of '{topic}'",
        (kafka, minute(3), f"{topic}-1=2"): "With --to-time write partitions without a position",
        (kafka, "2026-11-01T00:00 Mars/Base"): "'2026-11-01T00:00 Mars/Base' is not a valid time",
        (kafka, "2026-11-01T00:00+99:00"): "with Z for UTC or an offset",
        ("127.0.0.1:1", minute(3)): "127.0.0.1:1",
    }
    for (brokers, *arguments), text in texts.items():
        assert text in (await set_to_time(capsys, tmp_path, brokers, *arguments, status=2))[1]
    assert await stored_positions(tmp_path) == before
    command = ["positions", "set", f"sqlite:///{tmp_path}/state.db", NAME, SPOUT]
    assert await asyncio.to_thread(run_command_line, [*command, "--to-time", minute(3)]) == 2
    assert "Name them: --brokers HOST:PORT" in capsys.readouterr().err
    assert await asyncio.to_thread(run_command_line, command) == 2
    assert "nothing to set" in capsys.readouterr().err


@pytest.mark.guarantee("PO-4")
async def test_only_a_kafka_spout_has_positions_of_a_time(kafka: str, tmp_path: Path, capsys: Captured) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    await asyncio.to_thread(play, url)
    for spout in ("lines", "topics"):
        command = ["positions", "set", url, "words", spout, "--to-time", "2026-01-31T12:00Z", "--brokers", kafka]
        assert await asyncio.to_thread(run_command_line, command) == 2
        assert f"spout '{spout}' of topology 'words' is no KafkaSpout" in capsys.readouterr().err
    await asyncio.to_thread(run_command_line, ["positions", "reset", url, "words", "lines", "--yes"])
    assert await asyncio.to_thread(run_command_line, [*command[:4], "lines", *command[5:]]) == 2
    assert 'start="timestamp"' in capsys.readouterr().err
