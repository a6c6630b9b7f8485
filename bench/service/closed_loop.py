"""Clients that make a request, wait for its result, and make the next one. Imports the standard library only, because peers use it too."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from bench.measuring import percentile, rate_figures

ITEMS = ("tea", "coffee", "cake")
PRICES = {"tea": 3.50, "coffee": 4.20, "cake": 5.00}

Ask = Callable[[str, int], Awaitable[float]]
"""Makes one order of an item and a quantity. Returns the total of its own result."""


def price(item: str, quantity: int) -> float:
    """Return the total of an order. All measured services call this function."""
    return PRICES[item] * quantity


async def measure_clients(ask: Ask, clients: int, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return rate and percentiles of the requests that end within `measured_secs`. Refuses a result of another request."""
    times: list[float] = []
    began = time.perf_counter() + warm_secs
    until = began + measured_secs

    async def client(number: int) -> None:
        quantity = number
        while (started := time.perf_counter()) < until:
            quantity += clients
            item = ITEMS[quantity % 3]
            total = await ask(item, quantity)
            ended = time.perf_counter()
            if abs(total - price(item, quantity)) > 1e-6:
                raise SystemExit(f"an order of {quantity} {item} got the total {total}: the result of another request")
            if began <= ended < until:
                times.append(ended - started)

    await asyncio.gather(*(client(number) for number in range(clients)))
    times.sort()
    latencies = {f"p{share}_ms": percentile(times, share / 100) * 1000 for share in (50, 99)}
    return rate_figures(len(times), measured_secs, **latencies)
