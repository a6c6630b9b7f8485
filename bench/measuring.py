"""Parts that works and peers share (event loop, rates, percentiles). Imports the standard library only."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence

STARTED = "STORMCELL_BENCH_STARTED"
"""Environment variable with the start of a measured run, in seconds of the monotonic clock that all processes share."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop of uvloop, or of asyncio if uvloop is not installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def started_at() -> float:
    """Return the time at which this process was started, by `time.monotonic`."""
    return float(os.environ.get(STARTED) or time.monotonic())


def rate_figures(units: float, secs: float, **more: float) -> dict[str, float]:
    """Return the figures of a run that handled `units` units in `secs` seconds.

    >>> rate_figures(1000, 0.5)
    {'units': 1000, 'ns': 500000.0, 'per_second': 2000}
    """
    if units <= 0:
        raise SystemExit(f"nothing was processed in {secs:g} s")
    return {"units": units, "ns": round(secs * 1e9 / units, 1), "per_second": round(units / secs), **more}


async def count_for(secs: float, done: Callable[[], int]) -> tuple[int, float]:
    """Return the number of units that are done in the next `secs` seconds, and the exact seconds."""
    before, start = done(), time.perf_counter()
    await asyncio.sleep(secs)
    return done() - before, time.perf_counter() - start


def percentile(sorted_values: Sequence[float], share: float) -> float:
    """Return the value that this share of all values does not exceed.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5)
    3.0
    """
    return sorted_values[min(int(share * len(sorted_values)), len(sorted_values) - 1)]
