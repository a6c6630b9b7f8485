"""The example counts words from Kafka to Kafka on a real broker. After kills the last count of each word is exact."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from aiokafka import AIOKafkaConsumer

from engine import Config
from engine.testing import Capture, Feeder, replaced, run_topology
from tests.examples.conftest import load
from tests.kills.moments import before
from tests.kills.program import command_of
from tests.kills.steps import Step
from tests.project.sources import ROOT
from tests.servers.kafka_admin import create_topic, delete_topic, fresh_name

SCRIPT = str(ROOT / "examples" / "kafka_word_count.py")
EXACT = "The result equals a plain count of the same text."
LINES = [f"to be or not {number % 97} {number % 1009}" for number in range(1500)]
PATIENCE_SECS = 60.0
ENGINE = str(ROOT / "engine" / "__main__.py")
CHANGED = "before a change of a state"
"""Step that runs once for each word."""
STEPS = {CHANGED: Step(CHANGED, "engine.state.layered:LayeredState.put", before)}


@pytest.fixture
async def environment(kafka: str, tmp_path: Path) -> dict[str, str]:
    """Environment with topics, a group and a state of this test alone."""
    lines, counts = await create_topic(kafka, fresh_name("lines")), await create_topic(kafka, fresh_name("counts"))
    own = {"KAFKA_BROKERS": kafka, "LINES_TOPIC": lines, "COUNTS_TOPIC": counts, "KAFKA_GROUP": fresh_name("group")}
    return os.environ | own | {"STATE": f"sqlite:///{tmp_path}/counts.db", "PYTHONPATH": str(ROOT)}


async def start(environment: dict[str, str], *arguments: str, shown: int = DEVNULL, told: int = DEVNULL) -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, *arguments, env=environment, stdout=shown, stderr=told)


async def say(environment: dict[str, str], *arguments: str) -> tuple[int | None, list[str]]:
    """Run the example; return its exit status and its output."""
    process = await start(environment, SCRIPT, *arguments, shown=asyncio.subprocess.PIPE)
    shown, _ = await asyncio.wait_for(process.communicate(), PATIENCE_SECS)
    return process.returncode, shown.decode().splitlines()


async def read_counts(environment: dict[str, str], expected: dict[str, int]) -> None:
    """Read the topic of counts from its beginning, until the last count of each word is as expected."""
    told: dict[str, int] = {}
    topic, brokers = environment["COUNTS_TOPIC"], environment["KAFKA_BROKERS"]
    async with AIOKafkaConsumer(topic, bootstrap_servers=brokers, auto_offset_reset="earliest") as consumer, asyncio.timeout(PATIENCE_SECS):
        while told != expected:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                told.update({record.key.decode(): int(record.value) for record in records})


@pytest.mark.guarantee("KS-16", "KS-10")
@pytest.mark.deep
async def test_after_kills_and_restarts_the_counts_are_exact(environment: dict[str, str], tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(LINES), encoding="utf-8")
    assert await say(environment, "fill", str(text)) == (0, [f"1,500 lines are in topic {environment['LINES_TOPIC']!r}."])
    for changes in (2 * len(LINES), 3 * len(LINES)):  # a line makes 6 changes, so the text is not complete before the last start
        killed = await start(environment, *command_of(f"{__name__}:STEPS", CHANGED, changes, ENGINE, "run", SCRIPT)[1:])
        assert await asyncio.wait_for(killed.wait(), PATIENCE_SECS) == -signal.SIGKILL, "the kill must come before the end"
    plain = Counter(word for line in LINES for word in line.split())
    again = await start(environment, "-m", "engine", "run", SCRIPT, told=asyncio.subprocess.PIPE)
    assert again.stderr is not None
    assert b"running" in await asyncio.wait_for(again.stderr.readline(), PATIENCE_SECS), "it must run before it gets the signal"
    await read_counts(environment, plain)
    again.send_signal(signal.SIGINT)
    await asyncio.wait_for(again.communicate(), PATIENCE_SECS)
    assert again.returncode == 0
    status, shown = await say(environment, "show")
    assert (status, shown[-1]) == (0, EXACT)
    assert {line.split()[1]: int(line.split()[0].replace(",", "")) for line in shown[:4]} == dict.fromkeys(["to", "be", "or", "not"], 1500)


async def counted_all(environment: dict[str, str], lines: list[str]) -> None:
    """Run the example until the counts of these lines are written, and end it."""
    run = await start(environment, "-m", "engine", "run", SCRIPT)
    await read_counts(environment, Counter(word for line in lines for word in line.split()))
    run.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(run.wait(), PATIENCE_SECS) == 0


@pytest.mark.guarantee("KS-18")
@pytest.mark.deep
async def test_a_topic_that_was_created_again_is_not_counted_with_the_old_state(environment: dict[str, str], tmp_path: Path) -> None:
    """Given a new broker with topics of the same names and the state of yesterday, then the run says so."""
    text, kafka = tmp_path / "text.txt", environment["KAFKA_BROKERS"]
    text.write_text("\n".join(LINES[:20]), encoding="utf-8")
    await say(environment, "fill", str(text))
    await counted_all(environment, LINES[:20])
    for topic in (environment["LINES_TOPIC"], environment["COUNTS_TOPIC"]):
        await delete_topic(kafka, topic)
        await create_topic(kafka, topic)
    await say(environment, "fill", str(text))
    again = await start(environment, "-m", "engine", "run", SCRIPT, told=asyncio.subprocess.PIPE)
    _, told = await asyncio.wait_for(again.communicate(), PATIENCE_SECS)
    assert again.returncode == 1
    text_told, topic = told.decode(), environment["LINES_TOPIC"]
    assert f"{topic}-" in text_told
    assert "the topic was deleted and created again" in text_told
    assert "python -m engine positions set URL kafka-word-count lines" in text_told


async def test_a_missing_file_is_an_error(environment: dict[str, str], tmp_path: Path) -> None:
    assert await say(environment, "fill", str(tmp_path / "none.txt")) == (2, [])


# In this process, without a broker


@pytest.fixture
def example() -> ModuleType:
    return load("kafka_word_count")


def test_each_word_of_each_line_is_counted(example: ModuleType) -> None:
    feeder, counts = Feeder("line"), Capture()
    feeder.feed_all([("be or be",), ("",), ("be",)])
    feeder.close()
    topology = replaced(replaced(example.topology(), "lines", feeder), "counts", counts)
    finished = run_topology(topology, Config(state_provider="memory://"))
    assert finished.state == "complete"
    assert sorted(counts.values) == [("be", 1), ("be", 2), ("be", 3), ("or", 1)]


def test_undecodable_bytes_are_counted_too(example: ModuleType) -> None:
    class Record:
        value = b"be \xff"

    assert example.line_of(Record()) == ("be \ufffd",)
    Record.value = None  # type: ignore[assignment]
    assert example.line_of(Record()) == ("",)
