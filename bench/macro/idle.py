"""CPU use of an idle topology with 8 tasks."""

import asyncio
import time

import engine
from bench.macro.components import Identity, Null
from engine import Config, Fields, Spout, TopologyBuilder


class SilentSpout(Spout):
    """Never has a tuple to emit."""

    output_fields = Fields("value")

    def next_tuple(self) -> None:
        return None


async def measure(warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return the used share of one core."""
    builder = TopologyBuilder("idle")
    builder.set_spout("spout", SilentSpout, parallelism=2)
    builder.set_bolt("id", Identity, parallelism=2).shuffle_grouping("spout")
    builder.set_bolt("null", Null, parallelism=4).shuffle_grouping("id")
    async with engine.run(builder.build(), Config()) as run:
        await asyncio.sleep(warm_secs)
        before, start = time.process_time(), time.perf_counter()
        await asyncio.sleep(measured_secs)
        share = (time.process_time() - before) / (time.perf_counter() - start)
        await run.stop()
    return {"core_percent": share * 100}
