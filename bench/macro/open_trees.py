"""`python -m bench.macro.open_trees --trees 1000000`: memory of open trees, as JSON.

A bolt takes every tuple and settles none until all are open. Per tree: the growth of the process (which holds, for each tree,
the delivery, its place in the bolt's list, the message id, an int, and what the engine keeps) and the ledger's own bytes.
"""

import argparse
import asyncio
import gc
import json
import os
import time
from pathlib import Path

import engine
from bench.loops import new_event_loop
from bench.macro.components import ConstSpout
from engine import Bolt, Config, SpoutExhausted, TopologyBuilder, Tuple
from engine.kernel import AckLedger, EdgeIds


class FiniteSpout(ConstSpout):
    """Emits so many tuples."""

    def __init__(self, tuples: int) -> None:
        super().__init__(("hello",))
        self.tuples = tuples

    def next_tuple(self) -> None:
        if self.emitted == self.tuples:
            raise SpoutExhausted
        super().next_tuple()


class Hoarder(Bolt):
    """Keeps every tuple unsettled until it has them all; tells when."""

    def __init__(self, tuples: int, full: asyncio.Event) -> None:
        self.held: list[Tuple] = []
        self.tuples, self.full = tuples, full

    def execute(self, tup: Tuple) -> None:
        self.held.append(tup)
        if len(self.held) == self.tuples:
            self.full.set()

    def settle(self) -> None:
        """Ack everything."""
        held, self.held = self.held, []
        for tup in held:
            self.collector.ack(tup)


def resident_bytes() -> int:
    """Return the resident memory of this process; Linux only."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def measure(trees: int) -> dict[str, float]:
    """Open the trees, look, settle them."""
    full = asyncio.Event()
    spout, hoarder = FiniteSpout(trees), Hoarder(trees, full)
    builder = TopologyBuilder("open-trees")
    builder.set_spout("spout", lambda: spout)
    builder.set_bolt("hoarder", lambda: hoarder).shuffle_grouping("spout")
    config = Config(message_timeout_secs=600)
    gc.collect()
    before = resident_bytes()
    start = time.perf_counter()
    async with engine.run(builder.build(), config) as run:
        await full.wait()
        open_secs = time.perf_counter() - start
        gc.collect()
        grown = resident_bytes() - before
        hoarder.settle()
        await run.completed()
    if spout.settled != trees:
        raise SystemExit(f"{spout.settled} of {trees} trees were acked")
    return {"bytes_per_tree": grown / trees, "open_secs": open_secs}


def ledger_bytes(trees: int) -> int:
    """Return the bytes of a ledger with so many open trees."""
    ledger, ids = AckLedger(), EdgeIds(1)
    for _ in range(trees):
        ledger.on_init(ids.draw(), ids.draw(), 1)
    return ledger.nbytes


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trees", type=int, default=1_000_000)
    trees: int = parser.parse_args().trees
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        reading = runner.run(measure(trees))
    print(json.dumps(reading | {"ledger_bytes_per_tree": ledger_bytes(trees) / trees}))


if __name__ == "__main__":
    main()
