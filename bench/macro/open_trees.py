"""Memory of open trees. A bolt acks no tuple until all trees are open.

The growth of the process per tree includes the delivery, its place in the bolt's list, the message id (an int), and the engine's own
objects. The ledger's own bytes are measured on a ledger alone.
"""

import asyncio
import gc
import os
import time
from pathlib import Path

import engine
from bench.macro.components import FiniteSpout
from engine import Bolt, Config, TopologyBuilder, Tuple
from engine.kernel import AckLedger, EdgeIds


class Hoarder(Bolt):
    """Keeps every tuple without an ack. Sets an event after the last one."""

    def __init__(self, tuples: int, full: asyncio.Event) -> None:
        self.held: list[Tuple] = []
        self.tuples, self.full = tuples, full

    def execute(self, tup: Tuple) -> None:
        self.held.append(tup)
        if len(self.held) == self.tuples:
            self.full.set()

    def ack_all(self) -> None:
        """Ack every tuple."""
        held, self.held = self.held, []
        for tup in held:
            self.collector.ack(tup)


async def measure(trees: int) -> dict[str, float]:
    """Open the trees, read the memory, ack them."""
    full = asyncio.Event()
    spout, hoarder = FiniteSpout(("hello",), trees), Hoarder(trees, full)
    builder = TopologyBuilder("open-trees")
    builder.set_spout("spout", lambda: spout)
    builder.set_bolt("hoarder", lambda: hoarder).shuffle_grouping("spout")
    gc.collect()
    before = _resident_bytes()
    start = time.perf_counter()
    async with engine.run(builder.build(), Config(message_timeout_secs=600)) as run:
        await full.wait()
        open_secs = time.perf_counter() - start
        gc.collect()
        grown = _resident_bytes() - before
        hoarder.ack_all()
        await run.completed()
    if spout.acked != trees:
        raise SystemExit(f"{spout.acked} of {trees} trees were acked")
    return {"bytes_per_tree": grown / trees, "open_secs": open_secs, "ledger_bytes_per_tree": _ledger_bytes(trees) / trees}


def _ledger_bytes(trees: int) -> int:
    ledger, ids = AckLedger(), EdgeIds(1)
    for _ in range(trees):
        ledger.on_init(ids.draw(), ids.draw(), 1)
    return ledger.nbytes


def _resident_bytes() -> int:
    """Return the resident memory of this process. Linux only."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
