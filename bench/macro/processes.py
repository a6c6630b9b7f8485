"""Bolts in processes: a computation on two cores, the costs of a tuple, of a start, and of many children."""

import asyncio
import time
from typing import Any

import engine
from bench.macro.burst_components import NullMany
from bench.macro.process_bolts import Compute, Pass, Sleep, Texts
from engine import Config, Topology, TopologyBuilder

PENDING = 20_000
STARTS = 8


def _topology(spout: Texts, bolt: type[Any], *, tasks: int, processes: bool, has_sink: bool = False) -> Topology:
    builder = TopologyBuilder("processes", Config(max_spout_pending=PENDING))
    builder.set_spout("texts", lambda: spout)
    builder.set_bolt("bolt", bolt, parallelism=tasks, processes=processes).shuffle_grouping("texts")
    if has_sink:
        builder.set_bolt("null", NullMany).shuffle_grouping("bolt")
    return builder.build()


async def _rate(spout: Texts, topology: Topology, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return the acked tuples a second, and the CPU time of this process for each of them."""
    async with engine.run(topology):
        await asyncio.sleep(warm_secs)
        acked, began, cpu = spout.acked, time.perf_counter(), time.process_time()
        await asyncio.sleep(measured_secs)
        acked, secs, cpu = spout.acked - acked, time.perf_counter() - began, time.process_time() - cpu
    acked = max(acked, 1)
    return {"ns": secs * 1e9 / acked, "per_second": acked / secs, "cpu_us": cpu * 1e6 / acked, "core_percent": cpu * 100 / secs}


async def measure_computing(processes: int, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return the rate of a bolt that computes for 50 µs. 0 processes: in the run's own process."""
    spout = Texts()
    built = _topology(spout, Compute, tasks=max(processes, 1), processes=processes > 0)
    return await _rate(spout, built, warm_secs, measured_secs)


async def measure_round_trip(warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return the costs of a tuple of 100 bytes that goes through a child and back."""
    spout = Texts()
    return await _rate(spout, _topology(spout, Pass, tasks=1, processes=True, has_sink=True), warm_secs, measured_secs)


async def measure_many(children: int, per_second: float, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return the CPU of the run while many children take tuples at a fixed rate."""
    spout = Texts(per_second)
    return await _rate(spout, _topology(spout, Sleep, tasks=children, processes=True), warm_secs, measured_secs)


async def measure_start() -> dict[str, float]:
    """Return the time from a start of a child to its ready instance, while the fork server runs."""
    await _start_secs(1)
    one, many = await _start_secs(1), await _start_secs(1 + STARTS)
    return {"start_ms": (many - one) * 1000 / STARTS}


async def _start_secs(tasks: int) -> float:
    began = time.perf_counter()
    async with engine.run(_topology(Texts(1.0), Pass, tasks=tasks, processes=True)):
        return time.perf_counter() - began
