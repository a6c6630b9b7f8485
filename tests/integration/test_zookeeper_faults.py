"""A ledger in ZooKeeper survives a server that hangs, restarts, or executes abandoned requests late (CP-8)."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient

from engine.errors import StateFenced, StateUnavailable
from engine.state import Ledger, StoreRetry
from engine.state.zookeeper.names import ZooKeeperAddress
from engine.state.zookeeper.provider import ZooKeeperProvider
from tests.patience import PATIENCE_SECS
from tests.servers.zookeeper_server import ZooKeeperServer

pytestmark = pytest.mark.guarantee("CP-8", "TX-9")
TOPOLOGY = "word count"
QUICK_SECS = 1.0
"""Request timeout. A busy machine still answers in this time."""


@asynccontextmanager
async def opened(hosts: str, root: str, *, timeout_secs: float = 5.0, lease_secs: float = 2.0) -> AsyncIterator[ZooKeeperProvider]:
    provider = ZooKeeperProvider(ZooKeeperAddress(hosts, root, lease_secs=lease_secs), timeout_secs=timeout_secs)
    await provider.open(TOPOLOGY)
    try:
        yield provider
    finally:
        await provider.close()


@asynccontextmanager
async def claimed(hosts: str, root: str, **options: float) -> AsyncIterator[Ledger]:
    async with opened(hosts, root, **options) as provider:
        ledger = provider.ledger("one")
        await ledger.claim()
        yield ledger


async def entries(hosts: str, root: str) -> dict[str, object]:
    """Return the entries that a later process reads."""
    async with opened(hosts, root) as provider:
        return await provider.ledger("one").read()


@pytest.fixture
def root() -> str:
    return f"/{secrets.token_hex(8)}/deep"


async def test_an_abandoned_write_that_arrives_late_has_no_effect_after_the_next_write(own_zookeeper: ZooKeeperServer, root: str) -> None:
    async with claimed(own_zookeeper.hosts, root, timeout_secs=QUICK_SECS, lease_secs=PATIENCE_SECS) as ledger:
        await ledger.write({"number": 1})
        own_zookeeper.freeze()
        with pytest.raises(StateUnavailable, match="did not answer"):
            await ledger.write({"number": 2, "late": True})
        own_zookeeper.thaw()  # now the server executes the abandoned write
        await StoreRetry(PATIENCE_SECS).call_with_retries(lambda: ledger.write({"number": 3}))
        assert (await entries(own_zookeeper.hosts, root))["number"] == 3
        await ledger.write({"number": 4, "late": None})
    assert await entries(own_zookeeper.hosts, root) == {"number": 4}


async def test_an_abandoned_write_may_be_retried(own_zookeeper: ZooKeeperServer, root: str) -> None:
    async with claimed(own_zookeeper.hosts, root, timeout_secs=QUICK_SECS, lease_secs=PATIENCE_SECS) as ledger:
        own_zookeeper.freeze()
        with pytest.raises(StateUnavailable):
            await ledger.write({"number": 1})
        own_zookeeper.thaw()
        await StoreRetry(PATIENCE_SECS).call_with_retries(lambda: ledger.write({"number": 1}))
        await ledger.write({"other": 2})
    assert await entries(own_zookeeper.hosts, root) == {"number": 1, "other": 2}


async def test_an_abandoned_claim_is_followed_by_a_higher_one(own_zookeeper: ZooKeeperServer, root: str) -> None:
    async with opened(own_zookeeper.hosts, root, timeout_secs=QUICK_SECS, lease_secs=PATIENCE_SECS) as provider:
        ledger = provider.ledger("one")
        first = await ledger.claim()
        await ledger.write({"number": 1})
        own_zookeeper.freeze()
        with pytest.raises(StateUnavailable):
            await ledger.claim()
        with pytest.raises(StateFenced, match="was not claimed"):
            await ledger.write({"number": 2})
        own_zookeeper.thaw()
        assert await StoreRetry(PATIENCE_SECS).call_with_retries(ledger.claim) > first
        await ledger.write({"number": 3})
    assert await entries(own_zookeeper.hosts, root) == {"number": 3}


async def test_pending_writes_of_a_fenced_process_have_no_effect(own_zookeeper: ZooKeeperServer, root: str) -> None:
    """A write is pending while another process claims. The thawed server executes the two in either order."""
    async with claimed(own_zookeeper.hosts, root, timeout_secs=PATIENCE_SECS, lease_secs=PATIENCE_SECS) as first:
        await first.write({"by": "first", "number": 1})
        async with opened(own_zookeeper.hosts, root, timeout_secs=PATIENCE_SECS, lease_secs=PATIENCE_SECS) as provider:
            second = provider.ledger("one")
            own_zookeeper.freeze()
            writing, claiming = asyncio.create_task(_told(first.write({"number": 2}))), asyncio.create_task(second.claim())
            await asyncio.sleep(0)
            own_zookeeper.thaw()
            await claiming
            assert await second.read() == {"by": "first", "number": 1 if isinstance(await writing, StateFenced) else 2}
            await second.write({"by": "second", "number": 3})
            with pytest.raises(StateFenced, match="has taken this topology over"):
                await first.write({"number": 4})
            assert await second.read() == {"by": "second", "number": 3}


async def test_a_recreated_ledger_refuses_its_earlier_owner(zookeeper: str, root: str) -> None:
    async with claimed(zookeeper, root) as first:
        await first.write({"number": 1})
        async with opened(zookeeper, root) as provider:
            async for _ in provider.inventory().remove(None):
                pass
        async with claimed(zookeeper, root) as second:
            await second.write({"number": 10})
            with pytest.raises(StateFenced):
                await first.write({"number": 2})
    assert await entries(zookeeper, root) == {"number": 10}


async def test_writes_continue_after_a_restart_of_the_server(own_zookeeper: ZooKeeperServer, root: str) -> None:
    patience = StoreRetry(PATIENCE_SECS)
    async with claimed(own_zookeeper.hosts, root, timeout_secs=0.5) as ledger:
        kills = asyncio.create_task(asyncio.to_thread(_kill_and_start, own_zookeeper, 3))
        number = 0
        while not kills.done():
            number += 1
            await patience.call_with_retries(lambda: ledger.write({"number": number, f"of {number % 7}": number}))  # noqa: B023 - in this turn
        await kills
        await patience.call_with_retries(lambda: ledger.write({"last": number}))
    found = await entries(own_zookeeper.hosts, root)
    expected = {f"of {each % 7}": each for each in range(1, number + 1)}
    assert found == {"number": number, "last": number, **expected}


async def test_an_expired_session_is_replaced(own_zookeeper: ZooKeeperServer, root: str) -> None:
    """The server is down for longer than the lease. The provider creates the owner's node again."""
    async with opened(own_zookeeper.hosts, root, timeout_secs=1, lease_secs=0.5) as provider:
        ledger = provider.ledger("one")
        await ledger.claim()
        session = provider._opened.link.session
        _end_session(own_zookeeper, provider)
        await StoreRetry(PATIENCE_SECS).call_with_retries(lambda: ledger.write({"number": 1}))
        assert provider._opened.link.session != session
        async with provider.inventory().look(TOPOLOGY) as stored:
            assert await stored.holder()


def _end_session(server: ZooKeeperServer, provider: ZooKeeperProvider) -> None:
    """Expire the session, like a server that hears nothing from its client."""
    known = provider._opened.link.client.client_id
    other = KazooClient(server.hosts, client_id=known)
    other.start()
    other.stop()
    other.close()


async def test_a_ledger_accepts_writes_after_cancelled_ones(zookeeper: str, root: str) -> None:
    async with claimed(zookeeper, root) as ledger:
        for number in range(20):
            writing = asyncio.create_task(ledger.write({"number": number}))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        await ledger.write({"other": 1})
        assert {**await ledger.read(), "number": 0} == {"number": 0, "other": 1}


async def _told(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except StateFenced as error:
        return error


def _kill_and_start(server: ZooKeeperServer, times: int) -> None:
    for _ in range(times):
        server.kill()
        server.start()


async def test_a_standby_runs_if_its_abandoned_attempt_has_succeeded(zookeeper: str, root: str) -> None:
    async with opened(zookeeper, root) as provider:
        topology, held_by = provider._opened, list[str]()
        assert await topology._is_first()  # the server creates the node, and its answer is lost
        async with asyncio.timeout(PATIENCE_SECS):
            await topology.wait(held_by.append)
        assert held_by == []
