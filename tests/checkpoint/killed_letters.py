"""A process that dies beside a write of the ledger: `python -m tests.checkpoint.killed_letters STATE WHEN ENTRY`.

It counts 60 rows, of which some always fail. WHEN: `before` or `after` the first write that changes an entry of this name, or `never`.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import Final

from engine import Config, Run, StatefulBasicBolt, TopologyBuilder, Tuple
from engine.checkpoint.checkpoints import Checkpoints
from tests.checkpoint.scenarios.kit import Numbers, PassOn

ROWS: Final = 60
BAD: Final = frozenset({3, 4, 40})


class Fails(PassOn):
    """Fails the bad rows."""

    def execute(self, tup: Tuple) -> tuple[int]:
        if tup["n"] in BAD:
            raise ValueError("bad")
        return (tup["n"],)


class Counts(StatefulBasicBolt):
    """Counts each row."""

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["n"], self.state.get(tup["n"], 0) + 1)


def die_beside(when: str, entry: str) -> None:
    """Let the process end beside the first write that changes an entry of this name."""
    write = Checkpoints._write

    async def dying(self: Checkpoints, entries: Mapping[str, object]) -> None:
        is_due = any(name.startswith(entry) for name in entries)
        if is_due and when == "before":
            os._exit(9)
        await write(self, entries)
        if is_due and when == "after":
            os._exit(9)

    Checkpoints._write = dying  # type: ignore[method-assign]


async def main(state: str, when: str, entry: str) -> None:
    """Run to the end, or to the death. With `failed:`, the rows that fail have had an effect. With `owed:`, they wait over a barrier."""
    die_beside(when, entry)
    builder = TopologyBuilder("letters")
    builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.005))
    builder.set_bolt("p", Fails, 2).shuffle_grouping("numbers")
    builder.set_bolt("count", Counts, 2).fields_grouping("numbers" if entry == "failed:" else "p", "n")
    most = 6 if entry == "owed:" else 2
    async with Run(builder.build(), Config(state_checkpoint_interval_ms=100, state_provider=state, max_retries=most)) as run:
        await run.completed()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
