"""`python -m bench.state.values sqlite`: batches put into a map of values, as JSON: keys that are updated in a second, by keys in a batch.

One task, one map of 100,000 words, each a count; batches of words at random. The database acknowledges when all is on disk.
"""

import argparse
import asyncio
import itertools
import json
import random
import statistics
import time
from types import SimpleNamespace
from typing import Any, cast

from bench.state.stores import VALUE_STORES, store_url
from engine.config import Config
from engine.state.values import ValueKind
from engine.transactional import TransactionAttempt
from engine.transactional.values import OpenValues, values_at

SIZES = (1_000, 10_000, 50_000)
KINDS: tuple[ValueKind, ...] = ("transactional", "opaque")
WORDS = 100_000


def add(stored: int | None, count: int) -> int:
    """A word count."""
    return (stored or 0) + count


class Batches:
    """Updates one map, batch by batch."""

    def __init__(self, values: OpenValues[str, int], kind: ValueKind) -> None:
        self._values = values
        self._kind: ValueKind = kind
        self._txids = itertools.count(1)
        self._random = random.Random(7)
        self._words = [f"word{number}" for number in range(WORDS)]

    async def put(self, words: list[str]) -> float:
        """Seconds of one batch."""
        changes = dict.fromkeys(words, 3)
        txid, start = next(self._txids), time.perf_counter()
        await self._values.update(TransactionAttempt(txid, txid), changes, add, kind=self._kind)
        return time.perf_counter() - start

    async def fill(self) -> None:
        """Have all words there."""
        await self.put(self._words)

    async def median(self, keys: int, rounds: int) -> float:
        """Seconds of a batch of so many keys."""
        return statistics.median([await self.put(self._random.sample(self._words, keys)) for _ in range(rounds)])


async def measure(store: str, rounds: int) -> dict[str, float]:
    """All figures of one database."""
    reading = {}
    with store_url(store) as url:
        for kind in KINDS:
            task = SimpleNamespace(config=Config(), topology_name="bench", component_id="count", task_index=0)
            values = await values_at(url.replace("state.db", "values.db"), f"bench-{kind}").open(cast(Any, task))
            batches = Batches(values, kind)
            await batches.fill()
            for keys in SIZES:
                reading[f"{kind}_{keys}"] = keys / await batches.median(keys, rounds)
            await values.close()
    return reading


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", choices=VALUE_STORES)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    print(json.dumps(asyncio.run(measure(arguments.store, arguments.rounds))))


if __name__ == "__main__":
    main()
