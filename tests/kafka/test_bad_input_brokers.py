"""Absent, wrong, dead, hanging and slow brokers: retries are reported, and no record is lost."""

import asyncio
import gc
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine import ComponentError
from engine.kafka import KafkaSecurity
from tests.kafka.play import Notes, committed, heard, playing, produce, settings, until_committed
from tests.kafka.proxy import Proxy
from tests.patience import PATIENCE_SECS
from tests.servers.kafka_admin import create_topic
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_fixtures import NewBroker
from tests.servers.process import HOST, free_port

pytestmark = pytest.mark.guarantee("KS-2")

QUICK: dict[str, Any] = {
    "heartbeat_interval_ms": 200,
    "session_timeout_ms": 30_000,
    "request_timeout_ms": 2000,
    "offset_commit_period_ms": 100,
}
"""Settings that detect silence soon."""


async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def speaks_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    await writer.drain()
    writer.close()


@asynccontextmanager
async def serving(how: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    server = await asyncio.start_server(how, HOST, 0)
    try:
        yield f"{HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (hangs_up, "It may not expect protocol PLAINTEXT"),
        (speaks_http, "It may not expect protocol PLAINTEXT"),
        (says_nothing, "accepts connections, but does not answer. It may be overloaded, expect TLS, or not be a Kafka broker"),
    ],
)
async def test_a_server_that_is_not_kafka_is_reported(how: Any, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.kafka.client.connect._CONNECT_SECS", 0.2)
    async with serving(how) as address:
        async with playing(settings(address, "t"), notes := Notes()) as run:
            texts = heard(run)
            await notes.until(lambda: any(re.search(told, text) for text in texts))
            assert re.search(rf"a connection to {address} failed: .*It will be retried in", texts[0])


@pytest.mark.parametrize("broker", [f"{HOST}:1", "localhost:1", "no-such-host.invalid:9092"])
async def test_an_absent_broker_is_reported_and_retried(broker: str) -> None:
    async with playing(settings(broker, "t"), notes := Notes()) as run:
        texts = heard(run)
        await notes.until(lambda: texts)
        assert re.search(rf"a connection to {broker} failed: .*It will be retried in", texts[0])


async def test_missing_certificates_end_the_run(tmp_path: Path) -> None:
    security = KafkaSecurity(protocol="SSL", cafile=str(tmp_path / "none.pem"))
    with pytest.raises(ComponentError, match=r"(?s)a connection to .* failed: FileNotFoundError.*Fix: Check cafile"):
        await until_it_ends(settings(f"{HOST}:1", "t", security=security))


async def test_an_unknown_client_option_ends_the_run() -> None:
    with pytest.raises(ComponentError, match=r"(?s)failed: TypeError.*'colour'.*Fix: Correct client="):
        await until_it_ends(settings(f"{HOST}:1", "t", client={"colour": "red"}))


async def until_it_ends(config: Any) -> None:
    async with playing(config, Notes()) as run:
        async with asyncio.timeout(PATIENCE_SECS):
            await run.completed()


@pytest.mark.deep
async def test_a_broker_that_starts_dies_and_hangs(new_broker: NewBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given no broker, when one starts, is killed and frozen, then this is reported, and each record comes once."""
    monkeypatch.setattr("engine.kafka.client.connect._TIMEOUT_SECS", 0.5)
    monkeypatch.setattr("engine.runtime.error_report.WINDOW_SECS", 0.5)
    port = free_port()
    config = settings(f"{HOST}:{port}", "words", **QUICK)
    notes = Notes()
    async with playing(config, notes) as run:
        texts = heard(run)
        await notes.until(lambda: texts)
        broker = await asyncio.to_thread(new_broker, port=port)
        await create_topic(broker.bootstrap, "words", partitions=1)
        await produce(broker.bootstrap, "words", range(100))
        await notes.until(lambda: len(notes.got) == 100)
        await until_committed(broker.bootstrap, config.group or "", "words", 100)

        broker.kill()
        await notes.until(lambda: any("no broker has answered for" in text for text in texts))
        await asyncio.to_thread(broker.start)
        await produce(broker.bootstrap, "words", range(100, 200))
        await notes.until(lambda: len(set(notes.got)) == 200)

        texts.clear()
        broker.freeze()
        await notes.until(lambda: any("accepts connections, but does not answer" in text for text in texts))
        broker.thaw()
        await produce(broker.bootstrap, "words", range(200, 300))
        await notes.until(lambda: len(set(notes.got)) == 300)
        await until_committed(broker.bootstrap, config.group or "", "words", 300)
    assert sorted(notes.got) == list(range(300))
    assert (await committed(broker.bootstrap, config.group or "", "words")).offset == 300


@pytest.mark.deep
async def test_slow_and_broken_connections(new_broker: NewBroker) -> None:
    """Given slow connections that break again and again, when records flow, then each comes and is committed."""
    port, behind = free_port(), free_port()
    advertised = {"advertised.listeners": f"PLAINTEXT://{HOST}:{behind}"}
    broker = await asyncio.to_thread(new_broker, port=port, settings=advertised)
    async with Proxy(behind, port) as proxy:
        await create_topic(broker.bootstrap, "words", partitions=1)
        config, notes = settings(broker.bootstrap, "words", **QUICK), Notes()
        async with playing(config, notes):
            proxy.delay_secs = 0.1
            for begin in range(0, 300, 100):
                await produce(broker.bootstrap, "words", range(begin, begin + 100))
                proxy.cut()
                await notes.until(lambda begin=begin: len(set(notes.got)) == begin + 100)
            proxy.delay_secs = 0.0
            await until_committed(broker.bootstrap, config.group or "", "words", 300)
        assert sorted(set(notes.got)) == list(range(300))


@pytest.mark.filterwarnings("error")
@pytest.mark.deep
async def test_a_run_ends_while_the_broker_is_frozen(
    own_broker: KafkaBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a silent broker, when the spout is deactivated and closed, then both end with a report."""
    monkeypatch.setattr("engine.kafka.client.consumer_link.COMMIT_TIMEOUT_SECS", 0.5)
    monkeypatch.setattr("engine.kafka.client.consumer_link._STOP_TIMEOUT_SECS", 0.5)
    topic = await create_topic(own_broker.bootstrap, "words", partitions=1)
    await produce(own_broker.bootstrap, topic, range(100))
    config, notes = settings(own_broker.bootstrap, topic), Notes()
    before = asyncio.all_tasks()
    async with playing(config, notes) as run:
        texts = heard(run)
        await notes.until(lambda: run.snapshot().components["kafka"].acked == 100)
        own_broker.freeze()
        async with asyncio.timeout(PATIENCE_SECS):
            await run.deactivate()
        assert any("a commit failed:" in text for text in texts)
        async with asyncio.timeout(PATIENCE_SECS):
            await run.stop()
    own_broker.thaw()
    assert any("the consumer could not leave its group: no broker answered" in text for text in texts)
    gc.collect()
    await asyncio.sleep(0.1)
    assert "never retrieved" not in caplog.text
    assert "Unclosed" not in caplog.text
    assert not [task for task in asyncio.all_tasks() - before if "aiokafka" in repr(task)]
