"""`python -m bench.flow.point WORK --pending auto --burst 256`: rate, and emit to ack, of one topology with these settings, as JSON.

The spout has always more; every 64th tree's time from emit to ack is taken in the measured time alone.
"""

import argparse
import asyncio
import json
import time
from array import array
from typing import Literal

import engine
from bench.compare.work import SENTENCE
from bench.loops import new_event_loop
from bench.macro.components import ConstSpout, Count, Split
from bench.macro.latency import percentile
from engine import Bolt, Config, Topology, TopologyBuilder, Tuple

Pending = int | Literal["auto"] | None
SAMPLE = 64
POOL_TASKS, POOL_SECS = 12, 0.005


class SampledSpout(ConstSpout):
    """Emits the same values for ever; takes the time of some trees."""

    def __init__(self, values: tuple[object, ...]) -> None:
        super().__init__(values)
        self.secs = array("d")

    def next_tuple(self) -> None:
        self.emitted += 1
        self.collector.emit(self.values, self.emitted if self.emitted % SAMPLE else time.perf_counter())

    def ack(self, message_id: object) -> None:
        self.settled += 1
        if type(message_id) is float:
            self.secs.append(time.perf_counter() - message_id)


class Waits(Bolt):
    """A call of a service that takes 5 ms, one at a time."""

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(POOL_SECS)
        self.collector.ack(tup)


def topology(work: str, spout: SampledSpout) -> Topology:
    """Return the word count of `macro`, or 12 tasks that wait."""
    builder = TopologyBuilder(work)
    builder.set_spout("spout", lambda: spout)
    if work == "word-count":
        builder.set_bolt("split", Split, parallelism=2).shuffle_grouping("spout")
        builder.set_bolt("count", Count, parallelism=4).fields_grouping("split", "word")
    elif work == "async-pool":
        builder.set_bolt("wait", Waits, parallelism=POOL_TASKS).shuffle_grouping("spout")
    else:
        raise SystemExit(f"unknown work: {work}")
    return builder.build()


async def measure(work: str, config: Config, warm_secs: float, secs: float) -> dict[str, float]:
    """Run it warm, then for the measured time."""
    spout = SampledSpout((SENTENCE,))
    async with engine.run(topology(work, spout), config) as run:
        await asyncio.sleep(warm_secs)
        del spout.secs[:]
        before, start = spout.settled, time.perf_counter()
        await asyncio.sleep(secs)
        rate = (spout.settled - before) / (time.perf_counter() - start)
        taken = sorted(spout.secs)
        bound = run.snapshot().components["spout"].max_pending
        await run.stop()
    if not taken:
        raise SystemExit(f"{work}: fewer than {SAMPLE} trees were acked in {secs:g} s")
    times = {f"p{share}_ms": percentile(taken, share / 100) * 1000 for share in (50, 99)}
    return {"per_second": rate, **times, **({} if bound is None else {"window": bound})}


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work")
    parser.add_argument("--pending", type=_pending, default=None)
    parser.add_argument("--burst", type=int, default=Config().burst)
    parser.add_argument("--warm-secs", type=float, default=3.0)
    parser.add_argument("--secs", type=float, default=3.0)
    arguments = parser.parse_args()
    config = Config(max_spout_pending=arguments.pending, burst=arguments.burst)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        reading = runner.run(measure(arguments.work, config, arguments.warm_secs, arguments.secs))
    print(json.dumps(reading))


def _pending(text: str) -> Pending:
    if text == "auto":
        return "auto"
    return None if text == "none" else int(text)


if __name__ == "__main__":
    main()
