"""A process that is stopped at the worst moment, with PostgreSQL, and broken connections with every network database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from engine.backoff import Backoff
from engine.errors import StateError
from engine.state import retry
from engine.state.postgres import link as postgres_link
from engine.state.postgres.values import PostgresValueStore, postgres_store
from engine.state.values import Changes, Fence, Writer
from engine.transactional import TransactionAttempt
from engine.transactional.values import OpenValues, PostgresValues, RedisValues
from tests.integration.tcp_proxy import TcpProxy, Way
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer
from tests.transactional.values.tasks import add, attempt, context, open_values, read_values

WRITER = Writer("the map", "opaque", "words", "count", 1)


@asynccontextmanager
async def stopped_in_its_statement(url: str, fence: Fence, changes: Changes) -> AsyncIterator[Any]:
    """A task whose write has reached the server, and is not committed before this block ends."""
    store = await postgres_store(url, "words", make=True)
    await store.key_codec((), ())
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    store._link.fetch = connection.fetch  # type: ignore[method-assign]
    assert await store.write(fence, fence.attempt, changes, WRITER)
    yield connection
    await transaction.commit()
    await connection.close()
    await PostgresValueStore.close(store)


async def until_somebody_waits(url: str) -> None:
    """Wait until a statement waits for a lock."""
    connection = await asyncpg.connect(url)
    try:
        while not await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            await connection.execute("SELECT pg_sleep(0.01)")
    finally:
        await connection.close()


@pytest.mark.guarantee("TX-8")
async def test_a_commit_of_a_zombie_is_rolled_back(new_database: str) -> None:
    words = PostgresValues(new_database, "words")
    async with open_values(words) as first, open_values(words) as next_one:
        await first.update(attempt(1, 1), {"a": 1}, add, kind="opaque")
        await first.update(attempt(2, 2), {"a": 1}, add, kind="opaque")
        fence = Fence("opaque", "words", "count", attempt(2, 2))
        async with stopped_in_its_statement(new_database, fence, Changes(["a", "b"], ["100", "100"], ["1", None])):
            update = asyncio.create_task(next_one.update(attempt(2, 9), {"c": 1}, add, kind="opaque"))
            await until_somebody_waits(new_database)
            assert not update.done()
        assert await update == {"c": 1}
    assert await read_values(words) == {"a": 1, "c": 1}


@pytest.mark.guarantee("TX-8")
async def test_a_process_that_is_stopped_during_a_rollback_blocks_others_only_briefly(
    new_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_link, "_SESSION", postgres_link._SESSION.replace("'10s'", "'1s'"))
    words = PostgresValues(new_database, "words")
    async with open_values(words) as first, open_values(words) as next_one:
        await first.update(attempt(1, 1), {"a": 1}, add, kind="opaque")
        zombie = await postgres_store(new_database, "words", make=True)

        async def puts_back() -> None:
            async with zombie._link.transaction() as connection:
                await connection.execute("SELECT FROM stormcell_maps FOR UPDATE")
                assert await next_one.update(attempt(1, 5), {"a": 2}, add, kind="opaque") == {"a": 2}
                await connection.execute("UPDATE stormcell_maps SET attempt = 3")

        with pytest.raises(StateError, match=r"did nothing for too long|connection"):
            await puts_back()
        await zombie.close()
    assert await read_values(words) == {"a": 2}


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
@pytest.mark.parametrize("server", ["redis", "postgres"])
@pytest.mark.guarantee("TX-8")
async def test_broken_connections_at_any_step_do_not_change_the_values(
    server: str, kind: Any, request: pytest.FixtureRequest, redis_server: RedisServer, new_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "BACKOFF", Backoff(0.001, 5.0))
    port = redis_server.port if server == "redis" else urlsplit(new_database).port
    assert port is not None
    random, expected = Random(3), dict[str, int]()
    async with TcpProxy(port) as proxy:
        if server == "redis":
            values: Any = RedisValues(f"redis://{HOST}:{proxy.port}/0?prefix=cuts-{kind}", "words")
        else:
            values = PostgresValues(new_database.replace(f":{port}/", f":{proxy.port}/"), "words")
        async with open_values(values) as task:
            number = 0
            for txid in range(1, 31):
                for _ in range(random.choice([1, 1, 2])):
                    batch = {f"key {key}": 1 for key in random.sample(range(40), random.randint(0, 40))}
                    batch = batch if kind == "opaque" else {f"key {key}": 1 for key in range(txid)}
                    number += 1
                    ways: list[Way] = ["there", "back"]
                    proxy.cut_after(random.choice(ways), random.randint(1, 700))
                    await task.update(TransactionAttempt(txid, number), batch, add, kind=kind)
                expected = {key: expected.get(key, 0) + batch.get(key, 0) for key in {**expected, **batch}}
            proxy.cut_after("there", 10**9)
            assert await read_values(values) == expected
        assert proxy.cuts > 5


@pytest.mark.guarantee("TX-8")
async def test_of_two_concurrent_processes_the_later_attempt_wins(new_database: str) -> None:
    words = PostgresValues(new_database, "words")
    stores = [await postgres_store(new_database, "words", make=True) for _ in range(2)]
    older, newer = (OpenValues[str, int](store, context(), "the map") for store in stores)
    await newer.update(attempt(1, 2**32), {}, add, kind="opaque")
    expected: dict[str, int] = {}
    random = Random(5)
    for txid in range(2, 32):
        batches = [{f"key {key}": random.randint(1, 9) for key in random.sample(range(20), 10)} for _ in range(2)]
        numbers = (txid * 100 + 2**32, txid * 100 + 2**32 + 1)
        update = asyncio.create_task(older.update(attempt(txid, numbers[0]), batches[0], add, kind="opaque"))
        for _ in range(random.randint(0, 60)):
            await asyncio.sleep(0)
        await newer.update(attempt(txid, numbers[1]), batches[1], add, kind="opaque")
        await asyncio.gather(update, return_exceptions=True)
        for key, amount in batches[1].items():
            expected[key] = expected.get(key, 0) + amount
    for store in stores:
        await store.close()
    assert await read_values(words) == expected


@pytest.mark.guarantee("TX-8")
async def test_a_key_that_only_an_undone_attempt_wrote_leaves_no_row(new_database: str) -> None:
    """The reader hides a row without a value, but other programs would see it."""
    async with open_values(PostgresValues(new_database, "words")) as words:
        await words.update(attempt(1, 1), {"a": 1, "b": 1}, add, kind="opaque")
        await words.update(attempt(1, 2), {"a": 5}, add, kind="opaque")
    connection = await asyncpg.connect(new_database)
    rows = await connection.fetch("SELECT key FROM words")
    await connection.close()
    assert [row["key"] for row in rows] == ["a"]
