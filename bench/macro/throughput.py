"""`python -m bench.macro.throughput WORK --secs 3`: units per second of a topology that runs for ever, warm, as JSON.

The rate is what the user's own components counted between two moments; the spout has no end to test for, so that its callback
is that of the bare loop.
"""

import argparse
import asyncio
import time

import engine
from bench.compare.work import print_result
from bench.loops import new_event_loop
from bench.macro.topologies import MAX_SPOUT_PENDING, Measurable, measurable


async def measure(measured: Measurable, warm_secs: float, secs: float) -> tuple[int, float]:
    """Return (units, seconds) of the time after the warm-up."""
    async with engine.run(measured.topology, measured.config) as run:
        await asyncio.sleep(warm_secs)
        before, start = measured.done(), time.perf_counter()
        await asyncio.sleep(secs)
        units, taken = measured.done() - before, time.perf_counter() - start
        await run.stop()
    return units, taken


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work")
    parser.add_argument("--warm-secs", type=float, default=1.0)
    parser.add_argument("--secs", type=float, default=2.0)
    parser.add_argument("--pending", type=int, default=MAX_SPOUT_PENDING)
    arguments = parser.parse_args()
    measured = measurable(arguments.work, arguments.pending)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        units, secs = runner.run(measure(measured, arguments.warm_secs, arguments.secs))
    if units <= 0:
        raise SystemExit(f"{arguments.work}: nothing was processed in {secs:g} s")
    print_result(units, secs)


if __name__ == "__main__":
    main()
