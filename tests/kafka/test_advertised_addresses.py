"""Advertised addresses that do not work, and brokers that move: each wait names the address, and no record is lost (KS-14)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import engine
from engine import Config, Inlet, TopologyBuilder
from engine.clock import Clock
from engine.errors import FatalError
from engine.kafka import KafkaSink
from engine.kafka.client.admin_client import ClusterConfig, connected
from engine.kafka.client.advertised_brokers import UnreachedBroker
from engine.kafka.client.connect import advertised_error, watch_brokers
from engine.testing import run_virtual
from engine.waits import Waits
from tests.kafka.play import Notes, heard, playing, produce, settings
from tests.kafka.proxy import Proxy
from tests.kafka.sink_play import sink_config, values
from tests.kafka.test_bad_input_brokers import QUICK, says_nothing
from tests.patience import PATIENCE_SECS
from tests.servers.kafka_admin import create_topic
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_fixtures import NewBroker
from tests.servers.process import HOST, free_port

pytestmark = [pytest.mark.guarantee("KS-14"), pytest.mark.guarantee("SV-11")]
UNREACHED = "does not work from here"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits, so that the tests need no patience."""
    monkeypatch.setattr("engine.waits.LONG_SECS", 0.5)
    monkeypatch.setattr("engine.waits.CHECK_SECS", 0.1)
    monkeypatch.setattr("engine.kafka.client.connect._TIMEOUT_SECS", 0.5)
    monkeypatch.setattr("engine.kafka.client.advertised_brokers.CONNECT_SECS", 0.5)
    monkeypatch.setattr("engine.kafka.client.producer_link._SLOW_START_SECS", 0.5)
    monkeypatch.setattr("engine.kafka.sink.sink.SHOWN_AFTER_SECS", 1.0)
    monkeypatch.setattr("engine.runtime.error_report.WINDOW_SECS", 0.1)


@asynccontextmanager
async def advertising(new_broker: NewBroker) -> AsyncIterator[tuple[str, int, Callable[[], Proxy]]]:
    """Return the bootstrap address of a broker, the port that it advertises, and a function that makes this port work."""
    behind, port = free_port(), free_port()
    await asyncio.to_thread(new_broker, port=port, settings={"advertised.listeners": f"PLAINTEXT://{HOST}:{behind}"})
    async with Proxy(behind, port):
        await create_topic(f"{HOST}:{port}", "words", partitions=1)
        await produce(f"{HOST}:{port}", "words", range(10))
    yield f"{HOST}:{port}", behind, lambda: Proxy(behind, port)


def sinking(bootstrap: str, topic: str) -> Any:
    builder = TopologyBuilder("sinking")
    builder.set_spout("in", lambda: Inlet("value"))
    builder.set_bolt("sink", lambda: KafkaSink(sink_config(bootstrap, topic))).shuffle_grouping("in")
    return builder.build()


@pytest.mark.usefixtures("soon")
async def test_an_advertised_address_that_does_not_work_is_named(new_broker: NewBroker) -> None:
    """Given a bootstrap address that works and an advertised one that does not, then spout, sink and tool name it, and go on later."""
    async with advertising(new_broker) as (bootstrap, behind, works):
        address = f"{HOST}:{behind}"
        async with playing(settings(bootstrap, "words", **QUICK), notes := Notes()) as run:
            texts = heard(run)
            await notes.until(lambda: any(f"broker 1 advertises the address {address}, which {UNREACHED}" in text for text in texts))
            await notes.until(lambda: any(wait.what == f"broker 1 of Kafka at {address}" for wait in run.waits))
            tool = ClusterConfig(brokers=bootstrap, request_timeout_ms=300)
            async with connected(tool) as admin:
                with pytest.raises(FatalError, match=f"broker 1 cannot be reached at {address}, the address that it advertises"):
                    await admin.group("g")
            silent = await asyncio.start_server(says_nothing, HOST, behind)
            assert f"{address} accepts connections, but does not answer" in str(await advertised_error(tool, {1: address}))
            silent.close()
            async with works():
                await notes.until(lambda: len(notes.got) == 10)
                await notes.until(lambda: not any(address in wait.what for wait in run.waits))
        assert notes.got == list(range(10))


@pytest.mark.usefixtures("soon")
async def test_a_sink_names_the_advertised_address_and_does_not_blame_tls(new_broker: NewBroker, caplog: pytest.LogCaptureFixture) -> None:
    """Given an advertised address that does not work at the start, and later again, then the sink tells it, and writes when it works."""
    async with advertising(new_broker) as (bootstrap, behind, works):
        notes, told = Notes(), f"broker 1 advertises the address {HOST}:{behind}, which {UNREACHED}"
        starting = asyncio.ensure_future(engine.run(sinking(bootstrap, "words"), Config()).__aenter__())
        await notes.until(lambda: told in caplog.text)
        await notes.until(lambda: f"'sinking' has been waiting for broker 1 of Kafka at {HOST}:{behind}" in caplog.text)
        assert "expect TLS" not in caplog.text
        async with works():
            run = await starting
            await run.inlet("in").send(("10",))
        texts = heard(run)
        sending = asyncio.ensure_future(run.inlet("in").send(("11",)))
        await notes.until(lambda: any("Kafka has acknowledged nothing for" in text and told in text for text in texts))
        async with works():
            await sending
            await run.stop()
            assert await values(bootstrap, "words") == [str(number).encode() for number in range(12)]


def moved(broker: KafkaBroker) -> None:
    """Restart a broker at another port."""
    broker.stop()
    broker.port = broker._ports["PLAINTEXT"] = free_port()
    broker.start()


@pytest.mark.usefixtures("soon")
async def test_a_broker_that_comes_back_at_another_address_is_found(own_broker: KafkaBroker) -> None:
    """Given bootstrap through a name that follows the broker, as in Kubernetes, when the broker moves, then reading and writing go on."""
    service = free_port()
    bootstrap = f"{HOST}:{service}"
    async with Proxy(service, own_broker.port) as proxy:
        for topic in ("words", "out"):
            await create_topic(bootstrap, topic, partitions=1)
        await produce(bootstrap, "words", range(5))
        config, notes = settings(bootstrap, "words", **QUICK), Notes()
        async with playing(config, notes), engine.run(sinking(bootstrap, "out"), Config()) as writing:
            await notes.until(lambda: len(notes.got) == 5)
            await writing.inlet("in").send(("first",))
            await asyncio.to_thread(moved, own_broker)
            proxy.lead_to(own_broker.port)
            await produce(bootstrap, "words", range(5, 10))
            await writing.inlet("in").send(("second",))
            await notes.until(lambda: len(set(notes.got)) == 10)
            await writing.stop()
        assert sorted(notes.got) == list(range(10))
        assert await values(bootstrap, "out") == [b"first", b"second"]


@pytest.mark.deep
@pytest.mark.guarantee("KS-15")
@pytest.mark.usefixtures("soon")
async def test_topics_of_a_new_cluster_behind_the_old_name_are_read_from_their_beginning(
    new_broker: NewBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a cluster that is deleted and made anew at other addresses, when the client bootstraps anew, then it learns the topic ids."""
    monkeypatch.setattr("engine.kafka.client.log_continuity._UNWATCHED_SECS", 3600.0)
    service, old = free_port(), await asyncio.to_thread(new_broker)
    bootstrap = f"{HOST}:{service}"
    async with Proxy(service, old.port) as proxy:
        await create_topic(bootstrap, "words", partitions=1)
        await produce(bootstrap, "words", range(10))
        config, notes = settings(bootstrap, "words", membership="assign"), Notes()
        async with playing(config, notes):
            await notes.until(lambda: len(notes.got) == 10)
            await asyncio.to_thread(old.stop)
            new = await asyncio.to_thread(new_broker)
            await create_topic(new.bootstrap, "words", partitions=1)
            await produce(new.bootstrap, "words", range(1000, 1020))
            proxy.lead_to(new.port)
            await notes.until(lambda: 1019 in notes.got)
        assert notes.got == [*range(10), *range(1000, 1020)]


async def test_one_unreachable_broker_of_several_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given brokers of which others answer, then the one that its partitions wait for is reported, with its address."""
    answers, address, reported = iter(range(10**9)), f"{HOST}:{free_port()}", list[str]()
    client = SimpleNamespace(unreached_for=lambda secs: {2: address}, advertised=dict)
    link: Any = SimpleNamespace(client=client, answered_at=lambda: next(answers))
    watching = watch_brokers(ClusterConfig(brokers=f"{HOST}:1"), link, 0.01, lambda error: reported.append(str(error)))
    task = asyncio.ensure_future(watching)
    async with asyncio.timeout(PATIENCE_SECS):
        while not reported:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])
    assert f"a broker does not answer, so its partitions wait: ConnectionError: broker 2 advertises the address {address}" in reported[0]


@pytest.mark.parametrize(("attempts", "is_long"), [(1, False), (20, True)])
def test_only_a_broker_that_is_tried_again_is_a_long_wait(attempts: int, is_long: bool) -> None:
    """Given a single attempt, as of a client that asks any broker for the coordinator, then nobody waits for the broker."""

    async def main() -> tuple[list[str], float]:
        waits = Waits("orders", Clock.of(asyncio.get_running_loop()))
        unreached: dict[int, UnreachedBroker] = {}
        with waits.current():
            one = unreached[3] = UnreachedBroker(unreached, 3, "kafka-3.internal:9092")
            for _ in range(attempts):
                one.begin_attempt()
                await asyncio.sleep(0.5)
                one.end_attempt(is_reached=False)
            found, secs = [wait.what for wait in waits.long_waits()], one.secs
            await asyncio.sleep(4)
            assert (unreached, waits.long_waits()) == ({}, ())
        waits.close()
        return found, secs

    found, secs = run_virtual(main)
    assert (found, secs) == (["broker 3 of Kafka at kafka-3.internal:9092"] if is_long else [], attempts / 2)
