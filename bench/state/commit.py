"""`python -m bench.state.commit`: a checkpoint of 100,000 changed keys, beside what the bare store's own best way takes, as JSON.

Keys of 16 bytes, values of 100. *Committed* is from PREPARE to the end of COMMIT: staged and durable, and counting. The best way of SQLite
is one pickled blob in one transaction, that of Redis a MULTI of 100 HSETs of 1,000 fields, both with every write on disk when they return.
"""

import argparse
import asyncio
import itertools
import json
import pickle
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import redis.asyncio

from bench.state.stores import store_url, why_not
from engine.state import LayeredState, StatePlace, codec_named, provider_of

PLACE = StatePlace("count", 0, 1, True, 128)
FIELDS = 1000


def changes(keys: int) -> dict[str, bytes]:
    """So many keys of 16 bytes, with values of 100."""
    return {f"key {number:012}": f"{number:0100}".encode() for number in range(keys)}


class Committed:
    """The engine's way: the same keys change in each checkpoint."""

    def __init__(self, state: LayeredState[str, bytes], keys: int) -> None:
        self._state = state
        self._values = changes(keys)
        self._txids = itertools.count()

    async def once(self) -> float:
        """Seconds of one checkpoint."""
        for key, value in self._values.items():
            self._state.put(key, value)
        txid, start = next(self._txids), time.perf_counter()
        await self._state.prepare_commit(txid)
        await self._state.commit(txid)
        return time.perf_counter() - start


class BareSqlite:
    """One blob, one transaction."""

    def __init__(self, path: Path, keys: int) -> None:
        self._values = changes(keys)
        self._file = sqlite3.connect(path, isolation_level=None)
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            "CREATE TABLE deltas (txid INTEGER PRIMARY KEY, blob BLOB NOT NULL)",
        ):
            self._file.execute(statement)
        self._txids = itertools.count()

    async def once(self) -> float:
        """Seconds of one commit."""
        start = time.perf_counter()
        self._file.execute("INSERT INTO deltas VALUES (?, ?)", (next(self._txids), pickle.dumps(self._values)))
        return time.perf_counter() - start


class BareRedis:
    """One MULTI of large HSETs."""

    def __init__(self, client: "redis.asyncio.Redis", keys: int) -> None:
        self._client = client
        items = iter(changes(keys).items())
        self._hashes = list(iter(lambda: dict(itertools.islice(items, FIELDS)), {}))

    async def once(self) -> float:
        """Seconds of one commit."""
        start = time.perf_counter()
        async with self._client.pipeline(transaction=True) as pipe:
            for number, fields in enumerate(self._hashes):
                pipe.hset(f"bare:{number}", items=[part for item in fields.items() for part in item])
            pipe.set("bare:txid", 1)
            await pipe.execute()
        return time.perf_counter() - start


async def alternate(first: Callable[[], Awaitable[float]], second: Callable[[], Awaitable[float]], rounds: int) -> tuple[float, float]:
    """Medians of both, taken in turn."""
    pairs = [(await first(), await second()) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


async def beside_sqlite(keys: int, rounds: int) -> tuple[float, float]:
    """Seconds by the engine, and by SQLite alone."""
    with TemporaryDirectory(prefix="stormcell-bench-") as folder, store_url("sqlite") as url:
        return await _beside(url, BareSqlite(Path(folder) / "bare.db", keys).once, keys, rounds)


async def beside_redis(keys: int, rounds: int) -> tuple[float, float]:
    """Seconds by the engine, and by Redis alone."""
    with store_url("redis") as url:
        async with redis.asyncio.Redis.from_url(url) as client:
            return await _beside(url, BareRedis(client, keys).once, keys, rounds)


async def _beside(url: str, bare: Callable[[], Awaitable[float]], keys: int, rounds: int) -> tuple[float, float]:
    provider = provider_of(url)
    await provider.open("bench")
    await provider.ledger("bench").claim()
    store = await provider.store(PLACE.component_id, 0, PLACE.slots)
    state: LayeredState[str, bytes] = LayeredState(store, codec_named("msgpack"), PLACE)
    await state.load()
    try:
        return await alternate(Committed(state, keys).once, bare, rounds)
    finally:
        await state.close(fold=False)
        await provider.close()


async def measure(keys: int, rounds: int) -> dict[str, float]:
    """All figures; those of Redis only where it is."""
    own, bare = await beside_sqlite(keys, rounds)
    reading = {"sqlite_ms": own * 1000, "sqlite_bare_ms": bare * 1000, "sqlite_ratio": own / bare}
    if why_not("redis") is None:
        own, bare = await beside_redis(keys, rounds)
        reading |= {"redis_ms": own * 1000, "redis_bare_ms": bare * 1000, "redis_ratio": own / bare}
    return reading


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    print(json.dumps(asyncio.run(measure(arguments.keys, arguments.rounds))))


if __name__ == "__main__":
    main()
