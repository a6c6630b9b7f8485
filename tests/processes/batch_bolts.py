"""Bolts of transactions for the tests, in a module that a child process can import."""

import asyncio
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine import BasicBolt, Burst, FatalError, Fields, Tuple
from engine.transactional import BatchBolt, BurstBolt, Committer, FailedBatch

LOGGER = logging.getLogger("users.batches")


class Doubles(BatchBolt):
    """Emits the double of each number, and at the end the negative count of the batch."""

    output_fields = "number"

    def prepare(self) -> None:
        self.count = 0

    def execute(self, tup: Tuple) -> None:
        self.count += 1
        self.collector.emit((2 * tup["number"],))

    def finish_batch(self) -> None:
        self.collector.emit((-self.count,))


class Waiting(Doubles):
    """Does the same, and awaits each step."""

    async def prepare(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.001)
        self.count = 0

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().execute(tup)

    async def finish_batch(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.01)
        super().finish_batch()


class InBursts(BurstBolt):
    """Does the same in bursts."""

    output_fields = "number"
    burst_rows = 7

    def prepare(self) -> None:
        self.count = 0

    def execute_many(self, burst: Burst) -> None:
        assert len(burst) <= 7
        self.count += len(burst)
        self.collector.emit_many([(2 * number,) for number in burst["number"]])

    def finish_batch(self) -> None:
        self.collector.emit((-self.count,))


class Parts(BatchBolt):
    """Sends even numbers to one stream, and odd ones directly to the first task of another bolt."""

    output_fields = {"even": Fields("number"), "odd": Fields("number", direct=True)}

    def execute(self, tup: Tuple) -> None:
        number = tup["number"]
        if number % 2:
            self.collector.emit_direct(self.context.task_ids("odds")[0], (number,), stream="odd")
        else:
            self.collector.emit((number,), stream="even")

    def finish_batch(self) -> None:
        """Do nothing."""


class PlusOne(BasicBolt):
    """Adds 1. It has one instance for all batches."""

    output_fields = "number"

    def execute(self, tup: Tuple) -> Iterator[tuple[int]]:
        yield (tup["number"] + 1,)


class SlowPlusOne(BasicBolt):
    """Does the same with several calls at once."""

    output_fields = "number"
    concurrency = 4

    async def execute(self, tup: Tuple) -> tuple[int]:
        await asyncio.sleep(0.001)
        return (tup["number"] + 1,)


class PlusOneInThreads(BasicBolt):
    """Does the same in threads."""

    output_fields = "number"
    threads = 2

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup["number"] + 1,)


class Total(Committer):
    """Emits the sum of each batch at its commit, with the process."""

    output_fields = ("total", "pid")

    def prepare(self) -> None:
        self.total = 0

    def execute(self, tup: Tuple) -> None:
        self.total += tup["number"]

    async def finish_batch(self) -> None:
        await asyncio.sleep(0.002)
        self.collector.emit((self.total, os.getpid()))


class Once(BatchBolt):
    """Does something to the first batch that has the number 3, once. A file remembers it."""

    output_fields = "number"

    def __init__(self, path: str, how: str) -> None:
        self.path = Path(path)
        self.how = how

    def execute(self, tup: Tuple) -> None:
        if self.how != "finish" and tup["number"] == 3:
            self._act()
        self.collector.emit((tup["number"],))

    def finish_batch(self) -> None:
        if self.how == "finish":
            self._act()

    def _act(self) -> None:
        if self.path.exists():
            return
        self.path.touch()
        if self.how == "refuse":
            raise FailedBatch("not yet")
        if self.how == "raise":
            raise ValueError("broken once")
        if self.how == "fatal":
            raise FatalError("the license has ended", hint="Renew it.")
        if self.how == "hang":
            os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGKILL)


class DiesInCommit(Total):
    """Kills its process in the first commit."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    async def finish_batch(self) -> None:
        if not self.path.exists():
            self.path.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        await super().finish_batch()


class EmitsOnce(BatchBolt):
    """Emits an odd value in the first attempt, then the numbers only."""

    output_fields = "number"

    def __init__(self, path: str, odd: Any) -> None:
        self.path = Path(path)
        self.odd = odd

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup["number"],))

    def finish_batch(self) -> None:
        if not self.path.exists():
            self.path.touch()
            self.collector.emit((self.odd(),))


class Notes(BatchBolt):
    """Notes the cleanup of each attempt in a file."""

    output_fields = "number"

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def execute(self, tup: Tuple) -> None:
        self.context.counter("seen").add()
        self.collector.emit((tup["number"],))

    def finish_batch(self) -> None:
        LOGGER.warning("batch %s is done", self.attempt.txid)

    def cleanup(self) -> None:
        with self.path.open("a") as notes:
            notes.write(f"{self.attempt.txid}\n")


class Unhashable:
    """A value that a fields grouping refuses."""


def unhashable() -> Unhashable:
    """Return such a value."""
    return Unhashable()


class FailsOften(BatchBolt):
    """Emits the numbers. The first attempts fail, or emit an odd value before each number. A file counts them."""

    output_fields = "number"

    def __init__(self, path: str, attempts: int, odd: Any = None) -> None:
        self.path = Path(path)
        self.attempts = attempts
        self.odd = odd

    def prepare(self) -> None:
        with self.path.open("a+") as dots:
            self.fails = dots.tell() < self.attempts
            dots.write(".")

    def execute(self, tup: Tuple) -> None:
        if self.fails and self.odd is not None:
            self.collector.emit((self.odd(),))
        self.collector.emit((tup["number"],))

    def finish_batch(self) -> None:
        if self.fails and self.odd is None:
            raise FailedBatch("not yet")


class Count(BatchBolt):
    """Counts the tuples of each batch."""

    output_fields = "count"

    def prepare(self) -> None:
        self.count = 0

    def execute(self, tup: Tuple) -> None:
        self.count += 1

    def finish_batch(self) -> None:
        self.collector.emit((self.count,))


class RaisesAtSevens(BasicBolt):
    """Passes on numbers, and raises at those that end in 7."""

    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        if tup["number"] % 10 == 7:
            raise ValueError(f"{tup['number']} is bad")
        return (tup["number"],)


class RaisesInBurstsAtSevens(BurstBolt):
    """Does the same in bursts."""

    output_fields = "number"
    burst_rows = 4

    def execute_many(self, burst: Any) -> None:
        for tup in burst:
            if tup["number"] % 10 == 7:
                raise ValueError(f"{tup['number']} is bad")
            self.collector.emit((tup["number"],))

    def finish_batch(self) -> None:
        return None


class RaisesAwaitedAtSevens(BatchBolt):
    """Does the same with awaited calls."""

    output_fields = "number"

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(0.001)
        if tup["number"] % 10 == 7:
            raise ValueError(f"{tup['number']} is bad")
        self.collector.emit((tup["number"],))

    def finish_batch(self) -> None:
        return None
