"""Bolts that begin late, wait, or tell late what they have done."""

import asyncio
import os
import time
from collections.abc import AsyncIterator

from engine import BasicBolt, Bolt, Fields, Tuple


class Pages(BasicBolt):
    """Awaits, and then emits more rows than one frame has."""

    output_fields = Fields("number")
    concurrency = 2

    async def execute(self, tup: Tuple) -> AsyncIterator[tuple[int]]:
        await asyncio.sleep(0.001)
        for number in range(100):
            yield (number,)


class BeginsLate(BasicBolt):
    """Fails at its first two calls of `prepare`."""

    output_fields = Fields("number")

    def __init__(self, path: str) -> None:
        self.path = path

    def prepare(self) -> None:
        with open(self.path, "a") as file:
            file.write("x")
            if file.tell() < 3:
                raise ConnectionError("the database is away")

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup["number"],)


class WaitsForFile(BasicBolt):
    """Holds its process at each input until a file exists."""

    def __init__(self, path: str) -> None:
        self.path = path

    def execute(self, tup: Tuple) -> None:
        while not os.path.exists(self.path):
            time.sleep(0.01)


class SleepsSecs(BasicBolt):
    """Sleeps as long as its input says. Other values take no time."""

    def execute(self, tup: Tuple) -> None:
        if isinstance(secs := tup["number"], float):
            time.sleep(secs)


class HangsWithTicks(BasicBolt):
    """Never returns from its first input, while ticks come."""

    tick_tuple_freq_secs = 0.1

    async def execute(self, tup: Tuple) -> None:
        if not tup.is_tick:
            await asyncio.get_running_loop().create_future()


class AcksAllTogether(Bolt):
    """Has calls that return only when the last input has come."""

    concurrency = 20

    def prepare(self) -> None:
        self.has_all = asyncio.Event()

    async def execute(self, tup: Tuple) -> None:
        if tup["number"] == 19:
            self.has_all.set()
        await self.has_all.wait()
        self.collector.ack(tup)
