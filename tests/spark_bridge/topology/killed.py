"""A topology on Spark that is killed: `python -m tests.spark_bridge.topology.killed FOLDER`. Counts words into SQLite."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine import BasicBolt, Config, Tuple
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from engine.transactional.values import ReduceInto, SqliteValues
from spark_bridge.process import SparkConfig
from spark_bridge.topology import run

LINES = [(" ".join(f"w{(7 * line + 3 * word) % 23}" for word in range(8)),) for line in range(160)]
SPARK = SparkConfig(master="local[2]", driver_memory="512m", app_name="killed")


class Split(BasicBolt):
    output_fields = "word"

    def execute(self, tup: Tuple) -> Iterator[tuple[str]]:
        for word in tup["line"].split():
            yield (word,)


def topology(folder: Path) -> Any:
    builder = TransactionalTopologyBuilder("killed", "lines", MemoryTransactionalSpout([LINES[:80], LINES[80:]], "line", take=10), 2)
    builder.set_bolt("split", Split, 2).shuffle_grouping("lines")
    counts = ReduceInto(SqliteValues(folder / "counts.db", "words"), key="word")
    builder.set_committer("count", counts, 2).fields_grouping("split", "word")
    return builder.build()


async def main(folder: Path) -> None:
    """Run to the end. Write a line at each start, and at the end."""
    config = Config(max_spout_pending=2, state_provider=f"sqlite:///{folder / 'state.db'}")
    async with run(topology(folder), config, spark=SPARK, spool=str(folder)) as running:
        print("begun", flush=True)
        await running.completed()
    print("complete", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
