"""Whatever belongs to a store that is closed, or not open yet, says so (CP-8). Real servers."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import engine
from engine import Config, StatefulBasicBolt, TopologyBuilder, Tuple, spout
from engine.errors import StateError, UsageError
from engine.state import LookupStore, ResidentStore, Row, StateProvider, provider_of
from engine.transactional.values import MemoryValues, PostgresValues, RedisValues, SqliteValues, ValueMap
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.guarantee("CP-8")
Call: TypeAlias = Callable[[], Any]
STORES = ("sqlite", "redis", "zookeeper")


@pytest.fixture
def url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    match request.param:
        case "redis":
            server: RedisServer = request.getfixturevalue("server")
            return f"redis://{HOST}:{server.port}/0?prefix={secrets.token_hex(4)}"
        case "zookeeper":
            return f"zookeeper://{request.getfixturevalue('zookeeper')}/{secrets.token_hex(8)}"
    return f"sqlite:///{tmp_path}/state.db"


async def result_of(call: Call) -> object:
    """Call, and await or read what it returns."""
    found = call()
    if isinstance(found, AsyncIterator):
        return [each async for each in found]
    if isinstance(found, Iterator):
        return list(found)
    return await found if isinstance(found, Awaitable) else found


async def says_so(call: Call, text: str) -> None:
    with pytest.raises((StateError, UsageError), match=text) as found:
        await result_of(call)
    assert found.value.hint


async def blobs() -> AsyncIterator[bytes]:
    yield b"changes"


async def no_rows() -> AsyncIterator[list[Row]]:
    for rows in list[list[Row]]():
        yield rows


@pytest.mark.parametrize("url", STORES, indirect=True)
async def test_a_provider_that_was_never_opened(url: str) -> None:
    provider = provider_of(url)
    await says_so(lambda: provider.ledger("steps").read(), "not open")
    if not url.startswith("zookeeper"):
        await says_so(lambda: provider.store("count", 0, range(1)), "not open")
        await says_so(lambda: provider.inventory().remove(None), "not open")


@pytest.mark.parametrize("url", STORES, indirect=True)
async def test_the_ledgers_of_a_closed_provider(url: str) -> None:
    provider = provider_of(url)
    await provider.open("words")
    ledger = provider.ledger("steps")
    await ledger.claim()
    await provider.close()
    await says_so(ledger.read, "closed")
    await says_so(lambda: ledger.write({"step": 1}), "closed")
    await says_so(ledger.claim, "closed")
    await provider.close()


@pytest.mark.parametrize("url", STORES[:2], indirect=True)
async def test_the_stores_of_a_closed_provider(url: str) -> None:
    provider = provider_of(url)
    await provider.open("words")
    await provider.ledger("steps").claim()
    store, inventory = await provider.store("count", 0, range(1)), provider.inventory()
    await provider.close()
    await says_so(store.deltas, "closed")
    await says_so(lambda: store.stage(1, 1, blobs()), "closed")
    await says_so(lambda: store.fold(no_rows(), 1), "closed")
    await says_so(lambda: store.drop(1), "closed")
    await says_so(lambda: inventory.remove(None), "closed")
    if isinstance(store, LookupStore):
        await says_so(lambda: store.read(0, b"key"), "closed")
        await says_so(store.scan, "closed")
    if isinstance(store, ResidentStore):
        await says_so(store.load, "closed")


async def test_a_closed_file_is_not_opened_again(tmp_path: Path) -> None:
    """Its lock is released, so another process may run the topology."""
    provider = provider_of(f"sqlite:///{tmp_path}/state.db")
    await provider.open("words")
    await provider.close()
    await says_so(lambda: provider.open("words"), "closed")


@pytest.mark.parametrize("url", STORES, indirect=True)
async def test_what_a_block_of_look_has_opened(url: str) -> None:
    await _leave_something(provider_of(url))
    async with provider_of(url).inventory().look("words") as stored:
        assert await stored.entries("steps") == {"step": 1}
    await says_so(lambda: stored.entries("steps"), "closed")
    if not url.startswith("zookeeper"):
        await says_so(lambda: stored.rows("count"), "closed")
        await says_so(lambda: stored.deltas("count"), "closed")
        await says_so(lambda: stored.row_sizes("count"), "closed")


async def _leave_something(provider: StateProvider) -> None:
    await provider.open("words")
    ledger = provider.ledger("steps")
    await ledger.claim()
    await ledger.write({"step": 1})
    if not type(provider).__name__.startswith("ZooKeeper"):
        await (await provider.store("count", 0, range(1))).stage(1, 1, blobs())
    await provider.close()


@pytest.fixture
def values(tmp_path: Path, request: pytest.FixtureRequest) -> ValueMap:
    name = f"map_{secrets.token_hex(4)}"
    match request.param:
        case "redis":
            server: RedisServer = request.getfixturevalue("server")
            return RedisValues(f"redis://{HOST}:{server.port}/0", name)
        case "postgres":
            return PostgresValues(request.getfixturevalue("postgres"), name)
        case "memory":
            return MemoryValues(name)
    return SqliteValues(tmp_path / "values.db", name)


@pytest.mark.parametrize("values", ["memory", "sqlite", "redis", "postgres"], indirect=True)
async def test_a_reader_of_a_map_behind_its_block(values: ValueMap) -> None:
    await (await values.store(make=True)).close()
    async with values.reader() as reader:
        assert await reader.get("storm") is None
    await says_so(lambda: reader.get("storm"), "closed")
    await says_so(lambda: reader.get_many(["storm"]), "closed")
    await says_so(reader.items, "closed")
    await says_so(reader.txid, "closed")


@pytest.mark.parametrize("values", ["sqlite", "redis", "postgres"], indirect=True)
async def test_a_closed_store_of_a_map_does_not_connect_again(values: ValueMap) -> None:
    store = await values.store(make=True)
    await store.close()
    await says_so(store.fence, "closed")


class Keeps(StatefulBasicBolt):
    """Counts rows."""

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["n"], 1)


@pytest.mark.parametrize("url", STORES[:1], indirect=True)
async def test_the_state_of_a_bolt_behind_its_run(url: str) -> None:
    """The keys that are in memory can still be read."""

    @spout("n", positions=True)
    def numbers(after: int | None) -> Iterator[tuple[int, tuple[int]]]:
        for number in range(after or 0, 10):
            yield number + 1, (number,)

    bolts: list[Keeps] = []

    def keeps() -> Keeps:
        bolts.append(Keeps())
        return bolts[-1]

    def topology() -> Any:
        builder = TopologyBuilder("words")
        builder.set_spout("numbers", numbers)
        builder.set_bolt("count", keeps).fields_grouping("numbers", "n")
        return builder.build()

    for _ in range(2):
        async with engine.run(topology(), Config(state_provider=url)) as run:
            await run.completed()
    await says_so(lambda: bolts[-1].state.get(3), "closed, as after the end of a run")
    await says_so(lambda: bolts[-1].state.items(), "closed")
    assert bolts[0].state.get(3) == 1
