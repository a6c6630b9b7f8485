"""The same exact count in three designs: single tuples, single batches, and batches in a pipeline.

    python examples/transactional_designs.py [WORDS]

A dictionary service answers for all words of a batch in 5 ms. SQLite keeps the count. Every design counts every word once, even after a
crash. The designs differ in the waiting time. docs/TRANSACTIONS.md explains them.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

import engine
from engine import BatchBolt, Config, Topology, TransactionalTopologyBuilder, Tuple
from engine.transactional import MemoryTransactionalSpout
from engine.transactional.values import ReduceInto, SqliteValues, ValueMap

LOOK_UP_SECS = 0.005
DESIGNS = (("1: one tuple at a time", 1, 1), ("2: one batch at a time", 500, 1), ("3: batches in a pipeline", 500, 8))
"""For each design: name, tuples in a batch, batches at once."""


class LookUp(BatchBolt):
    """Asks a service about all words of a batch, and counts the words that the service knows."""

    output_fields = "count"

    def prepare(self) -> None:
        self.words: list[str] = []

    def execute(self, tup: Tuple) -> None:
        self.words.append(tup["word"])

    async def finish_batch(self) -> None:
        await asyncio.sleep(LOOK_UP_SECS)  # the service
        self.collector.emit((len(self.words),))


def design(words: list[tuple[str]], values: ValueMap, batch: int, at_once: int) -> Topology:
    spout = MemoryTransactionalSpout(words, "word", take=batch)
    builder = TransactionalTopologyBuilder("designs", "words", spout, max_spout_pending=at_once)
    builder.set_bolt("look-up", LookUp).shuffle_grouping("words")
    builder.set_committer("count", ReduceInto(values, value="count")).global_grouping("look-up")
    return builder.build()


async def measure(folder: Path, words: list[tuple[str]], batch: int, at_once: int) -> tuple[float, Any]:
    """Return the words per second, and the count."""
    values = SqliteValues(folder / f"{batch}-{at_once}.db", "counts")
    config = Config(state_provider=f"sqlite:///{folder / f'{batch}-{at_once}-state.db'}")
    now = asyncio.get_running_loop().time
    async with engine.run(design(words, values, batch, at_once), config) as run:
        began = now()
        await run.completed()
        secs = now() - began
    async with values.reader() as stored:
        return len(words) / secs, await stored.get("all")


async def main(words: int) -> int:
    rates, exact = [], True
    with tempfile.TemporaryDirectory() as folder:
        for name, batch, at_once in DESIGNS:
            some = words if batch > 1 else max(1, words // 200)  # one word at a time takes 5 ms for each
            rate, counted = await measure(Path(folder), [("word",)] * some, batch, at_once)
            rates.append(rate)
            exact = exact and counted == some
            print(f"design {name:<26} {rate:>10,.0f} words/s   {counted:,} of {some:,} words counted")
    print(f"Batches are {rates[1] / rates[0]:,.0f} × faster than single tuples, the pipeline another {rates[2] / rates[1]:.1f} ×.")
    print("Every word is counted once." if exact else "A count is wrong.")
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)))
