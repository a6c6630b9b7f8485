"""`python -m bench.flow.bad_records`: how fast the others flow where some records are bad, as JSON.

12 tasks, which raise for the bad ones: 1, 10, 30 of 100, spread over the source. Each of those is tried twice, and given up.
`waiting`: a record takes 3 ms; `at_once`: it takes nothing, so what is measured is what the bad ones cost the engine.
`…_of_ideal` is the rate to that without bad records, less the second tries; `…_per_second` counts all that are done.
"""

import argparse
import asyncio
import json
import logging
from collections.abc import Iterator
from itertools import count
from typing import Any

from engine import FlowControlBolt, FlowControlSpout, FlowProducer, FlowSettings, Topology, TopologyBuilder, run

TASKS = 12
PERCENTS = (1, 10, 30)
WAITING_SECS = 0.003
WARM_SECS = 0.5


class Endless(FlowProducer):
    """Numbers without end."""

    def records(self, after: Any) -> Iterator[tuple[int, int]]:
        return ((number, number) for number in count(1))

    def give_up(self, position: Any, record: Any, failure: Any) -> None:
        return None


class Work(FlowControlBolt):
    """Raises for so many of a hundred."""

    def __init__(self, percent: int, secs: float) -> None:
        self.limit = percent * 2**32 // 100
        self.secs = secs

    async def process(self, record: int) -> None:
        if self.secs:
            await asyncio.sleep(self.secs)
        if record * 2654435761 % 2**32 < self.limit:
            raise ValueError(record)


def topology(percent: int, secs: float) -> Topology:
    """The numbers, to the tasks."""
    builder = TopologyBuilder("bad-records")
    builder.set_spout("numbers", lambda: FlowControlSpout(Endless(), FlowSettings(max_retries=1)))
    builder.set_bolt("work", lambda: Work(percent, secs), parallelism=TASKS).direct_grouping("numbers")
    return builder.build()


async def rate(percent: int, work_secs: float, secs: float) -> float:
    """Records a second that are done, once it is warm."""
    loop = asyncio.get_running_loop()
    async with run(topology(percent, work_secs)) as running:
        await asyncio.sleep(WARM_SECS)
        before, began = running.snapshot().flow[0].done_records, loop.time()
        await asyncio.sleep(secs)
        after, ended = running.snapshot().flow[0].done_records, loop.time()
    return float((after - before) / (ended - began))


async def measure(secs: float) -> dict[str, float]:
    """All points."""
    points: dict[str, float] = {}
    for name, work_secs in (("waiting", WAITING_SECS), ("at_once", 0.0)):
        points[f"{name}_per_second"] = clean = await rate(0, work_secs, secs)
        for percent in PERCENTS:
            found = await rate(percent, work_secs, secs)
            points[f"{name}_{percent}_of_ideal"] = found / clean * (1 + percent / 100)
            points[f"{name}_{percent}_per_second"] = found
    return points


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--secs", type=float, default=4.0)
    logging.disable(logging.CRITICAL)  # the reports are limited anyway
    print(json.dumps(asyncio.run(measure(parser.parse_args().secs))))


if __name__ == "__main__":
    main()
