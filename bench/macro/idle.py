"""`python -m bench.macro.idle --secs 5`: CPU that a topology of 8 tasks takes while nothing happens, as JSON."""

import argparse
import asyncio
import json
import resource
import time

import engine
from bench.loops import new_event_loop
from bench.macro.components import Identity, Null
from engine import Config, Fields, Spout, TopologyBuilder


class SilentSpout(Spout):
    """Never has anything to emit."""

    output_fields = Fields("value")

    def next_tuple(self) -> None:
        pass


def cpu_secs() -> float:
    """Return the CPU time that this process has taken, in user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def measure(warm_secs: float, secs: float) -> float:
    """Return the share of one core."""
    builder = TopologyBuilder("idle")
    builder.set_spout("spout", SilentSpout, parallelism=2)
    builder.set_bolt("id", Identity, parallelism=2).shuffle_grouping("spout")
    builder.set_bolt("null", Null, parallelism=4).shuffle_grouping("id")
    async with engine.run(builder.build(), Config()) as run:
        await asyncio.sleep(warm_secs)
        before, start = cpu_secs(), time.perf_counter()
        await asyncio.sleep(secs)
        share = (cpu_secs() - before) / (time.perf_counter() - start)
        await run.stop()
    return share


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--warm-secs", type=float, default=1.0)
    parser.add_argument("--secs", type=float, default=5.0)
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        share = runner.run(measure(arguments.warm_secs, arguments.secs))
    print(json.dumps({"core_percent": share * 100}))


if __name__ == "__main__":
    main()
