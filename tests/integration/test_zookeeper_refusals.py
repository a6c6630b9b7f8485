"""The ZooKeeper provider refuses wrong URLs, wrong servers and foreign nodes (CP-8)."""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import closing

import pytest
from kazoo.client import KazooClient

from engine.errors import StateError, StateUnavailable
from engine.state import provider_of
from engine.state.zookeeper.ledger import MOST_BYTES
from engine.state.zookeeper.names import ZooKeeperAddress, address_of
from engine.state.zookeeper.provider import ZooKeeperProvider
from tests.integration.test_zookeeper_faults import claimed, entries, opened
from tests.servers.process import HOST, free_port
from tests.servers.zookeeper_server import ZooKeeperServer

pytestmark = pytest.mark.guarantee("CP-8")
SECRET = "s3cret:%/@"
TOPOLOGY = "word count"


@pytest.fixture
def root() -> str:
    return f"/{secrets.token_hex(8)}"


@pytest.fixture
def client(zookeeper: str) -> Iterator[KazooClient]:
    """Yield a plain client that acts as another program."""
    with closing(KazooClient(zookeeper)) as made:
        made.start()
        yield made
        made.stop()


async def refused(address: ZooKeeperAddress, *said: str, passing: bool = False) -> None:
    """Check that open or claim raises a StateError that has these texts and a hint, and no password. `passing`: the error is temporary."""
    with pytest.raises(StateError) as raised:
        await _claim(address)
    text = str(raised.value)
    assert isinstance(raised.value, StateUnavailable) == passing, text
    assert raised.value.hint
    assert address.hosts in text
    assert SECRET not in text
    for each in said:
        assert each in text


async def _claim(address: ZooKeeperAddress) -> None:
    provider = ZooKeeperProvider(address, timeout_secs=2)
    await provider.open(TOPOLOGY)
    try:
        await provider.ledger("one").claim()
    finally:
        await provider.close()


async def test_zookeeper_keeps_no_rows(zookeeper: str, root: str) -> None:
    async with opened(zookeeper, root) as provider:
        with pytest.raises(StateError, match="stores the state of coordinators, not of stateful bolts") as raised:
            await provider.store("count", 0, range(4))
        assert "sqlite:///" in (raised.value.hint or "")


async def test_a_closed_port_is_unavailable() -> None:
    await refused(ZooKeeperAddress(f"{HOST}:{free_port()}"), "did not answer within 2 s", "Check whether it runs", passing=True)


async def test_a_silent_port_is_unavailable() -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(mute, HOST, 0) as listening:
        address = ZooKeeperAddress(f"{HOST}:{listening.sockets[0].getsockname()[1]}", lease_secs=0.5)
        await refused(address, "did not answer", passing=True)


async def test_a_frozen_server_is_unavailable(own_zookeeper: ZooKeeperServer, root: str) -> None:
    own_zookeeper.freeze()
    await refused(ZooKeeperAddress(own_zookeeper.hosts, root, lease_secs=1), "did not answer", passing=True)


async def test_a_user_may_not_change_the_nodes_of_another(zookeeper: str, root: str) -> None:
    mine = ZooKeeperAddress(zookeeper, root, "me", SECRET)
    provider = ZooKeeperProvider(mine)
    await provider.open(TOPOLOGY)
    try:
        await provider.ledger("one").claim()
        await provider.ledger("one").write({"a": 1})
    finally:
        await provider.close()
    for other in (
        ZooKeeperAddress(zookeeper, root),
        ZooKeeperAddress(zookeeper, root, "me", "wrong"),
        ZooKeeperAddress(zookeeper, root, "you", SECRET),
    ):
        await refused(other, "its user may not do this", "zookeeper://user:password@host")
    again = provider_of(f"zookeeper://me:s3cret%3A%25%2F%40@{zookeeper}{root}")
    await again.open(TOPOLOGY)
    try:
        assert await again.ledger("one").read() == {"a": 1}
    finally:
        await again.close()


async def test_an_entry_that_is_too_big_is_refused_and_changes_nothing(zookeeper: str, root: str) -> None:
    async with claimed(zookeeper, root) as ledger:
        await ledger.write({"a": 1})
        with pytest.raises(StateError, match="ZooKeeper accepts at most 1,000,000") as raised:
            await ledger.write({"b": b"x" * MOST_BYTES})
        assert not isinstance(raised.value, StateUnavailable)
        await ledger.write({"c": b"x" * (MOST_BYTES - 100)})
    assert sorted(await entries(zookeeper, root)) == ["a", "c"]


@pytest.mark.parametrize(("stored", "said"), [(b"4", "newer version"), (b"hello", "was not written by the engine")])
async def test_a_foreign_node_is_refused(client: KazooClient, zookeeper: str, root: str, stored: bytes, said: str) -> None:
    client.create(f"{root}/word%20count", stored, makepath=True)
    await refused(ZooKeeperAddress(zookeeper, root), said)


@pytest.mark.parametrize("path", ["ledger:one", "ledger:one/1-a"])
async def test_a_foreign_ledger_is_refused(client: KazooClient, zookeeper: str, root: str, path: str) -> None:
    client.create(f"{root}/word%20count", b"1", makepath=True)
    client.create(f"{root}/word%20count/ledger:one", b"1-a" if "/" in path else b"hello")
    client.create(f"{root}/word%20count/ledger:one/1-a", b"\xc1")
    async with opened(zookeeper, root) as provider:
        with pytest.raises(StateError, match=r"cannot be read|is damaged"):
            await provider.ledger("one").read()


@pytest.mark.parametrize("name", ["a/b", "..", ".", "zookeeper", "ü %", "a:b", "\ud800", "x" * 300])
async def test_a_topology_may_have_any_name(zookeeper: str, root: str, name: str) -> None:
    provider = ZooKeeperProvider(ZooKeeperAddress(zookeeper, root))
    await provider.open(name)
    try:
        await provider.ledger(name).claim()
        await provider.ledger(name).write({name: 1})
        assert await provider.inventory().topologies() == [name]
        assert await provider.ledger(name).read() == {name: 1}
    finally:
        await provider.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("zookeeper://", "names no host"),
        ("zookeeper:///path", "names no host"),
        ("zookeeper://host:port/x", "is not a host and port"),
        ("zookeeper://one,,two/x", "names no host"),
        ("zookeeper://:pw@host/x", "a user without a password"),
        ("zookeeper://me@host/x", "a user without a password"),
        ("zookeeper://host/a//b", "is not a path of a node"),
        ("zookeeper://host/../b", "is not a path of a node"),
        ("zookeeper://host/b#x", "is not a path of a node"),
        ("zookeeper://me:pw@host/b?lease=3", "Did you mean 'lease_secs'?"),
        ("zookeeper://host/b?lease_secs=soon", "is not a number from 0.2 to 3600"),
        ("zookeeper://host/b?lease_secs=0", "The default is 10"),
    ],
)
def test_an_ambiguous_url_is_refused(url: str, said: str) -> None:
    with pytest.raises(StateError) as raised:
        provider_of(url)
    assert said in str(raised.value)
    assert raised.value.hint
    assert ":pw@" not in str(raised.value)


def test_a_url_sets_every_option() -> None:
    expected = ZooKeeperAddress("one:2181,[::1]:2182", "/team/streams", "me", "p@ss", 3.5)
    assert address_of("zookeeper://me:p%40ss@one,[::1]:2182/team/streams/?lease_secs=3.5") == expected
    assert address_of("zookeeper://host") == address_of("zookeeper://host/") == ZooKeeperAddress("host:2181", "/stormcell")
    assert "p@ss" not in repr(expected)
    assert str(expected) == "zookeeper://one:2181,[::1]:2182/team/streams"
