"""Rate and latency of calls of an inlet in process, without state or with state in a store."""

from contextlib import nullcontext

import engine
from bench.servers import store_url
from bench.service.closed_loop import measure_clients, price
from engine import Config, Inlet, InletHandle, KeyValueState, Reply, Topology, TopologyBuilder, Tuple, bolt, stateful_bolt

NONE = "none"


@bolt("item", "total")
def priced(tup: Tuple) -> tuple[str, float]:
    """Add the price."""
    return tup["item"], price(tup["item"], tup["quantity"])


@stateful_bolt("total", "takings")
def booked(tup: Tuple, state: KeyValueState[str, float]) -> tuple[float, float]:
    """Add an order to the takings of its item."""
    takings = state.get(tup["item"], 0.0) + tup["total"]
    state.put(tup["item"], takings)
    return tup["total"], takings


def topology(store: str) -> Topology:
    """Return the topology: orders -> price -> reply, with a store: orders -> price -> book -> reply."""
    builder = TopologyBuilder("orders")
    builder.set_spout("orders", lambda: Inlet("item", "quantity"))
    builder.set_bolt("price", priced).shuffle_grouping("orders")
    if store != NONE:
        builder.set_bolt("book", booked).fields_grouping("price", "item")
    builder.set_bolt("reply", Reply).shuffle_grouping("price" if store == NONE else "book")
    return builder.build()


async def order(orders: InletHandle, item: str, quantity: int) -> float:
    """Return the total of one order."""
    [row] = await orders.call((item, quantity))
    return float(row["total"])


async def measure(store: str, clients: int, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return the figures of many clients, and as `one_...` the latency of a single one."""
    with nullcontext("memory://") if store == NONE else store_url(store) as url:
        async with engine.run(topology(store), Config(state_provider=url)) as run:
            orders = run.inlet("orders")

            async def ask(item: str, quantity: int) -> float:
                return await order(orders, item, quantity)

            one = await measure_clients(ask, 1, warm_secs, measured_secs)
            many = await measure_clients(ask, clients, warm_secs, measured_secs)
    return {**many, "one_p50_ms": one["p50_ms"], "one_p99_ms": one["p99_ms"]}
