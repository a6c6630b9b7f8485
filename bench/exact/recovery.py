"""Time to the first row after a kill -9 of the process, and after the death of a task with full mailboxes. The state is in SQLite.

A source that can rewind fills the state. When all keys are committed, the process is killed. The second process starts there. Its clock
begins after the imports, before the run is created. Then the source runs at full rate, the task of the state is killed, and the clock runs
from there to the first row of the next instance.
"""

import asyncio
import os
import signal
import time
from tempfile import TemporaryDirectory
from typing import Any

import engine
from bench.process import RunFailed, call_in_process
from engine import Config, Fields, Spout, StatefulBasicBolt, TopologyBuilder, Tuple

KEYS_PER_BLOCK = 1000
LATER_ROWS = 1000
"""Later rows of one poll."""
LATER_STEPS = 500
"""Additions for each later row, so that the bolt is slower than the source."""
MAX_SPOUT_PENDING = 50_000
"""More than a mailbox holds."""


class Blocks(Spout):
    """Emits the numbers of blocks of keys. The number is the position. `dies_at`: the process dies when this position is committed."""

    output_fields = Fields("block")

    def __init__(self, blocks: int, dies_at: int | None) -> None:
        self.blocks, self.dies_at, self.next = blocks, dies_at, 0

    def next_tuple(self) -> None:
        if self.dies_at is not None and self.next == self.dies_at:
            return
        rows = 1 if self.next < self.blocks else LATER_ROWS
        self.next += rows
        self.collector.emit_many([(number,) for number in range(self.next - rows + 1, self.next + 1)])

    def seek(self, position: int | None) -> None:
        self.next = position or 0

    def position(self) -> int:
        return self.next

    def committed(self, position: object) -> None:
        if position == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)


class Keep(StatefulBasicBolt):
    """Puts the keys of a block, or of a later row one of them."""

    def __init__(self, blocks: int, begins: asyncio.Queue[float]) -> None:
        self.blocks, self.begins, self.is_new = blocks, begins, True

    def execute(self, tup: Tuple) -> None:
        if self.is_new:
            self.is_new = False
            self.begins.put_nowait(time.perf_counter())
        block: int = tup["block"]
        if block > self.blocks:
            self.state.put(sum(range(block, block + LATER_STEPS)) % (self.blocks * KEYS_PER_BLOCK), block)
            return
        for number in range((block - 1) * KEYS_PER_BLOCK, block * KEYS_PER_BLOCK):
            self.state.put(number, number)


def measure(keys: int) -> dict[str, float]:
    """Return the seconds of both, each process new."""
    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        arguments: dict[str, Any] = {"blocks": keys // KEYS_PER_BLOCK, "folder": folder}
        try:
            call_in_process("bench.exact.recovery:run_once", {**arguments, "dies": True})
        except RunFailed as error:
            if f"exit status {-signal.SIGKILL}" not in str(error):
                raise
        return dict(call_in_process("bench.exact.recovery:run_once", {**arguments, "dies": False}))


async def run_once(blocks: int, folder: str, dies: bool) -> dict[str, float]:
    """Fill the state and die, or start on it, and kill the task of the state."""
    begins = asyncio.Queue[float]()
    builder = TopologyBuilder("recovery")
    builder.set_spout("blocks", lambda: Blocks(blocks, blocks if dies else None))
    builder.set_bolt("keep", lambda: Keep(blocks, begins)).shuffle_grouping("blocks")
    began = time.perf_counter()
    config = Config(state_provider=f"sqlite:///{folder}/state.db", max_spout_pending=MAX_SPOUT_PENDING)
    async with engine.run(builder.build(), config) as run:
        if dies:
            await asyncio.sleep(600)
        start_secs = await begins.get() - began
        await asyncio.sleep(3.0)
        [task] = run.snapshot().components["keep"].tasks
        began = time.perf_counter()
        run.kill_task(task.task_id)
        death_secs = await begins.get() - began
        await run.stop()
    return {"start_secs": start_secs, "death_secs": death_secs, "waiting": task.waiting}
