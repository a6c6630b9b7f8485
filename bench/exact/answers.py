"""Time of a request through a stateful topology with a slow stateless bolt in its way, with `answers="settled"`.

The slow bolt is async and waits for 200 ms, so barriers wait behind it. With the store "none" there is a dict instead of a state. It is an
open loop, so a late answer delays no other request.
"""

import asyncio
import time
from contextlib import nullcontext
from typing import Any

import engine
from bench.macro.latency import percentiles_ms
from bench.servers import store_url
from bench.state.word_count import NONE
from engine import BasicBolt, Config, Inlet, Reply, StatefulBasicBolt, Topology, TopologyBuilder, Tuple, bolt

SLOW_SECS = 0.2


class BookInState(StatefulBasicBolt):
    """Adds an order to the takings of its item."""

    output_fields = engine.Fields("takings")

    def execute(self, tup: Tuple) -> tuple[float]:
        takings = self.state.get(tup["item"], 0.0) + tup["total"]
        self.state.put(tup["item"], takings)
        return (takings,)


class BookInDict(BasicBolt):
    """Does the same in a dict."""

    output_fields = engine.Fields("takings")

    def prepare(self) -> None:
        self.takings: dict[str, float] = {}

    def execute(self, tup: Tuple) -> tuple[float]:
        takings = self.takings[tup["item"]] = self.takings.get(tup["item"], 0.0) + tup["total"]
        return (takings,)


@bolt("item", "total")
async def checked(tup: Tuple) -> Any:
    """Wait for an answer of something slow."""
    await asyncio.sleep(SLOW_SECS)
    return tup["item"], tup["total"]


def topology(store: str) -> Topology:
    """Return the topology: orders -> check -> book -> reply."""
    builder = TopologyBuilder("orders")
    builder.set_spout("orders", lambda: Inlet("item", "total", answers="settled"))
    builder.set_bolt("check", checked, concurrency=200).shuffle_grouping("orders")
    builder.set_bolt("book", BookInDict if store == NONE else BookInState).fields_grouping("check", "item")
    builder.set_bolt("reply", Reply).shuffle_grouping("book")
    return builder.build()


async def measure(store: str, rate: float, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return percentiles of `rate` requests a second, and their mean as the time of a unit."""
    times: list[float] = []
    with nullcontext("memory://") if store == NONE else store_url(store) as url:
        async with engine.run(topology(store), Config(state_provider=url)) as run:
            orders, calls = run.inlet("orders"), list[asyncio.Task[None]]()

            async def order(number: int) -> None:
                began = time.perf_counter()
                await orders.call((f"item {number % 100}", 1.0))
                times.append(time.perf_counter() - began)

            started = time.perf_counter()
            for number in range(round(rate * (warm_secs + measured_secs))):
                await asyncio.sleep(max(started + number / rate - time.perf_counter(), 0))
                calls.append(asyncio.create_task(order(number)))
            await asyncio.gather(*calls)
            checkpoint = run.snapshot().checkpoint
            await run.stop()
    if store != NONE and (checkpoint is None or checkpoint.committed < measured_secs / 2):
        raise SystemExit(f"this was no run with a checkpoint every second: {checkpoint}")
    measured = times[round(rate * warm_secs) :]
    figures = percentiles_ms(measured)
    return {**figures, "units": len(measured), "ns": figures["p50_ms"] * 1e6}
