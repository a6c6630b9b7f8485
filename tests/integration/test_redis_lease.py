"""The process that runs a topology on Redis holds a lease (CP-8)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.errors import StateError
from engine.state import open_provider, provider_of
from engine.state.redis.link import RedisAddress, RedisLink
from engine.state.redis.provider import RedisProvider
from engine.state.redis.topology import RedisLease
from tests.integration.redis_states import LEDGER, TOPOLOGY, opened
from tests.patience import PATIENCE_SECS
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.guarantee("CP-8")
KEY = "{test:word%20count}:lease"
LEASE_SECS = 3.0
"""A busy machine may need a third of this time to renew the lease."""

LEFT_MS = 2500


def address_of(server: RedisServer, lease_secs: float = LEASE_SECS) -> RedisAddress:
    return replace(server.address(), lease_secs=lease_secs)


def holder(server: RedisServer) -> str:
    with server.client() as client:
        return (client.get(KEY) or b"").decode()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_SECS):
        while not condition():  # noqa: ASYNC110 - a server rings no bell
            await asyncio.sleep(0.01)


async def test_a_lease_is_renewed_and_released(server: RedisServer) -> None:
    async with opened(address_of(server)) as provider:
        assert not holder(server), "opening the provider must not take the lease"
        await provider.ledger(LEDGER).claim()
        taken = holder(server)
        assert "pid" in taken
        with server.client() as client:
            for _ in range(3):  # the lease is renewed again and again
                client.pexpire(KEY, LEFT_MS)
                await until(lambda: client.pttl(KEY) > LEFT_MS)
        assert holder(server) == taken
    assert not holder(server)


async def test_the_newest_process_keeps_the_lease(server: RedisServer) -> None:
    async with opened(address_of(server)) as first, opened(address_of(server)) as second:
        await first.ledger(LEDGER).claim()
        await second.ledger(LEDGER).claim()
        of_second = holder(server)
        keeping = first._topology.lease._keeping  # type: ignore[union-attr]
        assert keeping is not None
        await asyncio.wait_for(keeping, PATIENCE_SECS)
        await first.close()
        assert holder(server) == of_second


async def test_a_standby_keeps_waiting_during_an_outage(own_server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(address_of(own_server, 2.0)) as first:
        await first.ledger(LEDGER).claim()
        second = RedisProvider(address_of(own_server, 2.0), timeout_secs=0.5)
        waiting = asyncio.create_task(open_provider(second, TOPOLOGY, standby=True))
        await until(lambda: "Waiting until" in caplog.text)
        own_server.kill()
        own_server.start()
        assert not waiting.done()
        with own_server.client() as client:
            await until(lambda: client.get(KEY))
    await asyncio.wait_for(waiting, PATIENCE_SECS)
    await second.close()


async def test_a_standby_without_a_server_fails_at_once() -> None:
    with pytest.raises(StateError, match="cannot be reached"):
        await open_provider(provider_of("redis://127.0.0.1:1/0"), TOPOLOGY, standby=True)


async def test_a_removal_deletes_the_lease(server: RedisServer) -> None:
    async with opened(address_of(server, 10)) as provider:
        await provider.ledger(LEDGER).claim()
        async for _ in provider.inventory().remove(None):
            pass
        assert not holder(server)


async def test_one_of_two_standbys_gets_the_lease_first(server: RedisServer) -> None:
    link = RedisLink(address_of(server))
    first, second = RedisLease(link, KEY, "1"), RedisLease(link, KEY, "2")
    told: list[str] = []
    waits = [asyncio.create_task(lease.wait(told.append)) for lease in (first, second)]
    done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    begun, other = (first, second) if waits[0] in done else (second, first)
    await begun.end()
    await asyncio.gather(*pending)
    await other.end()
    await link.close()
    assert not holder(server)
