"""Measures the rate and the time from emit to ack of one topology with given settings.

The spout always has more tuples. The time from emit to ack is taken for every 64th tree, after the warm-up.
"""

import asyncio
import time
from array import array
from typing import Literal, cast

import engine
from bench.macro.components import ConstSpout, Count
from bench.macro.latency import percentiles_ms
from bench.macro.throughput import add_word_count
from bench.measuring import count_for
from bench.texts import SENTENCE
from engine import Bolt, Config, TopologyBuilder, Tuple

SAMPLE = 64
POOL_TASKS, POOL_SECS = 12, 0.005


class SampledSpout(ConstSpout):
    """Emits the same values forever. Measures the time of some trees."""

    def __init__(self, values: tuple[object, ...]) -> None:
        super().__init__(values)
        self.secs = array("d")

    def next_tuple(self) -> None:
        self.emitted += 1
        self.collector.emit(self.values, self.emitted if self.emitted % SAMPLE else time.perf_counter())

    def ack(self, message_id: object) -> None:
        self.acked += 1
        if type(message_id) is float:
            self.secs.append(time.perf_counter() - message_id)


class Waits(Bolt):
    """Waits 5 ms for a service, one tuple at a time."""

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(POOL_SECS)
        self.collector.ack(tup)


async def measure(work: str, pending: int | str, burst: int, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Run the work "word-count" or "async-pool". `pending` is a number, "auto" or "none"."""
    spout, builder = SampledSpout((SENTENCE,)), TopologyBuilder(work)
    builder.set_spout("spout", lambda: spout)
    if work == "word-count":
        add_word_count(builder, "spout", Count)
    else:
        builder.set_bolt("wait", Waits, parallelism=POOL_TASKS).shuffle_grouping("spout")
    bound = None if pending == "none" else cast("int | Literal['auto']", pending)
    async with engine.run(builder.build(), Config(max_spout_pending=bound, burst=burst)) as run:
        await asyncio.sleep(warm_secs)
        del spout.secs[:]
        acked, secs = await count_for(measured_secs, lambda: spout.acked)
        taken = spout.secs[:]
        window = run.snapshot().components["spout"].max_pending
        await run.stop()
    if not taken:
        raise SystemExit(f"{work}: fewer than {SAMPLE} trees were acked in {secs:g} s")
    return {"per_second": acked / secs, **percentiles_ms(taken), **({} if window is None else {"window": window})}
