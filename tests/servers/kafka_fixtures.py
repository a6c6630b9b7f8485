"""Fixtures for tests that need Kafka. One broker serves the whole session. tests/conftest.py imports them.

With `KAFKA_BOOTSTRAP=host:port`, tests use this running broker. Tests that end or freeze a broker still start their own.
"""

import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Final, TypeAlias

import pytest

from tests.servers.kafka_broker import KafkaBroker, why_not
from tests.servers.process import HOST
from tests.servers.required import required
from tests.servers.shared import session_folder, shared_port

BOOTSTRAP: Final = "KAFKA_BOOTSTRAP"
STEADY: Final[Mapping[str, object]] = {"broker.session.timeout.ms": 9000, "broker.heartbeat.interval.ms": 2000}
"""A longer session timeout. A broker under load must not lose the session with its own controller."""

NewTopic: TypeAlias = Callable[..., Awaitable[str]]
NewBroker: TypeAlias = Callable[..., KafkaBroker]


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the broker that all tests of the session share: "host:port"."""
    if there := os.environ.get(BOOTSTRAP):
        yield there
        return
    required(why_not())
    with shared_port(session_folder(tmp_path_factory, "kafka"), lambda own: KafkaBroker(own, settings=STEADY)) as port:
        yield f"{HOST}:{port}"


@pytest.fixture
def new_topic(kafka: str, request: pytest.FixtureRequest) -> NewTopic:
    """Create new topics of the shared broker: `await new_topic(partitions=1, settings={"retention.ms": "1"})`."""
    from tests.servers.kafka_admin import create_topic, fresh_name

    begin = re.sub(r"[^\w.-]", "-", request.node.name)[:100]
    return lambda **options: create_topic(kafka, fresh_name(begin), **options)


@pytest.fixture
def new_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewBroker]:
    """Start brokers for this test alone, with the options of `KafkaBroker`. They end with the test."""
    required(why_not())
    with ExitStack() as brokers:
        yield lambda **options: brokers.enter_context(KafkaBroker(tmp_path_factory.mktemp("kafka"), **options))


@pytest.fixture
def own_broker(new_broker: NewBroker) -> KafkaBroker:
    """Start a broker for this test only. The test may kill and freeze it."""
    return new_broker()
