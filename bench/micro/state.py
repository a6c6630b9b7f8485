"""Costs of a bolt's state per tuple. `python -m bench state state-commit` measures checkpoints."""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

from bench.micro.timing import nanoseconds
from engine.state import LayeredState, StatePlace, codec_named, provider_of

KEYS = 1000
PLACE = StatePlace("count", 0, 1, True, 128)


def state(calls: int) -> dict[str, float]:
    """Put and get a thousand counts, changed and unchanged since the last checkpoint."""

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
