"""A process that dies of a row: `python -m tests.checkpoint.killing_rows STATE KIND` counts 300 rows. Its parent begins it again."""

import asyncio
import os
import sys
from functools import partial
from typing import Any, Final

from engine import Config, Run, StatefulBasicBolt, TopologyBuilder, Tuple
from tests.checkpoint.scenarios.kit import Numbers, PassOn

ROWS: Final = 300
KILLERS: Final = frozenset({5, 205})


def die_of(row: Any) -> None:
    """End the process without a word, as a fault in C code does."""
    if row in KILLERS:
        os._exit(9)


class Passes(PassOn):
    """Dies in the call."""

    def execute(self, tup: Tuple) -> Any:
        die_of(tup["n"])
        return super().execute(tup)


class Counts(StatefulBasicBolt):
    """Counts each row, and dies after its change."""

    def __init__(self, dies: bool) -> None:
        self.dies = dies

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["n"], self.state.get(tup["n"], 0) + 1)
        if self.dies:
            die_of(tup["n"])


async def main(state: str, kind: str) -> None:
    """Run to the end, or to the death. kind: `run`, `child` or `stateful child`, for what dies."""
    builder = TopologyBuilder("killed")
    builder.set_spout("numbers", partial(Numbers, ROWS, burst=50))
    builder.set_bolt("p", PassOn if kind == "stateful child" else Passes, processes=kind == "child").shuffle_grouping("numbers")
    count = partial(Counts, kind == "stateful child")
    builder.set_bolt("count", count, processes=kind == "stateful child").fields_grouping("p", "n")
    config = Config(state_checkpoint_interval_ms=100, state_provider=state, max_task_restarts=100, max_retries=2)
    async with Run(builder.build(), config) as run:
        await run.completed()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
