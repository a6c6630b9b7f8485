"""Wrong passwords, certificates and rights end the run at once, with one clear error."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.protocol.admin import DeleteAclsRequest

from engine import ComponentError
from engine.errors import FatalError
from engine.kafka import KafkaSecurity
from engine.kafka.client.admin_client import ClusterConfig, connected
from tests.kafka.play import Notes, heard, playing, produce, settings
from tests.kafka.sink_play import fed, sink_config, write
from tests.patience import PATIENCE_SECS
from tests.servers import kafka_security
from tests.servers.certificates import Certificates
from tests.servers.kafka_admin import LITERAL, Operation, Resource, admin, allow, create_topic, fresh_name
from tests.servers.kafka_broker import KafkaBroker, why_not
from tests.servers.required import required

ANN, PASSWORD, ANY = "ann", "s3cret", 1

pytestmark = pytest.mark.guarantee("KS-2")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker with TLS, and a user Ann without rights."""
    required(why_not())
    security = kafka_security.KafkaSecurity(users={ANN: PASSWORD}, tls=True, acls=True)
    with KafkaBroker(tmp_path_factory.mktemp("guarded"), security=security) as broker:
        yield broker


def as_ann(broker: KafkaBroker, listener: str = "SASL_PLAINTEXT", **changes: Any) -> dict[str, Any]:
    security = {"protocol": listener, "mechanism": "SCRAM-SHA-256", "username": ANN, "password": PASSWORD}
    security |= {"cafile": str(broker.folder / "ca.pem")} if listener.endswith("SSL") else {}
    return {"brokers": broker.address(listener), "security": KafkaSecurity(**(security | changes))}


async def error_of(config: Any, notes: Notes | None = None, meanwhile: Callable[[], Awaitable[None]] | None = None) -> str:
    """Run until it fails, and return the error text."""
    try:
        async with playing(config, notes or Notes()) as run:
            async with asyncio.timeout(PATIENCE_SECS):
                if meanwhile is not None:
                    await meanwhile()
                await run.completed()
    except ComponentError as error:
        return str(error)
    pytest.fail("it did not fail")


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_wrong_password(guarded: KafkaBroker, listener: str, mechanism: str) -> None:
    text = await error_of(settings("", "t", **as_ann(guarded, listener, password="wrong", mechanism=mechanism)))
    assert f"Kafka refused a connection to {guarded.address(listener)}:" in text
    assert "SaslAuthenticationFailed" in text
    assert "Fix: Check username, password and mechanism of KafkaSecurity." in text
    assert "wrong" not in text


async def test_an_unknown_authority(guarded: KafkaBroker, tmp_path: Path) -> None:
    other = Certificates.made_in(tmp_path).ca
    text = await error_of(settings("", "t", **as_ann(guarded, "SASL_SSL", cafile=str(other))))
    assert "certificate verify failed" in text
    assert "Fix: Check protocol, cafile and certificates of KafkaSecurity." in text


@pytest.mark.parametrize(("speaks", "listener"), [("SSL", "PLAINTEXT"), ("SASL_SSL", "SASL_PLAINTEXT"), ("PLAINTEXT", "SSL")])
async def test_a_listener_of_another_protocol(guarded: KafkaBroker, speaks: str, listener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.kafka.client.connect._CONNECT_SECS", 1.0)
    sasl = {"mechanism": "PLAIN", "username": ANN, "password": PASSWORD} if speaks.startswith("SASL") else {}
    config = settings(guarded.address(listener), "t", security=KafkaSecurity(protocol=speaks, **sasl))
    async with playing(config, notes := Notes()) as run:
        texts = heard(run)
        await notes.until(lambda: any("may be overloaded, expect TLS" in text or "may not expect protocol" in text for text in texts))


async def test_a_missing_password_for_a_listener(guarded: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.kafka.client.connect._CONNECT_SECS", 1.0)
    async with playing(settings(guarded.address("SASL_PLAINTEXT"), "t"), notes := Notes()) as run:
        texts = heard(run)
        await notes.until(lambda: any("It may not expect protocol PLAINTEXT" in text for text in texts))


async def test_rights(guarded: KafkaBroker) -> None:
    """Given no right, then the topic's, then the group's without the topic's, then each error names the missing right."""
    topic, group = await create_topic(guarded.bootstrap, fresh_name("words"), partitions=1), fresh_name("group")
    await produce(guarded.bootstrap, topic, range(10))
    config = settings("", topic, group=group, offset_commit_period_ms=50, heartbeat_interval_ms=100, **as_ann(guarded))
    text = await error_of(config)
    assert f"Kafka refused reading topic {topic!r}" in text
    assert "Fix: Give the user READ and DESCRIBE on the topic." in text

    await allow(guarded.bootstrap, ANN, Resource.TOPIC, topic, Operation.READ, Operation.DESCRIBE)
    text = await error_of(config)
    assert f"GroupAuthorizationFailedError: {group}" in text
    assert "Fix: Give the user READ on the group." in text

    await allow(guarded.bootstrap, ANN, Resource.GROUP, group, Operation.READ)
    notes = Notes()

    async def take_away() -> None:
        await notes.until(lambda: len(notes.got) == 10)
        await forbid(guarded.bootstrap, Resource.TOPIC, topic)

    text = await error_of(config, notes, take_away)
    assert "TopicAuthorizationFailed" in text
    assert "Fix: Give the user READ and DESCRIBE on the topic" in text


async def forbid(bootstrap: str, resource: Resource, name: str) -> None:
    """Remove all rights on a topic or group."""
    async with admin(bootstrap) as client:
        await client._send_request(DeleteAclsRequest(resource, name, LITERAL, None, None, ANY, ANY))


def test_the_command_line_ends_with_status_1(guarded: KafkaBroker, tmp_path: Path) -> None:
    """Given a wrong password, then one error with its fix is shown, and no output of aiokafka."""
    text = f"""
from engine import TopologyBuilder
from engine.kafka import KafkaSecurity, KafkaSpout, KafkaSpoutConfig
security = KafkaSecurity(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="ann", password="wrong")
config = KafkaSpoutConfig(brokers="{guarded.address("SASL_PLAINTEXT")}", topics="t", group="g", security=security)
topology = TopologyBuilder("play")
topology.set_spout("kafka", lambda: KafkaSpout(config))
"""
    (tmp_path / "flow.py").write_text(text)
    ran = subprocess.run(
        [sys.executable, "-m", "engine", "run", str(tmp_path / "flow.py")], capture_output=True, text=True, timeout=60, env=dict(os.environ)
    )
    assert ran.returncode == 1
    assert "SaslAuthenticationFailed" in ran.stderr
    assert "Check username, password and mechanism" in ran.stderr
    assert " aiokafka" not in ran.stderr


KERBEROS = KafkaSecurity(protocol="SASL_PLAINTEXT", mechanism="GSSAPI")
NAMED = r"(?s)mechanism='GSSAPI' needs the package gssapi, which is not installed.*Fix: pip install gssapi. It needs"


async def test_gssapi_without_its_library_names_the_missing_package(guarded: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spouts, sinks and commands report it."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    address = guarded.address("SASL_PLAINTEXT")
    assert re.search(NAMED, await error_of(settings(address, "t", security=KERBEROS)))
    with pytest.raises(ComponentError, match=NAMED):
        await write(sink_config(address, "t", security=KERBEROS), fed(["a"]))
    with pytest.raises(FatalError, match=NAMED):
        async with connected(ClusterConfig(brokers=address, security=KERBEROS)):
            pass
