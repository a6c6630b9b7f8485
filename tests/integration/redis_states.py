"""Helpers of the Redis tests. They open providers, make rows, and run checkpoints beside a model."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from engine.state import LayeredState, Row, StagedDelta, StatePlace, StoreRetry, codec_named, fold_committed
from engine.state.redis.link import RedisAddress
from engine.state.redis.provider import RedisProvider
from engine.state.redis.store import RedisStore
from tests.servers.redis_server import RedisServer

TOPOLOGY = "word count"
PLACE = StatePlace("count", 0, 1, True, 16)
LEDGER = "$checkpoint"


@asynccontextmanager
async def opened(address: RedisAddress, topology: str = TOPOLOGY, timeout_secs: float = 5.0) -> AsyncIterator[RedisProvider]:
    provider = RedisProvider(address, timeout_secs=timeout_secs)
    await provider.open(topology)
    try:
        yield provider
    finally:
        await provider.close()


async def store_of(provider: RedisProvider, place: StatePlace = PLACE) -> RedisStore:
    return await provider.store(place.component_id, place.task_index, place.slots)


async def each(*items: Any) -> AsyncIterator[Any]:
    for item in items:
        yield item


async def loaded(store: RedisStore) -> dict[tuple[int, bytes], bytes | None]:
    """Return all rows. Fails if a row comes twice."""
    found: dict[tuple[int, bytes], bytes | None] = {}
    async for rows in store.load():
        for row in rows:
            assert (row.slot, row.key) not in found
            found[row.slot, row.key] = row.value
    return found


def rows(slot: int, **values: str | None) -> list[Row]:
    return [Row(slot, key.encode(), None if value is None else value.encode()) for key, value in values.items()]


def named(deltas: Iterable[StagedDelta]) -> list[tuple[int, int]]:
    return [(delta.txid, delta.round) for delta in deltas]


class Run:
    """Checkpoints of one task. `model` is the expected state after the last commit."""

    def __init__(self, provider: RedisProvider, patience: StoreRetry, model: dict[object, object] | None = None) -> None:
        self._provider = provider
        self._patience = patience
        self.model: dict[object, object] = {} if model is None else model
        self.ledger = provider.ledger(LEDGER)
        self.txid = -1

    async def begin(self) -> None:
        """Start as the engine does: claim, fold the committed deltas, load."""
        patiently = self._patience.call_with_retries
        await patiently(self.ledger.claim)
        entries = await patiently(self.ledger.read)
        self.txid, round_ = entries.get("record", (-1, 0))  # type: ignore[misc]
        codec = codec_named("msgpack")
        await patiently(lambda: fold_committed(self._provider, codec, PLACE, lambda txid, each: each == round_, self.txid))
        self.state: LayeredState[Any, Any] = LayeredState(await store_of(self._provider), codec, PLACE)
        await patiently(lambda: self.state.load(self.txid))

    async def checkpoint(self, changes: Mapping[Any, object], *, fold: bool = False) -> None:
        """Change keys and commit. None deletes a key."""
        for key, value in changes.items():
            if value is None:
                self.state.delete(key)
            else:
                self.state.put(key, value)
        txid = self.txid + 1
        self.state.freeze(txid, 1)
        await self._patience.call_with_retries(self.state.write_frozen)
        await self._patience.call_with_retries(lambda: self.ledger.write({"record": [txid, 1]}))
        await self.state.commit(txid)
        self.txid = txid
        self.model.update(changes)
        for key in [key for key, value in self.model.items() if value is None]:
            del self.model[key]
        if fold:
            await self._patience.call_with_retries(self.state.fold)


def patient(secs: float = 20.0) -> StoreRetry:
    return StoreRetry(secs)


async def stored(address: RedisAddress) -> dict[object, object]:
    """Return the state that a new process loads."""
    async with opened(address) as provider:
        run = Run(provider, patient())
        await run.begin()
        return dict(run.state.items())


def everything(server: RedisServer) -> dict[bytes, bytes]:
    """Return the whole content of the server."""
    with server.client() as client:
        return {key: client.dump(key) for key in client.scan_iter()}
