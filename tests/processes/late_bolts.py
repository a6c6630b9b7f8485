"""Bolts that begin late, wait, or tell late what they have done."""

import asyncio
import os
import time
from collections.abc import AsyncIterator

from engine import BasicBolt, Fields, Tuple


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
