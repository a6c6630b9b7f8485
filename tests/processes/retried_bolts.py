"""Bolts whose calls raise, in a module that a child process can import."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from engine import BasicBolt, Bolt, Burst, BurstBolt, Fields, FlowControlBolt, StatefulBasicBolt, Tuple

FAILS = {3: 2, 5: 10**6}
"""How often the calls with a number raise."""
FIELDS = Fields("number", "part")


class Fails:
    """Counts the calls of one instance."""

    def __init__(self) -> None:
        self.calls = Counter[int]()

    def hit(self, number: int) -> None:
        self.calls[number] += 1
        if self.calls[number] <= FAILS.get(number, 0):
            raise ValueError(number)


class Plain(Fails, BasicBolt):
    output_fields = FIELDS

    def execute(self, tup: Tuple) -> Iterator[Any]:
        yield tup[0], "begin"
        self.hit(tup[0])
        yield tup[0], "end"


class Explicit(Fails, Bolt):
    output_fields = FIELDS

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup[0], "begin"), tup)
        self.collector.emit((tup[0], "end"), tup)
        self.collector.ack(tup)
        self.hit(tup[0])


class Waits(Fails, BasicBolt):
    output_fields = FIELDS

    async def execute(self, tup: Tuple) -> AsyncIterator[Any]:  # type: ignore[override]
        yield tup[0], "begin"
        await asyncio.sleep(0.001)
        self.hit(tup[0])
        yield tup[0], "end"


class Many(Fails, BurstBolt):
    output_fields = FIELDS

    def execute_many(self, burst: Burst) -> None:
        for tup in burst:
            self.collector.emit((tup[0], "begin"), tup)
            self.hit(tup[0])
            self.collector.emit((tup[0], "end"), tup)


class Keeps(Fails, StatefulBasicBolt):
    output_fields = FIELDS

    def execute(self, tup: Tuple) -> Iterator[Any]:
        count = self.state.get(tup[0], 0) + 1
        self.state.put(tup[0], count)
        yield tup[0], "begin" if count == 1 else "again"
        self.hit(tup[0])
        yield tup[0], "end"


class Records(Fails, FlowControlBolt):
    output_fields = FIELDS

    def process(self, record: int) -> Iterator[Any]:
        yield record, "begin"
        self.hit(record)
        yield record, "end"


class KillsOnce(BasicBolt):
    """Raises at the number 2. Its process is killed while this call waits for its third try."""

    output_fields = Fields("number")

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def prepare(self) -> None:
        self.calls = 0

    def execute(self, tup: Tuple) -> Any:
        if tup[0] == 2 and not self.mark.exists():
            self.calls += 1
            if self.calls == 2:
                self.mark.touch()
                asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGKILL)
            raise ValueError("away")
        return (tup[0],)


class Unloadable(BasicBolt):
    """Takes values that cannot be sent to its process."""

    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> Any:
        return (tup[0],)
