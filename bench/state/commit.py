"""A checkpoint of 100,000 changed keys, in turn with the fastest direct write to the store.

Keys have 16 bytes, values 100. The engine's time is from PREPARE to the end of COMMIT. For SQLite the fastest write is one pickled blob in
one transaction. For Redis it is a MULTI of 100 HSETs with 1,000 fields each. Every write is on the disk when it returns.
"""

import itertools
import pickle
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import redis.asyncio

from bench.needs import missing_need
from bench.servers import store_url
from engine.state import LayeredState, StatePlace, codec_named, provider_of

PLACE = StatePlace("count", 0, 1, True, 128)
FIELDS = 1000


async def measure(keys: int, rounds: int) -> dict[str, float]:
    """Return the times and ratios of SQLite, and of Redis if it is installed."""
    with TemporaryDirectory(prefix="stormcell-bench-") as folder, store_url("sqlite") as url:
        reading = await _figures("sqlite", url, BareSqlite(Path(folder) / "bare.db", keys).commit_once, keys, rounds)
    if missing_need(["redis"]) is None:
        with store_url("redis") as url:
            async with redis.asyncio.Redis.from_url(url) as client:
                reading |= await _figures("redis", url, BareRedis(client, keys).commit_once, keys, rounds)
    return reading


class BareSqlite:
    """Writes one blob in one transaction."""

    def __init__(self, path: Path, keys: int) -> None:
        self._values = _changes(keys)
        self._file = sqlite3.connect(path, isolation_level=None)
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            "CREATE TABLE deltas (txid INTEGER PRIMARY KEY, blob BLOB NOT NULL)",
        ):
            self._file.execute(statement)
        self._txids = itertools.count()

    async def commit_once(self) -> float:
        """Return the seconds of one commit."""
        start = time.perf_counter()
        self._file.execute("INSERT INTO deltas VALUES (?, ?)", (next(self._txids), pickle.dumps(self._values)))
        return time.perf_counter() - start


class BareRedis:
    """Writes large HSETs in one MULTI."""

    def __init__(self, client: "redis.asyncio.Redis", keys: int) -> None:
        self._client = client
        items = iter(_changes(keys).items())
        self._hashes = list(iter(lambda: dict(itertools.islice(items, FIELDS)), {}))

    async def commit_once(self) -> float:
        """Return the seconds of one commit."""
        start = time.perf_counter()
        async with self._client.pipeline(transaction=True) as pipe:
            for number, fields in enumerate(self._hashes):
                pipe.hset(f"bare:{number}", items=[part for item in fields.items() for part in item])
            pipe.set("bare:txid", 1)
            await pipe.execute()
        return time.perf_counter() - start


async def _figures(store: str, url: str, bare: Callable[[], Awaitable[float]], keys: int, rounds: int) -> dict[str, float]:
    provider = provider_of(url)
    await provider.open("bench")
    await provider.ledger("bench").claim()
    state: LayeredState[str, bytes] = LayeredState(await provider.store(PLACE.component_id, 0, PLACE.slots), codec_named("msgpack"), PLACE)
    await state.load()
    values = _changes(keys)
    try:
        pairs = [(await _checkpoint(state, values, txid), await bare()) for txid in range(rounds)]
    finally:
        await state.close(fold=False)
        await provider.close()
    own, other = statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)
    return {f"{store}_ms": own * 1000, f"{store}_bare_ms": other * 1000, f"{store}_ratio": own / other}


async def _checkpoint(state: LayeredState[str, bytes], values: dict[str, bytes], txid: int) -> float:
    """Return the seconds of one checkpoint in which all keys change."""
    for key, value in values.items():
        state.put(key, value)
    start = time.perf_counter()
    await state.prepare_commit(txid)
    await state.commit(txid)
    return time.perf_counter() - start


def _changes(keys: int) -> dict[str, bytes]:
    return {f"key {number:012}": f"{number:0100}".encode() for number in range(keys)}
