"""Costs of state: of a bolt per tuple, and of a checkpoint per changed key."""

import asyncio
import itertools
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from bench.micro.timing import SERIES, nanoseconds
from engine.state import LayeredState, StatePlace, codec_named, provider_of

KEYS = 1000
MOST_CHANGED = 100_000
PLACE = StatePlace("count", 0, 1, True, 128)


def state(calls: int) -> dict[str, float]:
    """Put and get a thousand counts, changed and unchanged since the last checkpoint. Checkpoint many, per key."""

    def filled(*, changed: bool) -> Mapping[str, Any]:
        keys = [f"word {number}" for number in range(KEYS)]
        counts = asyncio.run(_committed(keys))
        for key in keys if changed else ():
            counts.put(key, 2)
        return {"put": counts.put, "get": counts.get, "keys": itertools.cycle(keys)}

    return {
        "put": nanoseconds("put(next(keys), 3)", lambda: filled(changed=True), calls=calls),
        "get": nanoseconds("get(next(keys))", lambda: filled(changed=True), calls=calls),
        "get_committed": nanoseconds("get(next(keys))", lambda: filled(changed=False), calls=calls),
        "checkpoint_memory": min(asyncio.run(_checkpoint("memory://", calls)) for _ in range(SERIES)),
        "checkpoint_sqlite": min(_checkpoint_of_a_file(calls) for _ in range(SERIES)),
    }


async def _committed(keys: list[str]) -> LayeredState[str, int]:
    counts: LayeredState[str, int] = LayeredState(
        await provider_of("memory://").store("count", 0, PLACE.slots), codec_named("msgpack"), PLACE
    )
    for key in keys:
        counts.put(key, 1)
    await counts.prepare_commit(0)
    await counts.commit(0)
    return counts


def _checkpoint_of_a_file(calls: int) -> float:
    with TemporaryDirectory() as folder:
        return asyncio.run(_checkpoint(f"sqlite:///{Path(folder)}/state.db", calls))


async def _checkpoint(url: str, calls: int) -> float:
    """Return the nanoseconds of prepare and commit, per changed key."""
    provider = provider_of(url)
    await provider.open("bench")
    counts: LayeredState[str, int] = LayeredState(await provider.store("count", 0, PLACE.slots), codec_named("msgpack"), PLACE)
    changed = min(calls, MOST_CHANGED)
    for number in range(changed):
        counts.put(f"word {number}", number)
    began = perf_counter()
    await counts.prepare_commit(0)
    await counts.commit(0)
    took = perf_counter() - began
    await provider.close()
    return took * 1e9 / changed
