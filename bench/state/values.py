"""Number of updated keys per second in a map of values, by the number of keys in a batch.

One task has one map of 100,000 words, each with a count. A batch updates words at random. The database acknowledges when the data is on
disk.
"""

import itertools
import random
import statistics
import time
from types import SimpleNamespace
from typing import Any, cast

from bench.servers import store_url
from engine.config import Config
from engine.state.values import ValueKind
from engine.transactional import TransactionAttempt
from engine.transactional.values import values_at

SIZES = (1_000, 10_000, 50_000)
KINDS: tuple[ValueKind, ...] = ("transactional", "opaque")
WORDS = [f"word{number}" for number in range(100_000)]


async def measure(store: str, rounds: int) -> dict[str, float]:
    """Return the figures of one database. The first batch puts all words."""
    reading = {}
    with store_url(store) as url:
        for kind in KINDS:
            task = SimpleNamespace(config=Config(), topology_name="bench", component_id="count", task_index=0)
            values = await values_at(url.replace("state.db", "values.db"), f"bench-{kind}").open(cast(Any, task))
            txids, draws = itertools.count(1), random.Random(7)
            await _update(values, next(txids), WORDS, kind)
            for keys in SIZES:
                secs = [await _update(values, next(txids), draws.sample(WORDS, keys), kind) for _ in range(rounds)]
                reading[f"{kind}_{keys}"] = keys / statistics.median(secs)
            await values.close()
    return reading


async def _update(values: Any, txid: int, words: list[str], kind: ValueKind) -> float:
    """Return the seconds of one batch."""
    changes = dict.fromkeys(words, 3)
    start = time.perf_counter()
    await values.update(TransactionAttempt(txid, txid), changes, _add, kind=kind)
    return time.perf_counter() - start


def _add(stored: int | None, count: int) -> int:
    return (stored or 0) + count
