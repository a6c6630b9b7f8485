"""Fixtures for tests that need ZooKeeper. One server serves the whole session. tests/conftest.py imports them.

With `ZOOKEEPER_HOSTS=host:port`, tests use this running server. Tests that end or freeze a server still start their own.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final, TypeAlias

import pytest

from tests.servers.process import HOST
from tests.servers.required import required
from tests.servers.shared import session_folder, shared_port
from tests.servers.zookeeper_server import ZooKeeperServer, why_not

HOSTS: Final = "ZOOKEEPER_HOSTS"

NewZooKeeper: TypeAlias = Callable[..., ZooKeeperServer]


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the server that all tests of the session share: "host:port". Each test uses its own path."""
    if there := os.environ.get(HOSTS):
        yield there
        return
    required(why_not())
    with shared_port(session_folder(tmp_path_factory, "zookeeper"), ZooKeeperServer) as port:
        yield f"{HOST}:{port}"


@pytest.fixture
def new_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewZooKeeper]:
    """Start servers for this test alone, with the options of `ZooKeeperServer`. They end with the test."""
    required(why_not())
    with ExitStack() as servers:
        yield lambda **options: servers.enter_context(ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), **options))


@pytest.fixture
def own_zookeeper(new_zookeeper: NewZooKeeper) -> ZooKeeperServer:
    """Start a server for this test only. The test may kill and freeze it."""
    return new_zookeeper()
