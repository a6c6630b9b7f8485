"""The Redis provider stores rows, deltas and ledgers on a real server (CP-7, CP-8)."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.crc import key_slot

from engine.errors import StateFenced, StateUnavailable
from engine.state import Row, StagedDelta, StatePlace, provider_of
from engine.state.redis.provider import RedisProvider
from engine.state.redis.store import BYTES_PER_STEP, ROWS_PER_STEP
from tests.integration.redis_states import PLACE, TOPOLOGY, Run, each, loaded, named, opened, patient, rows, store_of, stored
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.guarantee("CP-8")


async def test_a_staged_delta_is_read_back(server: RedisServer) -> None:
    big = bytes(range(256)) * (BYTES_PER_STEP // 100)  # several pieces
    blobs = (b"one", b"", big, b"end")
    async with opened(server.address()) as provider:
        store = await store_of(provider)
        await store.stage(3, 7, each(*blobs))
    async with opened(server.address()) as provider:
        assert await (await store_of(provider)).deltas() == [StagedDelta(3, 7, blobs)]


async def test_staging_again_replaces_the_delta(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        store = await store_of(provider)
        await store.stage(0, 1, each(b"a", b"b", b"c"))
        await store.stage(0, 2, each(b"other round"))
        await store.stage(0, 1, each(b"z"))
        assert await store.deltas() == [StagedDelta(0, 1, (b"z",)), StagedDelta(0, 2, (b"other round",))]


async def test_deltas_are_ordered_by_txid_and_round(server: RedisServer) -> None:
    names = [(10, 1), (9, 12), (2, 3), (9, 2)]
    async with opened(server.address()) as provider:
        store = await store_of(provider)
        for txid, round_ in names:
            await store.stage(txid, round_, each(b"x"))
        assert named(await store.deltas()) == sorted(names)


async def test_an_incomplete_stage_is_no_delta(server: RedisServer) -> None:
    async def breaks() -> AsyncIterator[bytes]:
        yield b"x" * BYTES_PER_STEP
        yield b"y" * BYTES_PER_STEP
        raise RuntimeError("the source of the blobs broke")

    async with opened(server.address()) as provider:
        store = await store_of(provider)
        with pytest.raises(RuntimeError):
            await store.stage(5, 1, breaks())
        assert await store.deltas() == []
        await store.stage(6, 2, each(b"x"))
        await store.fold(each(), 6)
    with server.client() as client:
        assert not client.keys("*:delta:*"), "the next fold deletes the incomplete delta"
        [(name, folded)] = client.hgetall("{test:word%20count}:deltas:count:0").items()
    assert (name, folded.partition(b":")[0]) == (b"folded", b"6")


async def test_fold_writes_rows_and_drops_the_deltas_up_to_the_txid(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        store = await store_of(provider)
        for txid in range(4):
            await store.stage(txid, 1, each(b"x"))
        await store.fold(each(rows(0, a="1", b="2"), rows(15, c="3")), 2)
        assert named(await store.deltas()) == [(3, 1)]
        assert await loaded(store) == {(0, b"a"): b"1", (0, b"b"): b"2", (15, b"c"): b"3"}


async def test_a_fold_keeps_the_last_row_of_a_key(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        store = await store_of(provider)
        await store.fold(each(rows(0, a="1", b="1", c="1")), 0)
        await store.fold(each(rows(0, a=None, b="2"), rows(0, a="3", b=None), rows(0, c=None)), 1)
        assert await loaded(store) == {(0, b"a"): b"3"}


async def test_drop_removes_newer_deltas(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        store = await store_of(provider)
        for txid in range(4):
            await store.stage(txid, 1, each(b"x"))
        await store.drop(1)
        assert named(await store.deltas()) == [(0, 1), (1, 1)]


async def test_a_delta_that_is_dropped_during_a_read_is_left_out(server: RedisServer) -> None:
    """The server may execute the abandoned last step of a fold between two reads of one load."""
    async with opened(server.address()) as provider:
        store = await store_of(provider)
        await store.stage(1, 1, each(b"x"))
        await store.stage(2, 2, each(b"y"))
        link: Any = store._topology.link
        command, run, late = link.command, link.run, list[Any]()

        async def given_up(*what: Any) -> None:
            late.append(what)
            raise StateUnavailable("no answer")

        async def command_after_the_late_one(*what: Any) -> Any:
            if what[0] == "LRANGE" and late:
                await run(*late.pop())
            return await command(*what)

        link.run, link.command = given_up, command_after_the_late_one
        with pytest.raises(StateUnavailable):
            await store.fold(each(), 1)
        assert named(await store.deltas()) == [(2, 2)]


async def test_rows_belong_to_slots_and_deltas_to_tasks(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        first, second = [await store_of(provider, StatePlace("count", index, 2, True, 16)) for index in (0, 1)]
        await first.fold(each(rows(0, a="1"), rows(7, b="2")), 0)
        await second.fold(each(rows(8, c="3")), 0)
        await first.stage(1, 1, each(b"x"))
        assert await second.deltas() == []
        assert (await loaded(second)) == {(8, b"c"): b"3"}
        assert len(await loaded(await store_of(provider))) == 3, "a single task reads all rows"


async def test_each_of_many_and_large_rows_is_loaded_once(server: RedisServer) -> None:
    many = [Row(number % 16, b"%d" % number, b"v") for number in range(20_000)]
    large = [Row(3, b"large %d" % number, bytes([number]) * 100_000) for number in range(30)]
    async with opened(server.address()) as provider:
        store = await store_of(provider)
        await store.fold(each(many, large), 0)
        assert await loaded(store) == {(row.slot, row.key): row.value for row in many + large}
        async for chunk in store.load():
            assert len(chunk) <= 2 * ROWS_PER_STEP


async def test_names_do_not_collide(server: RedisServer) -> None:
    names = ["a", "a:b", "a}", "{a", "a}:rows", "a%3Ab", "ä ", "a:b:0"]
    for prefix in ("p", "p:a", "p}"):
        for topology in names:
            async with opened(server.address(prefix=prefix), topology) as provider:
                for component in names:
                    store = await provider.store(component, 0, range(1))
                    assert await loaded(store) == {}
                    assert await store.deltas() == []
                    await store.fold(each(rows(0, who=f"{prefix}/{topology}/{component}")), 0)
                    await store.stage(1, 1, each(b"x"))
                ledger = provider.ledger("l")
                await ledger.claim()
                assert await ledger.read() == {}
                await ledger.write({"who": topology})


async def test_all_keys_of_a_topology_are_in_one_slot_of_a_cluster(server: RedisServer) -> None:
    async with opened(server.address(), "a}b:c") as provider:
        run = Run(provider, patient())
        await run.begin()
        await run.checkpoint({"x": 1, "y": 2}, fold=True)
        await run.checkpoint({"x": 2})
    with server.client() as client:
        keys = client.keys("*")
        assert len(keys) > 5
        assert len({key_slot(key) for key in keys}) == 1


async def test_a_ledger_keeps_its_entries(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        ledger = provider.ledger("l")
        assert await ledger.claim() == 1
        await ledger.write({"record": ["committed", 3], "layout:ä": [True, 2, 128], "gone": 1})
        await ledger.write({"gone": None, "text": "x"})
        await ledger.write({})
        assert provider.ledger("l") is ledger
        assert await provider.ledger("other").read() == {}
    async with opened(server.address()) as provider:
        ledger = provider.ledger("l")
        assert await ledger.read() == {"record": ["committed", 3], "layout:ä": [True, 2, 128], "text": "x"}
        assert await ledger.claim() == 2


async def test_a_ledger_that_was_not_claimed_cannot_be_written(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        with pytest.raises(StateFenced, match="not claimed"):
            await provider.ledger("l").write({"a": 1})


async def test_two_ledgers_of_a_process_do_not_fence_each_other(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        first, second = provider.ledger("first"), provider.ledger("second")
        assert await first.claim() == 1
        assert await second.claim() == 1
        await first.write({"a": 1})
        await second.write({"a": 2})
        assert (await first.read(), await second.read()) == ({"a": 1}, {"a": 2})


async def test_state_continues_after_a_restart(server: RedisServer) -> None:
    model: dict[object, object] = {}
    for start in range(5):
        async with opened(server.address()) as provider:
            run = Run(provider, patient(), model)
            await run.begin()
            assert dict(run.state.items()) == model
            for number in range(4):
                changes = {f"k{(start * 7 + number * step) % 30}": [start, number, step] for step in range(6)}
                await run.checkpoint({**changes, f"k{start + number}": None}, fold=number == 2)
    assert await stored(server.address()) == model


async def test_the_url_selects_the_server_and_the_prefix(server: RedisServer) -> None:
    provider = provider_of(f"redis://127.0.0.1:{server.port}/1?prefix=team:a")
    assert isinstance(provider, RedisProvider)
    await provider.open(TOPOLOGY)
    await (await provider.store("count", 0, PLACE.slots)).fold(each(rows(0, a="1")), 0)
    await provider.close()
    with server.client(db=1) as client:
        assert b"{team:a:word%20count}:rows:count:0" in client.keys("*")
        client.flushdb()


async def test_a_server_without_persistence_logs_a_warning(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    with server.client() as client:
        client.config_set("appendonly", "no")
    try:
        with caplog.at_level(logging.WARNING, "engine.state"):
            async with opened(server.address()):
                assert "appendonly yes" in caplog.text
    finally:
        with server.client() as client:
            client.config_set("appendonly", "yes")
