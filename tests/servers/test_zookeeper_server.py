"""The ZooKeeper of the tests: it answers, keeps acknowledged writes, can be frozen, and ends sessions in time."""

import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
from kazoo.client import KazooClient

from tests.patience import PATIENCE_SECS
from tests.servers.zookeeper_fixtures import NewZooKeeper
from tests.servers.zookeeper_server import ZooKeeperServer

pytestmark = pytest.mark.deep

Connect = Callable[[str], KazooClient]

OWNER = """
import sys
from kazoo.client import KazooClient

client = KazooClient(sys.argv[1], timeout=0.2)
client.start()
client.create("/owner", ephemeral=True)
print("owns", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Make clients of a server, "host:port". They end with the test, even after the server."""
    with ExitStack() as clients:

        def connected(hosts: str) -> KazooClient:
            client = clients.enter_context(closing(KazooClient(hosts, timeout=10)))
            clients.callback(client.stop)
            client.start()
            return client

        yield connected


def test_a_written_node_is_read(zookeeper: str, connect: Connect) -> None:
    path = f"/{secrets.token_hex(8)}/a/b"
    connect(zookeeper).create(path, b"one", makepath=True)
    value, stat = connect(zookeeper).get(path)
    assert (value, stat.version) == (b"one", 0)


def test_nodes_outlive_kill_9(own_zookeeper: ZooKeeperServer, connect: Connect) -> None:
    """Write the first snapshot and the log, then a later log."""
    client = connect(own_zookeeper.hosts)
    client.create("/txid", b"0")
    for expected in (b"1", b"2"):
        client.set("/txid", expected)
        own_zookeeper.kill()
        own_zookeeper.start()
        assert client.retry(client.get, "/txid")[0] == expected


def test_a_frozen_server_answers_when_it_is_thawed(own_zookeeper: ZooKeeperServer, connect: Connect) -> None:
    client = connect(own_zookeeper.hosts)
    client.create("/txid", b"1")
    own_zookeeper.freeze()
    asked = client.get_async("/txid")
    assert not asked.wait(0.2)
    own_zookeeper.thaw()
    assert asked.get(timeout=PATIENCE_SECS)[0] == b"1"


def test_a_session_ends_soon_after_its_program(own_zookeeper: ZooKeeperServer, connect: Connect) -> None:
    """kill -9 of the client ends its session after the requested timeout, from 0.2 s on."""
    client, gone = connect(own_zookeeper.hosts), threading.Event()
    with subprocess.Popen([sys.executable, "-c", OWNER, own_zookeeper.hosts], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"owns\n"
        assert client.exists("/owner", watch=lambda event: gone.set())
        program.kill()
    assert gone.wait(PATIENCE_SECS)
    assert client.exists("/owner") is None


def test_settings_are_applied(new_zookeeper: NewZooKeeper, connect: Connect) -> None:
    client = connect(new_zookeeper(settings={"4lw.commands.whitelist": "conf"}).hosts)
    assert "tickTime=100" in client.command(b"conf")
