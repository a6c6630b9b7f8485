"""Rate of the good records while some records are bad.

12 tasks raise for 1, 10 or 30 of 100 records, spread over the source. Each bad record is tried twice, and then given up. `waiting`: a
record takes 3 ms. `at_once`: a record takes no time, so the figures are the cost of bad records for the engine. `…_of_ideal` is the rate
divided by the ideal rate. The ideal rate is the rate without bad records, less the share of the second tries. `…_per_second` counts all
records that are done.
"""

import asyncio
import logging
from collections.abc import Iterator
from itertools import count
from typing import Any

from bench.measuring import count_for
from engine import FlowControlBolt, FlowControlSpout, FlowProducer, FlowSettings, TopologyBuilder, run

TASKS = 12
PERCENTS = (1, 10, 30)
WAITING_SECS = 0.003
WARM_SECS = 0.5


class Endless(FlowProducer):
    """Emits numbers forever."""

    def records(self, after: Any) -> Iterator[tuple[int, int]]:
        return ((number, number) for number in count(1))

    def give_up(self, position: Any, record: Any, failure: Any) -> None:
        return None


class Work(FlowControlBolt):
    """Raises for a given number of records per hundred."""

    def __init__(self, percent: int, secs: float) -> None:
        self.limit = percent * 2**32 // 100
        self.secs = secs

    async def process(self, record: int) -> None:
        if self.secs:
            await asyncio.sleep(self.secs)
        if record * 2654435761 % 2**32 < self.limit:
            raise ValueError(record)


async def measure(measured_secs: float) -> dict[str, float]:
    """Return the figures of all percentages, each measured for `measured_secs`."""
    logging.disable(logging.CRITICAL)  # reports of bad records are limited anyway
    figures: dict[str, float] = {}
    for name, work_secs in (("waiting", WAITING_SECS), ("at_once", 0.0)):
        figures[f"{name}_per_second"] = clean = await _rate(0, work_secs, measured_secs)
        for percent in PERCENTS:
            found = await _rate(percent, work_secs, measured_secs)
            figures[f"{name}_{percent}_of_ideal"] = found / clean * (1 + percent / 100)
            figures[f"{name}_{percent}_per_second"] = found
    return figures


async def _rate(percent: int, work_secs: float, secs: float) -> float:
    """Return the records per second that are done, after a warm-up."""
    builder = TopologyBuilder("bad-records")
    builder.set_spout("numbers", lambda: FlowControlSpout(Endless(), FlowSettings(max_retries=1)))
    builder.set_bolt("work", lambda: Work(percent, work_secs), parallelism=TASKS).direct_grouping("numbers")
    async with run(builder.build()) as running:
        await asyncio.sleep(WARM_SECS)
        records, taken = await count_for(secs, lambda: running.snapshot().flow[0].done_records)
    return records / taken
