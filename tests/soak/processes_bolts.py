"""Bolts of the kill campaign of processes, in a module that a child process can import."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator

from engine import BasicBolt, Bolt, Burst, BurstBolt, Tuple


class Single(BasicBolt):
    """Emits `fan` tuples for each input, and extends their path."""

    output_fields = ("number", "path")

    def __init__(self, name: str, fan: int, secs: float) -> None:
        self.name, self.fan, self.secs = name, fan, secs

    def execute(self, tup: Tuple) -> Iterator[tuple[int, str]]:
        if self.secs:
            time.sleep(self.secs)
        for at in range(self.fan):
            yield tup["number"], f"{tup['path']}.{self.name}{at}"


class Awaits(Single):
    """The same in async calls, several at once."""

    concurrency = 16

    async def execute(self, tup: Tuple) -> AsyncIterator[tuple[int, str]]:  # type: ignore[override]
        await asyncio.sleep(self.secs + random.random() / 1000)
        for at in range(self.fan):
            yield tup["number"], f"{tup['path']}.{self.name}{at}"


class Many(BurstBolt):
    """The same in bursts."""

    output_fields = ("number", "path")

    def __init__(self, name: str, fan: int, secs: float) -> None:
        self.name, self.fan, self.secs = name, fan, secs

    def execute_many(self, burst: Burst) -> None:
        if self.secs:
            time.sleep(self.secs)
        for tup in burst:
            for at in range(self.fan):
                self.collector.emit((tup["number"], f"{tup['path']}.{self.name}{at}"), anchors=tup)


class Late(Bolt):
    """The same, from background work that settles inputs in groups."""

    output_fields = ("number", "path")

    def __init__(self, name: str, fan: int, secs: float) -> None:
        self.name, self.fan, self.secs = name, fan, secs

    def prepare(self) -> None:
        self.waiting: list[Tuple] = []
        self.context.create_task(self.settle())

    def execute(self, tup: Tuple) -> None:
        self.waiting.append(tup)

    async def settle(self) -> None:
        while True:
            await asyncio.sleep(0.003)
            group, self.waiting = self.waiting, []
            for tup in group:
                for at in range(self.fan):
                    self.collector.emit((tup["number"], f"{tup['path']}.{self.name}{at}"), anchors=tup)
                self.collector.ack(tup)


KINDS = {"single": Single, "awaits": Awaits, "many": Many, "late": Late}
