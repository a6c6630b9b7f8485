"""The Redis provider survives cut connections, late commands, server restarts and takeovers (CP-7, CP-8)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.errors import StateError, StateFenced, StateUnavailable
from engine.state import Row, StatePlace
from engine.state.redis.link import CONNECTIONS
from engine.state.redis.store import BYTES_PER_STEP
from tests.integration.redis_states import LEDGER, Run, each, loaded, named, opened, patient, rows, store_of, stored
from tests.integration.tcp_proxy import TcpProxy, Way
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.guarantee("CP-7", "CP-8")
CUTS = 25
QUICK_SECS = 0.5
"""Request timeout. A busy machine still answers in this time."""
TXIDS = 6
STEPS = 17
"""Minimum number of steps of `program`."""


async def program(run: Run) -> None:
    """Run every kind of step (claim, read, fold at the start, load, stage, ledger write, fold, drop)."""
    await run.begin()
    await run.checkpoint({key: f"value {key}" for key in range(60)})
    await run.checkpoint({**dict.fromkeys(range(0, 60, 3)), "big": "x" * (BYTES_PER_STEP + 1000)}, fold=True)
    await run.checkpoint(dict.fromkeys(range(30), run.txid))
    await run.checkpoint({1: None, "big": None, "last": [1, 2]}, fold=True)
    await run.checkpoint({"not folded": 1})


@pytest.mark.parametrize("way", ["there", "back"])
async def test_a_cut_connection_does_not_change_the_result(server: RedisServer, way: Way) -> None:
    """A cut request loses the command. A cut answer loses only the answer of an executed command."""
    async with TcpProxy(server.port) as proxy:
        address = server.address(port=proxy.port)
        async with opened(address) as provider:
            proxy.cut_after(way, 10**12)
            await program(Run(provider, patient()))
            total = proxy.passed[way]
        # Large values are most of the bytes, but most steps are small. So cut evenly over all bytes, and densely at the start.
        for cut in sorted({1 + total * number // CUTS for number in range(CUTS)} | set(range(1, min(total, 4000), 173))):
            with server.client() as client:
                client.flushall()
            async with opened(address) as provider:
                proxy.cut_after(way, cut)
                run = Run(provider, patient())
                await program(run)
            assert await stored(server.address()) == run.model, f"cut after {cut} bytes"
        assert proxy.cuts > CUTS


async def test_checkpoints_continue_after_the_server_closes_all_connections(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        run = Run(provider, patient())
        await run.begin()
        for number in range(10):
            _close_connections(server)
            await run.checkpoint({number % 4: number, "n": number}, fold=number % 3 == 0)
    assert await stored(server.address()) == run.model


async def test_many_concurrent_tasks_survive_closed_connections(server: RedisServer) -> None:
    """More tasks than connections. Late and repeated commands of one task must not affect the others."""
    tasks = 3 * CONNECTIONS
    async with opened(server.address()) as provider:
        await provider.ledger(LEDGER).claim()
        stores = [await store_of(provider, StatePlace("count", index, tasks, False, 16)) for index in range(tasks)]

        done = 0

        async def step(index: int, txid: int) -> None:
            nonlocal done
            await patient().call_with_retries(lambda: stores[index].stage(txid, 1, each(*[b"%d" % index * 50_000] * 12)))
            await patient().call_with_retries(lambda: stores[index].fold(each(rows(index, mine=f"{index} {txid}")), txid - 1))
            done += 1

        async def work(index: int) -> None:
            for txid in range(TXIDS):
                await step(index, txid)

        working = asyncio.gather(*map(work, range(tasks)))
        for closing in range(1, 6):
            while done < closing * TXIDS * tasks // 6:  # noqa: ASYNC110 - the loop is real
                await asyncio.sleep(0)
            assert not working.done()
            _close_connections(server)
        await working
        for index, store in enumerate(stores):
            [delta] = await patient().call_with_retries(store.deltas)
            assert (delta.txid, delta.blobs) == (TXIDS - 1, (b"%d" % index * 50_000,) * 12)
            assert await loaded(store) == {(index, b"mine"): f"{index} {TXIDS - 1}".encode()}


def _close_connections(server: RedisServer) -> None:
    with server.client() as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


async def test_a_cancelled_step_leaves_its_connection_usable(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        await provider.ledger(LEDGER).claim()
        store = await store_of(provider)
        for turns in range(0, 60, 3):
            staging = asyncio.create_task(store.stage(turns, 1, each(*[b"x" * BYTES_PER_STEP] * 5)))
            for _ in range(turns):
                await asyncio.sleep(0)
            staging.cancel()
            await asyncio.wait([staging])
            await store.stage(turns, 1, each(b"%d" % turns))
        assert [delta.blobs for delta in await store.deltas()] == [(b"%d" % turns,) for turns in range(0, 60, 3)]


async def test_a_step_that_arrives_after_its_repetition_is_refused(server: RedisServer) -> None:
    """An old stage, fold and ledger write reach the server after newer ones."""
    async with TcpProxy(server.port) as proxy, opened(server.address(port=proxy.port), timeout_secs=QUICK_SECS) as provider:
        ledger, store = provider.ledger(LEDGER), await store_of(provider)
        await ledger.claim()
        proxy.keeps = True
        with pytest.raises(StateUnavailable, match=rf"did not answer within {QUICK_SECS:g} s"):
            await ledger.write({"record": "old"})
        with pytest.raises(StateUnavailable):
            await store.stage(1, 1, each(b"old"))
        with pytest.raises(StateUnavailable):
            await store.fold(each(rows(0, a="old")), 0)
        with pytest.raises(StateUnavailable):
            await ledger.claim()
        proxy.keeps = False
        assert await ledger.claim() == 2
        await ledger.write({"record": "new"})
        await store.stage(1, 1, each(b"new"))
        await store.fold(each(rows(0, a="new")), 0)

        answers = await proxy.deliver()

        assert answers == [b"-LATE a newer one was done\r\n"] * 4
        assert await ledger.read() == {"record": "new"}
        assert [delta.blobs for delta in await store.deltas()] == [(b"new",)]
        assert await loaded(store) == {(0, b"a"): b"new"}
        await ledger.write({"record": "newer"})


async def test_a_late_claim_of_a_dead_process_is_refused(server: RedisServer) -> None:
    async with TcpProxy(server.port) as proxy:
        async with opened(server.address(port=proxy.port), timeout_secs=QUICK_SECS) as dead:
            ledger = dead.ledger(LEDGER)
            await ledger.claim()
            proxy.keeps = True
            with pytest.raises(StateUnavailable):
                await dead.ledger("other").claim()
            proxy.keeps = False
        async with opened(server.address()) as provider:
            ledger = provider.ledger(LEDGER)
            await ledger.claim()
            assert await proxy.deliver() == [b"-LATE a newer one was done\r\n"]
            await ledger.write({"a": 1})


async def test_writes_of_a_fenced_process_are_refused(server: RedisServer) -> None:
    """The old process pauses between two chunks of a fold, and continues after the takeover."""
    going_on, paused = asyncio.Event(), asyncio.Event()

    async def chunks() -> AsyncIterator[list[Row]]:
        yield [Row(0, b"%d" % number, b"old") for number in range(1000)]
        paused.set()
        await going_on.wait()
        yield rows(1, late="old")

    async with opened(server.address()) as old, opened(server.address()) as new:
        old_ledger, old_store = old.ledger(LEDGER), await store_of(old)
        await old_ledger.claim()
        await old_ledger.write({"record": "old"})
        await old_store.stage(1, 1, each(b"x"))
        folding = asyncio.create_task(old_store.fold(chunks(), 1))
        await paused.wait()

        new_ledger, new_store = new.ledger(LEDGER), await store_of(new)
        await new_ledger.claim()
        await new_store.fold(each(rows(1, late="new"), rows(0, **{"1": "new"})), 0)
        going_on.set()

        with pytest.raises(StateFenced, match="another process has taken this topology over"):
            await folding
        with pytest.raises(StateFenced):
            await old_store.stage(2, 2, each(b"x"))
        with pytest.raises(StateFenced):
            await old_store.drop(-1)
        with pytest.raises(StateFenced):
            await old_ledger.write({"record": "late"})
        with pytest.raises(StateFenced):
            await old_ledger.write({})
        assert await new_ledger.read() == {"record": "old"}
        assert named(await new_store.deltas()) == [(1, 1)], "the new process still reads the delta of the old one"
        found = await loaded(new_store)
        assert (found[1, b"late"], found[0, b"1"]) == (b"new", b"new")


async def test_reading_a_running_topology_does_not_fence_it(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        run = Run(provider, patient())
        await run.begin()
        await run.checkpoint({"a": 1}, fold=True)
        async with opened(server.address()) as looking:
            assert "record" in await looking.ledger(LEDGER).read()
            assert await loaded(await store_of(looking))
        await run.checkpoint({"a": 2}, fold=True)


@pytest.mark.parametrize("turns", [0, 1, 4])
@pytest.mark.parametrize("after", range(1, STEPS + 1))
async def test_a_killed_server_keeps_all_acknowledged_writes(own_server: RedisServer, after: int, turns: int) -> None:
    """The server is killed and restarted `turns` loop turns after a step begins. The run continues without help."""
    async with opened(own_server.address()) as provider:
        run = Run(provider, patient())
        link = provider._opened.link  # every exchange passes here
        exchange, count = link.run, 0

        async def counted(*args):  # type: ignore[no-untyped-def]
            nonlocal count
            count += 1
            if count == after:
                answering = asyncio.ensure_future(exchange(*args))
                for _ in range(turns):
                    await asyncio.sleep(0)
                own_server.kill()
                own_server.start()
                return await answering
            return await exchange(*args)

        link.run = counted  # type: ignore[method-assign]
        await program(run)
    assert count >= STEPS
    assert await stored(own_server.address()) == run.model


async def test_a_server_that_lost_its_data_raises(own_server: RedisServer) -> None:
    async with opened(own_server.address()) as provider:
        run = Run(provider, patient())
        await run.begin()
        await run.checkpoint({"a": 1})
        with own_server.client() as client:
            client.flushall()
        with pytest.raises(StateError, match="the data of this run is gone") as raised:
            await run.checkpoint({"a": 2})
        assert not isinstance(raised.value, StateUnavailable | StateFenced)


async def test_a_run_continues_after_its_password_is_valid_again(own_server: RedisServer) -> None:
    async with opened(own_server.address()) as provider:
        run = Run(provider, patient())
        await run.begin()
        with own_server.client() as client:
            client.config_set("requirepass", "new")
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            store = await store_of(provider)
            for _ in range(2 * CONNECTIONS):  # the first requests find closed connections
                with pytest.raises(StateUnavailable) as raised:
                    await store.stage(0, 1, each(b"x"))
            assert "it requires a password" in raised.value.message
            client.config_set("requirepass", "")
        await run.checkpoint({"a": 1})
    assert await stored(own_server.address()) == run.model


async def test_a_run_continues_after_a_frozen_server_is_thawed(own_server: RedisServer) -> None:
    async with opened(own_server.address(), timeout_secs=QUICK_SECS) as provider:
        run = Run(provider, patient())
        await run.begin()
        own_server.freeze()
        store = await store_of(provider)
        with pytest.raises(StateUnavailable, match="did not answer"):
            await store.stage(0, 1, each(b"x"))
        writing = asyncio.create_task(run.checkpoint({"a": 1}, fold=True))
        await asyncio.sleep(2 * QUICK_SECS)
        assert not writing.done()
        own_server.thaw()
        await writing
    assert await stored(own_server.address()) == {"a": 1}
