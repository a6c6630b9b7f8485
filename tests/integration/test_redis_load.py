"""The Redis provider with many keys. The test checks the content and prints the times (pytest -s)."""

import asyncio
import gc
import time

import pytest

from engine.state import LayeredState, codec_named
from engine.state.redis.provider import RedisProvider
from tests.integration.redis_states import PLACE, opened, store_of
from tests.servers.redis_server import RedisServer

KEYS = 100_000
VALUE = "x" * 84


class StepTimer:
    """Measures the time of a block, and the longest time for which the block stalls the event loop.

    Also measures CPU time, because wall time on a busy machine includes other programs.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    async def __aenter__(self) -> None:
        self._longest = self._longest_cpu = 0.0
        gc.collect()
        self._watch = asyncio.create_task(self._measure_turns())
        await asyncio.sleep(0)
        self._began = time.perf_counter()

    async def _measure_turns(self) -> None:
        last, last_cpu = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(0)
            now, cpu = time.perf_counter(), time.thread_time()
            self._longest, self._longest_cpu = max(self._longest, now - last), max(self._longest_cpu, cpu - last_cpu)
            last, last_cpu = now, cpu

    async def __aexit__(self, *_: object) -> None:
        took = time.perf_counter() - self._began
        self._watch.cancel()
        stall = f"longest stall {self._longest * 1000:5.1f} ms ({self._longest_cpu * 1000:4.1f} ms of CPU)"
        print(f"\n{self._name:40} {took * 1000:8.1f} ms, {stall}", end="")


async def open_state(provider: RedisProvider) -> LayeredState[str, object]:
    return LayeredState(await store_of(provider), codec_named("msgpack"), PLACE)


@pytest.mark.alone
@pytest.mark.guarantee("CP-7")
async def test_a_hundred_thousand_keys_are_staged_folded_and_loaded(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        await provider.ledger("$checkpoint").claim()
        state = await open_state(provider)
        for txid, value in enumerate((VALUE, VALUE[:-1] + "y")):
            for number in range(KEYS):
                state.put(f"key {number:012}", value)
            state.freeze(txid)
            async with StepTimer(f"stage {KEYS:,} changed keys, txid {txid}"):
                await state.write_frozen()
            await state.commit(txid)
        async with StepTimer("read two deltas"):
            deltas = await (await store_of(provider)).deltas()
        assert [delta.txid for delta in deltas] == [0, 1]
        async with StepTimer(f"fold {KEYS:,} keys"):
            await state.fold()
    async with opened(server.address()) as provider:
        fresh = await open_state(provider)
        async with StepTimer(f"load {KEYS:,} keys"):
            await fresh.load(1)
        assert sum(1 for _ in fresh.items()) == KEYS
        assert fresh.get("key 000000000007") == VALUE[:-1] + "y"
        assert await (await store_of(provider)).deltas() == []
