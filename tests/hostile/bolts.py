"""Every form of bolt, in a module that a child process can import. Each behaves as the case of its input says."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from engine import (
    BasicBolt,
    Bolt,
    Burst,
    BurstBolt,
    FlowControlBolt,
    StatefulBasicBolt,
    Tuple,
    bolt,
)
from engine.transactional import BatchBolt, Committer
from tests.hostile.case import FIELDS, RAISES, Value, Verdicts
from tests.hostile.variables import Owns, begin_call


class Plain(Owns, Bolt):
    output_fields = FIELDS

    def execute(self, tup: Tuple) -> None:
        if tup["value"].case.scenario == "times out" and tup["number"] == RAISES:
            self.kept = tup
            return
        tup["value"].case.act(tup["value"], self)
        self.collector.emit(tuple(tup), tup)
        self.collector.ack(tup)


class Basic(Owns, BasicBolt):
    output_fields = FIELDS

    def execute(self, tup: Tuple) -> Any:
        tup["value"].case.act(tup["value"], self)
        return tuple(tup)


class Threads(Basic):
    threads = 2

    def execute(self, tup: Tuple) -> Any:
        check = begin_call(tup["number"])
        try:
            return super().execute(tup)
        finally:
            check()


class Waits(Owns, BasicBolt):
    output_fields = FIELDS

    async def execute(self, tup: Tuple) -> Any:
        check = begin_call(tup["number"])
        await asyncio.sleep(0.001)
        check()
        if tup["value"].case.scenario == "drains" and tup["number"] == RAISES:
            await asyncio.sleep(3600)
        tup["value"].case.act(tup["value"], self)
        return tuple(tup)


class WaitsAtOnce(Waits):
    concurrency = 4


class WaitsInTheBackground(Owns, Bolt):
    output_fields = FIELDS

    def execute(self, tup: Tuple) -> None:
        self.context.create_task(self.finish(tup))

    async def finish(self, tup: Tuple) -> None:
        check = begin_call(tup["number"])
        await asyncio.sleep(0.001)
        check()
        tup["value"].case.act(tup["value"], self)
        self.collector.ack(tup)


class Bursts(Owns, BurstBolt):
    output_fields = FIELDS

    def execute_many(self, burst: Burst) -> None:
        for tup, value in burst.items("value"):
            value.case.act(value, self)
            self.collector.emit(tuple(tup), tup)


@bolt(FIELDS)
def function(tup: Tuple) -> Iterator[tuple[Any, ...]]:
    tup["value"].case.act(tup["value"])
    yield tuple(tup)


@bolt(FIELDS)
async def async_function(tup: Tuple) -> AsyncIterator[tuple[Any, ...]]:
    check = begin_call(tup["number"])
    await asyncio.sleep(0)
    check()
    tup["value"].case.act(tup["value"])
    yield tuple(tup)


@bolt(FIELDS, burst=True)
def burst_function(burst: Burst) -> Iterator[tuple[Tuple, tuple[Any, ...]]]:
    for tup, value in burst.items("value"):
        value.case.act(value)
        yield tup, tuple(tup)


class Keeps(Owns, StatefulBasicBolt):
    output_fields = FIELDS

    def execute(self, tup: Tuple) -> Any:
        self.state.put(tup["number"], "seen")
        tup["value"].case.act(tup["value"], self)
        return tuple(tup)


class Records(Owns, FlowControlBolt):
    output_fields = FIELDS

    async def process(self, value: Value) -> Any:
        check = begin_call(value.number)
        await asyncio.sleep(0)
        check()
        value.case.act(value, self)
        return value.number, value


class Batch(Owns, BatchBolt):
    output_fields = FIELDS

    def execute(self, tup: Tuple) -> None:
        tup["value"].case.act(tup["value"], self)
        self.collector.emit((tup["number"], tup["value"]))

    def finish_batch(self) -> None:
        return None


class Commits(Committer):
    """Notes the numbers of each batch that commits."""

    def __init__(self, verdicts: Verdicts) -> None:
        self.verdicts = verdicts

    def prepare(self) -> None:
        self.numbers: list[int] = []

    def execute(self, tup: Tuple) -> None:
        self.numbers.append(tup["number"])

    def finish_batch(self) -> None:
        self.verdicts.acked += self.numbers


class Sink(Bolt):
    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)
